"""Works with a server through meta-memcache, which speaks the meta commands only."""

import sys
import time

from meta_memcache import CacheClient, Key, SetMode, connection_pool_factory_builder
from meta_memcache.configuration import ServerAddress
from meta_memcache.protocol import Conflict, Miss, NotStored, RequestFlags, Success, Value

checks = 0


def check(got, wanted):
    global checks
    checks += 1
    if got != wanted:
        raise AssertionError(f"wanted {wanted!r}, got {got!r}")


def flags(**named):
    return RequestFlags(**named)


def basics(client):
    check(client.get(key=Key("m:none")), None)
    check(client.set(key=Key("m:a"), value="one", ttl=100), True)
    check(client.get(key=Key("m:a")), "one")
    check(client.set(key=Key("m:list"), value=[1, {"two": 3}], ttl=100), True)
    check(client.get(key=Key("m:list")), [1, {"two": 3}])
    check(client.add(key=Key("m:a"), value="two", ttl=100), False)
    check(client.add(key=Key("m:b"), value="two", ttl=100), True)
    check(client.replace(key=Key("m:c"), value="x", ttl=100), False)
    check(client.replace(key=Key("m:b"), value=b"bytes", ttl=100), True)
    check(client.append(key=Key("m:b"), value=b"-end", ttl=100), True)
    check(client.prepend(key=Key("m:b"), value=b"begin-", ttl=100), True)
    check(client.get(key=Key("m:b")), b"begin-bytes-end")
    check(client.delete(key=Key("m:b")), True)
    check(client.delete(key=Key("m:b")), False)
    check(client.touch(key=Key("m:a"), ttl=50), True)
    check(client.touch(key=Key("m:none"), ttl=50), False)


def many(client):
    keys = [Key(f"m:many:{i}") for i in range(500)]
    for i, key in enumerate(keys):
        client.set(key=key, value=i, ttl=100, no_reply=i % 2 == 0)
    found = client.multi_get(keys=keys + [Key("m:none")])
    check([found[key] for key in keys], list(range(500)))
    check(found[Key("m:none")], None)


def odd_keys(client):
    for name in ("schlüssel", "with space", "line\r\nbreak", "x" * 240, "鍵"):
        key = Key(name, is_unicode=True)
        check(client.set(key=key, value=name, ttl=100), True)
        check(client.get(key=key), name)
        check(client.multi_get(keys=[key])[key], name)


def counting(client):
    key = Key("m:n")
    check(client.delta(key=key, delta=1), False)
    check(client.delta_initialize(key=key, delta=1, initial_value=10, initial_ttl=100), True)
    check(client.delta_and_get(key=key, delta=5), 15)
    check(client.delta_and_get(key=key, delta=-7), 8)
    check(client.delta_and_get(key=key, delta=-100), 0)
    check(client.delta_initialize_and_get(key=key, delta=2, initial_value=9, initial_ttl=9), 2)


def uniques(client):
    key = Key("m:cas")
    check(client.set(key=key, value="one", ttl=100), True)
    value, unique = client.get_cas_typed(key=key, cls=str)
    check(value, "one")
    check(client.set(key=key, value="two", ttl=100, cas_token=unique), True)
    check(client.set(key=key, value="three", ttl=100, cas_token=unique), False)
    check(client.get(key=key), "two")
    check(client.delete(key=key, cas_token=unique), False)


def large(client):
    value = bytes(i % 251 for i in range(700_000))
    check(client.set(key=Key("m:large"), value=value, ttl=100), True)
    check(client.get(key=Key("m:large")), value)


def win_and_recache(client):
    """The life of a value that many read: made by one winner, served stale while it is remade."""
    key = Key("m:lease")
    asked = flags(return_value=True, vivify_on_miss_ttl=30, return_cas_token=True)
    first = client.meta_get(key, asked)
    check((first.size, first.flags.win), (0, True))
    second = client.meta_get(key, asked)
    check((second.size, second.flags.win), (0, False))
    won = flags(cas_token=first.flags.cas_token, cache_ttl=100)
    check(isinstance(client.meta_set(key, b"made", 100, won), Success), True)
    check(client.meta_get(key, asked).value, b"made")

    near = flags(return_value=True, recache_ttl=200, return_ttl=True, return_cas_token=True)
    winner, other = client.meta_get(key, near), client.meta_get(key, near)
    check((winner.flags.win, other.flags.win), (True, False))
    check(winner.value, b"made")

    stale = flags(mark_stale=True, cache_ttl=30)
    check(isinstance(client.meta_delete(key, stale), Success), True)
    again = client.meta_get(key, asked)
    check((again.flags.stale, again.value), (True, b"made"))
    remade = flags(cas_token=again.flags.cas_token, cache_ttl=100)
    client.meta_set(key, b"remade", 100, remade)
    check((client.meta_get(key, asked).value, client.meta_get(key, asked).flags.stale),
          (b"remade", None if client.meta_get(key, asked).flags.stale is None else False))
    old = flags(cas_token=again.flags.cas_token, cache_ttl=100)
    check(isinstance(client.meta_set(key, b"late", 100, old), Conflict), True)
    check(isinstance(client.meta_get(Key("m:none"), flags(return_value=True)), Miss), True)
    add = flags(mode=b"E")
    check(isinstance(client.meta_set(key, b"x", 1, add), NotStored), True)


def expiry(client):
    client.set(key=Key("m:short"), value="x", ttl=1)
    check(client.get(key=Key("m:short")), "x")
    time.sleep(2.1)
    check(client.get(key=Key("m:short")), None)


def main():
    from meta_memcache.configuration import default_key_encoder  # noqa: F401

    server = ServerAddress(sys.argv[1], int(sys.argv[2]))
    client = CacheClient.cache_client_from_servers(
        servers=[server],
        connection_pool_factory_fn=connection_pool_factory_builder(),
    )
    parts = (basics, many, odd_keys, counting, uniques, large, win_and_recache, expiry)
    for part in parts:
        part(client)
    print(f"{checks} checks")


main()
