"""The comparison: rounds of one run with each policy, the same requests, a fresh server each."""

import sys
import time

import cluster
import data
import install
import measure
import options
import processes
import report
import server
from traffic import Traffic


def main():
    """Exits with 1 where something fails or a value is wrong."""
    processes.end_on_signals()
    chosen = options.parse()
    try:
        compare(chosen)
    except (cluster.Failed, server.Failed, measure.Wrong) as failure:
        print(f"bookstore: {failure}", file=sys.stderr)
        sys.exit(1)


def compare(chosen):
    """Loads the store, runs the rounds and reports them."""
    with cluster.Cluster(install.postgres_programs()) as database:
        begun = time.monotonic()
        with database.connect() as session:
            data.load(session, chosen)
        say(f"{chosen.items} items loaded in {time.monotonic() - begun:.1f} s")
        traffic = Traffic(chosen)
        rounds = []
        for number in range(chosen.rounds):
            requests = traffic.requests(number, chosen.warmup + chosen.requests)
            # The order alternates, so that no policy always gets the quieter half of a round.
            order = options.POLICIES if number % 2 == 0 else options.POLICIES[::-1]
            runs = {}
            for policy in order:
                runs[policy] = one = measure.run(database, chosen, policy, requests)
                say(f"round {number + 1}, {policy:>10}: mean {one['mean_ms']:.3f} ms, "
                    f"99 % {one['percentiles_ms']['99']:.2f} ms, "
                    f"database {one['database_s']:.2f} s, hits {100 * one['hit_ratio']:.1f} %")
            rounds.append(runs)
    report.write(chosen, rounds)


def say(line):
    """Prints at once, to show progress."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
