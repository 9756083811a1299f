"""Spreads keys over several servers with pymemcache's HashClient.

many_servers.py fill|find PORT... COUNT: stores COUNT keys, or prints how many of them it finds.
"""

import sys

from pymemcache.client.hash import HashClient

work, *ports, count = sys.argv[1:]
client = HashClient(
    [("127.0.0.1", int(port)) for port in ports],
    connect_timeout=5,
    timeout=5,
    ignore_exc=True,
    # A server that is down stays in the ring, so that its keys go nowhere else.
    retry_attempts=2**31,
    retry_timeout=0,
)
keys = [f"scaled:{key}" for key in range(int(count))]
if work == "fill":
    for place, key in enumerate(keys):
        assert client.set(key, str(place), noreply=False), key
    print(len(keys))
else:
    found = 0
    for place, key in enumerate(keys):
        value = client.get(key)
        assert value in (None, str(place).encode()), (key, value)
        found += value is not None
    print(found)
