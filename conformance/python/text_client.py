"""Works with a server through pymemcache: every classic command, with assertions."""

import os
import ssl
import sys
import time

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError

checks = 0

# Over TLS, if this names the certificate authority of the server.
CA_FILE = os.environ.get("CA_FILE")
CONTEXT = ssl.create_default_context(cafile=CA_FILE) if CA_FILE else None


def check(got, wanted):
    global checks
    checks += 1
    if got != wanted:
        raise AssertionError(f"wanted {wanted!r}, got {got!r}")


def storage(client):
    check(client.set("a", "one"), True)
    check(client.get("a"), b"one")
    check(client.get("missing"), None)
    check(client.get("missing", default=5), 5)
    check(client.add("a", "two"), False)
    check(client.add("b", "two"), True)
    check(client.replace("c", "three"), False)
    check(client.replace("b", "three"), True)
    check(client.append("b", "-end"), True)
    check(client.prepend("b", "begin-"), True)
    check(client.append("missing", "x"), False)
    check(client.get("b"), b"begin-three-end")
    value, unique = client.gets("b")
    check(value, b"begin-three-end")
    check(client.cas("b", "four", unique), True)
    check(client.cas("b", "five", unique), False)
    check(client.cas("missing", "five", unique), None)
    check(client.get("b"), b"four")
    check(client.delete("b"), True)
    check(client.delete("b"), False)


def counting(client):
    check(client.incr("n", 1), None)
    client.set("n", "10")
    check(client.incr("n", 5), 15)
    check(client.decr("n", 7), 8)
    check(client.decr("n", 100), 0)
    client.set("n", str(2**64 - 1))
    check(client.incr("n", 1), 0)
    client.set("n", "word")
    try:
        client.incr("n", 1)
        raise AssertionError("a word was counted up")
    except MemcacheClientError:
        check(client.get("n"), b"word")


def times(client):
    check(client.touch("missing", 5), False)
    client.set("short", "x", expire=1)
    client.set("saved", "x", expire=1)
    client.set("gat", "x", expire=1)
    check(client.touch("saved", 100), True)
    answer = client.raw_command(b"gat 100 gat", end_tokens=b"END\r\n")
    check(answer, b"VALUE gat 0 1\r\nx\r\n")
    check(client.get("short"), b"x")
    time.sleep(2.1)
    check(client.get("short"), None)
    check(client.get("saved"), b"x")
    check(client.get("gat"), b"x")
    client.set("past", "x", expire=-1)
    check(client.get("past"), None)


def many(client):
    values = {f"many:{i}": f"value {i}".encode() * (i % 20 + 1) for i in range(1000)}
    check(client.set_many(values), [])
    check(client.get_many(list(values)), values)
    found = client.gets_many(list(values)[:10])
    check({key: value for key, (value, _) in found.items()}, dict(list(values.items())[:10]))
    check(client.delete_many(list(values)[:500]), True)
    check(len(client.get_many(list(values))), 500)


def noreply(client):
    for i in range(200):
        client.set(f"quiet:{i}", str(i), noreply=True)
    check(client.get("quiet:199"), b"199")
    client.add("quiet:0", "x", noreply=True)
    client.replace("quiet:1", "replaced", noreply=True)
    client.append("quiet:2", "+", noreply=True)
    client.prepend("quiet:2", "-", noreply=True)
    client.incr("quiet:3", 10, noreply=True)
    client.decr("quiet:4", 1, noreply=True)
    client.touch("quiet:5", 0, noreply=True)
    client.delete("quiet:6", noreply=True)
    keys = [f"quiet:{i}" for i in range(7)]
    wanted = {0: b"0", 1: b"replaced", 2: b"-2+", 3: b"13", 4: b"3", 5: b"5"}
    check(client.get_many(keys), {f"quiet:{i}": v for i, v in wanted.items()})


def edges(client):
    for size in (0, 1, 1000, 16384, 65536, 500_000, 1_000_000):
        value = bytes(i * 7 % 256 for i in range(1000)) * (size // 1000 + 1)
        check(client.set("large", value[:size]), True)
        check(client.get("large"), value[:size])
    check(client.set("k" * 250, "long"), True)
    check(client.get("k" * 250), b"long")
    try:
        client.set("k" * 251, "longer")
        raise AssertionError("a key of 251 bytes was taken")
    except MemcacheIllegalInputError:
        pass
    check(client.set("crlf", b"\r\nEND\r\nVALUE x 0 1\r\n"), True)
    check(client.get("crlf"), b"\r\nEND\r\nVALUE x 0 1\r\n")
    check(client.set("flags", "x", flags=2**32 - 1), True)
    try:
        client.set("too large", "x" * (2 << 20))
        raise AssertionError("a key with a space was taken")
    except MemcacheIllegalInputError:
        pass


def unicode_keys(address):
    client = Client(address, allow_unicode_keys=True, default_noreply=False, tls_context=CONTEXT)
    for key in ("schlüssel", "ключ", "鍵", "🔑"):
        check(client.set(key, key.encode()), True)
        check(client.get(key), key.encode())
    check(len(client.get_many(["schlüssel", "ключ", "鍵", "🔑"])), 4)


def administration(client):
    stats = client.stats()
    check(stats[b"limit_maxbytes"], 64 << 20)
    check(stats[b"curr_items"] > 0, True)
    check(len(client.stats("settings")) > 10, True)
    check(client.version().startswith(b"1.6"), True)
    check(client.flush_all(), True)
    time.sleep(1.1)
    check(client.get("a"), None)
    check(client.set("a", "again"), True)
    check(client.get("a"), b"again")
    client.flush_all(delay=100)
    check(client.get("a"), b"again")


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    client = Client(address, default_noreply=False, timeout=10, tls_context=CONTEXT)
    for part in (storage, counting, times, many, noreply, edges):
        part(client)
    unicode_keys(address)
    administration(client)
    client.quit()
    print(f"{checks} checks")


main()
