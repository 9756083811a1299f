"""Works with a server through redis-py, in both versions of Redis' protocol."""

import os
import sys
import threading

import redis

checks = 0

# Over TLS, if this names the certificate authority of the server.
CA_FILE = os.environ.get("CA_FILE")
TLS = {"ssl": True, "ssl_ca_certs": CA_FILE} if CA_FILE else {}


def check(got, wanted):
    global checks
    checks += 1
    if got != wanted:
        raise AssertionError(f"wanted {wanted!r}, got {got!r}")


def refused(call, words):
    global checks
    checks += 1
    try:
        got = call()
    except redis.ResponseError as error:
        if words not in str(error):
            raise AssertionError(f"wanted {words!r} in {error}") from error
        return
    raise AssertionError(f"wanted {words!r}, got {got!r}")


def strings(client):
    check(client.get("py:none"), None)
    check(client.set("py:a", "one"), True)
    check(client.get("py:a"), b"one")
    check(client.set("py:a", "two", nx=True), None)
    check(client.set("py:a", "two", xx=True, get=True), b"one")
    check(client.set("py:n", "two", xx=True), None)
    check(client.setnx("py:b", b"\x00\xff\r\n"), True)
    check(client.get("py:b"), b"\x00\xff\r\n")
    check(client.mset({"py:x": 1, "py:y": 2}), True)
    check(client.mget("py:x", "py:none", "py:y"), [b"1", None, b"2"])
    check(client.msetnx({"py:x": 1, "py:z": 2}), False)
    check(client.append("py:a", "+"), 4)
    check(client.strlen("py:a"), 4)
    check(client.getrange("py:a", 1, -2), b"wo")
    check(client.setrange("py:a", 6, "x"), 7)
    check(client.get("py:a"), b"two+\x00\x00x")
    check(client.getdel("py:a"), b"two+\x00\x00x")
    check(client.getset("py:a", "new"), None)
    check(client.type("py:a"), b"string")
    check(client.exists("py:a", "py:none", "py:a"), 2)
    check(client.touch("py:a", "py:none"), 1)
    check(client.delete("py:a", "py:b", "py:none"), 2)
    check(client.unlink("py:x", "py:y"), 2)
    large = bytes(i % 251 for i in range(700_000))
    check(client.set("py:large", large), True)
    check(client.get("py:large"), large)


def counting(client):
    check(client.incr("py:n"), 1)
    check(client.incrby("py:n", 10), 11)
    check(client.decrby("py:n", 20), -9)
    check(client.decr("py:n"), -10)
    check(client.incrbyfloat("py:f", 10.5), 10.5)
    check(client.incrbyfloat("py:f", 0.1), 10.6)
    client.set("py:text", "x")
    refused(lambda: client.incr("py:text"), "value is not an integer or out of range")
    client.set("py:n", 2**63 - 1)
    refused(lambda: client.incr("py:n"), "increment or decrement would overflow")


def expiry(client):
    client.set("py:e", "x", ex=1000)
    check(999 <= client.ttl("py:e") <= 1000, True)
    check(client.expire("py:e", 500, gt=True), False)
    check(client.expire("py:e", 500, lt=True), True)
    check(498_000 <= client.pttl("py:e") <= 500_000, True)
    check(client.getex("py:e", persist=True), b"x")
    check((client.ttl("py:e"), client.ttl("py:none")), (-1, -2))
    check(client.expireat("py:e", 4_000_000_000), True)
    check(client.expiretime("py:e"), 4_000_000_000)
    check(client.persist("py:e"), True)
    check(client.persist("py:e"), False)
    client.psetex("py:p", 1_000_000, "x")
    check(998 <= client.ttl("py:p") <= 1000, True)
    check(client.pexpire("py:p", 0), True)
    check(client.get("py:p"), None)
    refused(lambda: client.setex("py:p", 0, "x"), "invalid expire time in 'setex' command")


def server(client):
    check(client.ping(), True)
    check(client.echo("there?"), b"there?")
    check(client.info()["redis_mode"], "standalone")
    check(client.config_get("maxmemory-policy"), {"maxmemory-policy": "allkeys-lru"})
    check(client.client_setname("checker"), True)
    check(client.client_getname() in (b"checker", "checker"), True)
    check(client.command_count() > 40, True)
    check(client.command()["get"]["arity"], 2)
    check(client.dbsize() > 0, True)
    refused(lambda: client.lpush("py:list", 1), "unknown command 'LPUSH'")


def scanning(client):
    wanted = {f"py:scan:{i}".encode() for i in range(500)}
    for key in wanted:
        client.set(key, "x")
    check(set(client.scan_iter("py:scan:*", count=50)), wanted)
    check(client.randomkey() is not None, True)


def pipelines(client):
    pipeline = client.pipeline(transaction=False)
    for i in range(1000):
        pipeline.set(f"py:pipe:{i}", i).get(f"py:pipe:{i}")
    replies = pipeline.execute()
    check(replies[::2], [True] * 1000)
    check(replies[1::2], [str(i).encode() for i in range(1000)])


def threads(client):
    client.delete("py:threads")

    def work():
        for _ in range(250):
            client.incr("py:threads")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(client.get("py:threads"), b"1000")


def main():
    for protocol in (2, 3):
        address = {"host": sys.argv[1], "port": int(sys.argv[2])}
        client = redis.Redis(**address, **TLS, protocol=protocol)
        check(client.flushall(), True)
        for part in (strings, counting, expiry, server, scanning, pipelines, threads):
            part(client)
        client.close()
    print(f"{checks} checks")


main()
