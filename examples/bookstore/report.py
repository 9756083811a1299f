"""The results of the rounds: tables on standard output, JSON and plots in a folder.

A figure is the median of the rounds, with the lowest and the highest behind it. A ratio is that of
the two runs of one round, which had the same requests and much the same neighbours.
"""

import json
from statistics import median

import plots
from interactions import KINDS
from options import POLICIES

FIGURES = (
    ("mean latency, ms", lambda run: run["mean_ms"]),
    ("99th percentile, ms", lambda run: run["percentiles_ms"]["99"]),
    ("time in queries, s", lambda run: run["database_s"]),
    ("CPU of the database, s", lambda run: run["database_cpu_s"]),
    ("hits, %", lambda run: 100 * run["hit_ratio"]),
)


def write(options, rounds):
    """Prints the tables and writes `bookstore.json`, `.svg` and `.png` into the output folder."""
    print()
    figures(rounds)
    print()
    kinds(options, rounds)
    checked = sum(run["values_checked"] for runs in rounds for run in runs.values())
    print(f"\n{checked} hits were compared with the database; all were what it says.")
    options.output.mkdir(parents=True, exist_ok=True)
    said = {name: str(value) if name in ("larder", "output") else value
            for name, value in vars(options).items()}
    (options.output / "bookstore.json").write_text(
        json.dumps({"options": said, "rounds": rounds}, indent=1) + "\n"
    )
    plots.draw(rounds, options.output)
    print(f"bookstore.json, .svg and .png are in {options.output}")


def figures(rounds):
    """A line for each figure: both policies, and how they compare."""
    print("| | CLOCK | measured cost | ratio in a round |")
    print("| --- | --- | --- | --- |")
    for name, figure in FIGURES:
        sides = [[figure(runs[policy]) for runs in rounds] for policy in POLICIES]
        ratios = [measured / clock if clock else 1 for clock, measured in zip(*sides)]
        print(f"| {name} | {spread(sides[0])} | {spread(sides[1])} | {spread(ratios)} |")


def kinds(options, rounds):
    """A line for each kind of interaction: its cost and its hits."""
    print("| interaction | share | keys | bytes | query, ms | by Larder, ms | hits, CLOCK | "
          "hits, measured cost |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    weights = sum(kind.weight for kind in KINDS)
    for kind in KINDS:
        runs = {policy: [r[policy]["kinds"][kind.name] for r in rounds] for policy in POLICIES}
        both = [one for policy in POLICIES for one in runs[policy]]
        misses = max(total(both, "misses"), 1)
        hits = [
            100 * total(runs[p], "hits") / max(total(runs[p], "hits") + total(runs[p], "misses"), 1)
            for p in POLICIES
        ]
        costs = [one["cost_us"] for one in runs["cost-clock"] if one["cost_us"]]
        print(
            f"| {kind.name} | {100 * kind.weight / weights:.0f} % | "
            f"{len(kind.subjects(options))} | {total(both, 'value_bytes') / misses:.0f} | "
            f"{1000 * total(both, 'query_s') / misses:.2f} | "
            f"{median(costs) / 1000 if costs else 0:.2f} | {hits[0]:.1f} % | {hits[1]:.1f} % |"
        )


def total(runs, name):
    """The sum of a number over runs."""
    return sum(run[name] for run in runs)


def spread(values):
    """Median, and lowest to highest."""
    digits = 1 if median(values) >= 10 else 3
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
