"""Works with a server through meta-memcache, which speaks the meta commands only."""

import sys
import time

from meta_memcache import (
    CacheClient,
    Conflict,
    Key,
    LeasePolicy,
    Miss,
    NotStored,
    RecachePolicy,
    RequestFlags,
    ServerAddress,
    SetMode,
    StalePolicy,
    Success,
    connection_pool_factory_builder,
)

checks = 0


def check(got, wanted):
    global checks
    checks += 1
    if got != wanted:
        raise AssertionError(f"wanted {wanted!r}, got {got!r}")


def store(client, mode, key, value):
    return client.set(key=key, value=value, ttl=100, set_mode=mode)


def basics(client):
    check(client.get(key=Key("m:none")), None)
    check(client.set(key=Key("m:a"), value="one", ttl=100), True)
    check(client.get(key=Key("m:a")), "one")
    check(client.set(key=Key("m:list"), value=[1, {"two": 3}], ttl=100), True)
    check(client.get(key=Key("m:list")), [1, {"two": 3}])
    check(store(client, SetMode.ADD, key=Key("m:a"), value="two"), False)
    check(store(client, SetMode.ADD, key=Key("m:b"), value="two"), True)
    check(store(client, SetMode.REPLACE, key=Key("m:c"), value="x"), False)
    check(store(client, SetMode.REPLACE, key=Key("m:b"), value=b"bytes"), True)
    check(store(client, SetMode.APPEND, key=Key("m:b"), value=b"-end"), True)
    check(store(client, SetMode.PREPEND, key=Key("m:b"), value=b"begin-"), True)
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
        key = Key(name)
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
    """The life of a shared value: made by one winner, served stale while it is remade."""
    key = Key("m:lease")
    asked = RequestFlags(return_value=True, vivify_on_miss_ttl=30, return_cas_token=True)
    first = client.meta_get(key, asked)
    check((first.size, first.flags.win), (0, True))
    second = client.meta_get(key, asked)
    check((second.size, second.flags.win), (0, False))
    won = RequestFlags(cas_token=first.flags.cas_token, cache_ttl=100)
    check(isinstance(client.meta_set(key, "made", won), Success), True)
    check(client.meta_get(key, asked).value, "made")

    near = RequestFlags(return_value=True, recache_ttl=200, return_ttl=True, return_cas_token=True)
    winner, other = client.meta_get(key, near), client.meta_get(key, near)
    check((winner.flags.win, other.flags.win), (True, False))
    check((winner.value, 98 <= winner.flags.ttl <= 100), ("made", True))

    stale = RequestFlags(mark_stale=True, cache_ttl=30)
    check(isinstance(client.meta_delete(key, stale), Success), True)
    again = client.meta_get(key, asked)
    check((again.flags.stale, again.flags.win, again.value), (True, True, "made"))
    other = client.meta_get(key, asked)
    check((other.flags.stale, other.flags.win), (True, False))
    remade = RequestFlags(cas_token=again.flags.cas_token, cache_ttl=100)
    check(isinstance(client.meta_set(key, "remade", remade), Success), True)
    fresh = client.meta_get(key, asked)
    check((fresh.value, bool(fresh.flags.stale)), ("remade", False))
    check(isinstance(client.meta_set(key, "late", remade), Conflict), True)
    missing = client.meta_get(Key("m:none"), RequestFlags(return_value=True))
    check(isinstance(missing, Miss), True)
    add = RequestFlags(mode=SetMode.ADD.value)
    check(isinstance(client.meta_set(key, "x", add), NotStored), True)


def policies(client):
    """The same through the client's own policies."""
    key, lease = Key("m:policy"), LeasePolicy(ttl=30, miss_retries=1, miss_retry_wait=0.01)
    check(client.get_or_lease(key=key, lease_policy=lease), None)
    check(client.get_or_lease(key=key, lease_policy=lease), None)
    check(client.set(key=key, value="made", ttl=100), True)
    check(client.get_or_lease(key=key, lease_policy=lease), "made")
    recache = RecachePolicy(ttl=200)
    check(client.get(key=key, recache_policy=recache), None)
    check(client.get(key=key, recache_policy=recache), "made")
    stale = StalePolicy(mark_stale_on_deletion_ttl=30)
    check(client.set(key=key, value="made", ttl=300), True)
    check(client.invalidate(key=key, stale_policy=stale), True)
    check(client.get(key=key, recache_policy=recache), None)
    check(client.get(key=key, recache_policy=recache), "made")


def expiry(client):
    client.set(key=Key("m:short"), value="x", ttl=1)
    check(client.get(key=Key("m:short")), "x")
    time.sleep(2.1)
    check(client.get(key=Key("m:short")), None)


def main():
    server = ServerAddress(sys.argv[1], int(sys.argv[2]))
    client = CacheClient.cache_client_from_servers(
        servers=[server],
        connection_pool_factory_fn=connection_pool_factory_builder(),
    )
    parts = (basics, many, odd_keys, counting, uniques, large, win_and_recache, policies, expiry)
    for part in parts:
        part(client)
    print(f"{checks} checks")


main()
