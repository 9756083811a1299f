"""Works with a server through python-binary-memcached: the binary protocol, with assertions.

A third and a fourth argument are a name and a password for SASL's PLAIN.
"""

import os
import ssl
import sys
import time

import bmemcached
from bmemcached.exceptions import MemcachedException

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
    check(client.get("a"), "one")
    check(client.get("missing"), None)
    check(client.add("a", "two"), False)
    check(client.add("b", "two"), True)
    check(client.replace("c", "three"), False)
    check(client.replace("b", "three"), True)
    check(client.get("b"), "three")
    check(client.set("number", 17), True)
    check(client.get("number"), 17)
    check(client.set("list", [1, "two", None]), True)
    check(client.get("list"), [1, "two", None])
    value, unique = client.gets("b")
    check(value, "three")
    check(client.cas("b", "four", unique), True)
    check(client.cas("b", "five", unique), False)
    check(client.get("b"), "four")
    check(client.delete("b"), True)
    check(client.delete("b"), True)
    check(client.get("b"), None)


def counting(client):
    check(client.incr("n", 1, default=10), 10)
    check(client.incr("n", 5), 15)
    check(client.decr("n", 7), 8)
    check(client.decr("n", 100), 0)


def many(client):
    values = {f"many:{i}": f"value {i} " * (i % 20 + 1) for i in range(1000)}
    check(client.set_multi(values), [])
    found = client.get_multi(list(values) + ["missing"])
    check(found, values)
    large = bytes(range(256)) * 3500
    check(client.set("large", large), True)
    check(client.get("large"), large)
    check(client.delete_multi(list(values)), True)
    check(client.get_multi(list(values)), {})


def times(client):
    client.set("short", "x", time=1)
    client.set("long", "x", time=100)
    check(client.get("short"), "x")
    time.sleep(2.1)
    check(client.get("short"), None)
    check(client.get("long"), "x")


def server(client):
    (statistics,) = client.stats().values()
    check(statistics["curr_items"] != b"0", True)
    (settings,) = client.stats("settings").values()
    check(b"maxbytes" in settings or "maxbytes" in settings, True)
    check(client.flush_all(), True)
    check(client.get("a"), None)


def strangers(address, name):
    client = bmemcached.Client(address, name, "wrong")
    try:
        client.get("a")
    except MemcachedException as refused:
        check(refused.code, 0x20)
    else:
        raise AssertionError("a wrong password was right")
    client.disconnect_all()


def main():
    address = (f"{sys.argv[1]}:{sys.argv[2]}",)
    client = bmemcached.Client(address, *sys.argv[3:5], tls_context=CONTEXT)
    storage(client)
    counting(client)
    many(client)
    times(client)
    server(client)
    client.disconnect_all()
    if len(sys.argv) > 3:
        strangers(address, sys.argv[3])
    print(f"{checks} checks")


main()
