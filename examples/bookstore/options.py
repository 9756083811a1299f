"""The options of the comparison's command line, and the changes of a short run."""

import argparse
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
OUTPUT = REPOSITORY / "target" / "bookstore"
POLICIES = ("clock", "cost-clock")


@dataclass(frozen=True)
class Size:
    """The amount of work: of a full run, or of a quick one."""

    items: int
    customers: int
    rounds: int
    warmup: int
    requests: int
    memory_mb: int


FULL = Size(
    items=10_000, customers=28_800, rounds=5, warmup=60_000, requests=60_000, memory_mb=16
)
QUICK = Size(
    items=10_000, customers=28_800, rounds=2, warmup=30_000, requests=15_000, memory_mb=12
)


def parse(arguments=None):
    """The options; defaults are the full or the quick run's."""
    parser = argparse.ArgumentParser(
        description="A bookstore with PostgreSQL behind Larder: CLOCK beside measured cost."
    )
    parser.add_argument("--quick", action="store_true", help="a short run, of about a minute")
    parser.add_argument("--items", type=int, help="books in the store")
    parser.add_argument("--customers", type=int, help="customers; nine in ten have an order")
    parser.add_argument("--rounds", type=int, help="rounds of one run with each policy")
    parser.add_argument("--warmup", type=int, help="requests before those that count")
    parser.add_argument("--requests", type=int, help="requests that count, in each run")
    parser.add_argument("--memory-mb", type=int, help="the cache's memory (-m)")
    parser.add_argument("--clients", type=int, default=2, help="threads that send requests")
    parser.add_argument("--zipf", type=float, default=0.99, help="exponent of the popularity")
    parser.add_argument("--page", type=int, default=20, help="books on a page of a list")
    parser.add_argument("--seed", type=int, default=1, help="of the data and of the requests")
    parser.add_argument("--larder", type=Path, help="a server's program; built if not given")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for JSON and plots")
    parser.add_argument("--no-install", action="store_true", help="fail where something is missing")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else FULL
    for name, value in vars(size).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    for name in ("items", "customers", "rounds", "requests", "memory_mb", "clients", "page"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} has to be at least 1")
    if options.items < 100 or options.customers < 100:
        parser.error("a store has at least 100 items and 100 customers")
    return options
