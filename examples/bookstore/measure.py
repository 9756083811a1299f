"""One run: requests through a fresh server, each a get and, after a miss, a query and a set.

Clients are threads with a connection to the cache and a session with the database each; the n-th
of them takes every n-th request, and sends the next when one is answered. A sample of the values
found in the cache is compared with the database, when nothing is being timed any more.
"""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from interactions import KINDS, make
from server import Server

# One hit in this many is compared with the database.
CHECKED = 100
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Seen:
    """A client's results, request by request and by place in `KINDS`."""

    latencies_s: list = field(default_factory=list)
    queries_s: list = field(default_factory=lambda: [[] for _ in KINDS])
    value_bytes: list = field(default_factory=lambda: [0] * len(KINDS))
    hits: list = field(default_factory=lambda: [0] * len(KINDS))
    sample: list = field(default_factory=list)


class Wrong(Exception):
    """The cache or its counters contradict the facts."""


class Shopper:
    """A client of the store."""

    def __init__(self, cluster, server, length):
        self.cache = server.connect()
        self.session = cluster.connect()
        self.length = length
        self.stopping = threading.Event()
        self.failure = None

    def close(self):
        """Ends the connections."""
        self.cache.close()
        self.session.close()

    def shop(self, requests):
        """Sends requests one after the other; returns the results."""
        seen, clock = Seen(), time.perf_counter
        for place, subject in requests:
            if self.stopping.is_set():
                break
            kind = KINDS[place]
            begun = clock()
            key = kind.key.format_map(subject)
            value = self.cache.get(key)
            if value is None:
                asked = clock()
                value = make(self.session, kind, subject, self.length)
                seen.queries_s[place].append(clock() - asked)
                seen.value_bytes[place] += len(value)
                if not self.cache.set(key, value):
                    raise Wrong(f"{key} was not stored")
            else:
                seen.hits[place] += 1
                if sum(seen.hits) % CHECKED == 0:
                    seen.sample.append((place, subject, value))
            seen.latencies_s.append(clock() - begun)
        return seen

    def database_cpu_s(self):
        """CPU seconds that the session's process in the database has used so far."""
        stat = Path(f"/proc/{self.session.info.backend_pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS


def together(shoppers, requests):
    """Lets all shoppers shop at a time; returns the results of each, in their order."""
    seen = [None] * len(shoppers)

    def work(place):
        try:
            seen[place] = shoppers[place].shop(requests[place :: len(shoppers)])
        except Exception as failure:  # Raised below, in the thread that waits.
            shoppers[place].failure = failure

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(shoppers))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        for shopper in shoppers:
            shopper.stopping.set()
        for thread in threads:
            thread.join()
    for shopper in shoppers:
        if shopper.failure:
            raise shopper.failure
    return seen


def run(cluster, options, policy, requests):
    """A warm-up and the counted requests, through a server with this policy."""
    with Server(options.larder, policy, options.memory_mb) as server:
        shoppers = [Shopper(cluster, server, options.page) for _ in range(options.clients)]
        try:
            return shop_and_count(server, shoppers, options, requests)
        finally:
            for shopper in shoppers:
                shopper.close()


def shop_and_count(server, shoppers, options, requests):
    """The cost of the requests after the warm-up, and the counters for them."""
    if options.warmup:
        together(shoppers, requests[: options.warmup])
        for shopper in shoppers:
            shopper.stopping.clear()
    before = server.counters()
    cpu_s = sum(shopper.database_cpu_s() for shopper in shoppers)
    begun = time.perf_counter()
    seen = together(shoppers, requests[options.warmup :])
    elapsed_s = time.perf_counter() - begun
    cpu_s = sum(shopper.database_cpu_s() for shopper in shoppers) - cpu_s
    after = server.counters()
    counted = {
        name: after[name] - before[name]
        for name in ("get_hits", "get_misses", "cmd_set", "evictions")
    }
    check(seen, counted, shoppers[0])
    counted |= {name: after[name] for name in ("curr_items", "bytes", "limit_maxbytes")}
    return summary(seen, counted, elapsed_s, cpu_s, server.costs_us())


def check(seen, counted, shopper):
    """Compares hits with the server's count of them, and a sample of values with the database."""
    hits = sum(sum(one.hits) for one in seen)
    if hits != counted["get_hits"]:
        raise Wrong(f"the clients had {hits} hits, the server counts {counted['get_hits']}")
    for one in seen:
        for place, subject, value in one.sample:
            if value != make(shopper.session, KINDS[place], subject, shopper.length):
                raise Wrong(f"{KINDS[place].key.format_map(subject)} is not the database's")


def summary(seen, counted, elapsed_s, cpu_s, costs_us):
    """A run in numbers, for the report."""
    latencies_s = sorted(latency for one in seen for latency in one.latencies_s)
    kinds = {}
    for place, kind in enumerate(KINDS):
        queries_s = [query for one in seen for query in one.queries_s[place]]
        prefix = kind.key.partition("{")[0]
        costs = [cost for key, cost in costs_us if key.startswith(prefix)]
        kinds[kind.name] = {
            "hits": sum(one.hits[place] for one in seen),
            "misses": len(queries_s),
            "query_s": sum(queries_s),
            "value_bytes": sum(one.value_bytes[place] for one in seen),
            "cost_us": mean(costs) if costs else None,
        }
    hits, count = sum(kind["hits"] for kind in kinds.values()), len(latencies_s)
    return {
        "mean_ms": 1000 * sum(latencies_s) / count,
        "percentiles_ms": {
            str(share): 1000 * latencies_s[min(count - 1, int(count * share / 100))]
            for share in (50, 80, 90, 95, 97, 98, 99, 99.5, 99.9)
        },
        "database_s": sum(kind["query_s"] for kind in kinds.values()),
        "database_cpu_s": cpu_s,
        "elapsed_s": elapsed_s,
        "hit_ratio": hits / count,
        "values_checked": sum(len(one.sample) for one in seen),
        "server": counted,
        "kinds": kinds,
    }
