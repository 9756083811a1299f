"""The rounds as a picture of four panels, as SVG and PNG."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # pylint: disable=wrong-import-position

from interactions import KINDS
from options import POLICIES

NAMES = {"clock": "CLOCK", "cost-clock": "measured cost"}
COLOURS = {"clock": "#8a8a8a", "cost-clock": "#c2571a"}


def draw(rounds, folder):
    """Writes `bookstore.svg` and `bookstore.png` into the folder."""
    plt.rcParams.update({"svg.hashsalt": "bookstore", "svg.fonttype": "none"})
    figure, panels = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    by_round(panels[0][0], rounds, "mean latency, ms", lambda run: run["mean_ms"])
    by_round(panels[0][1], rounds, "99th percentile of latency, ms",
             lambda run: run["percentiles_ms"]["99"])
    by_round(panels[1][0], rounds, "time in queries, s", lambda run: run["database_s"])
    by_kind(panels[1][1], rounds)
    panels[0][0].legend(frameon=False)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "bookstore.svg", metadata={"Date": None})
    figure.savefig(folder / "bookstore.png", dpi=110)
    plt.close(figure)


def by_round(panel, rounds, title, figure):
    """A pair of bars for each round."""
    for side, policy in enumerate(POLICIES):
        places = [number + 0.38 * side for number in range(len(rounds))]
        heights = [figure(runs[policy]) for runs in rounds]
        panel.bar(places, heights, 0.38, color=COLOURS[policy], label=NAMES[policy])
    panel.set_xticks([number + 0.19 for number in range(len(rounds))],
                     [f"round {number + 1}" for number in range(len(rounds))])
    panel.set_title(title)


def by_kind(panel, rounds):
    """The misses of each kind, over all rounds."""
    for side, policy in enumerate(POLICIES):
        lengths = []
        for kind in KINDS:
            runs = [r[policy]["kinds"][kind.name] for r in rounds]
            misses, hits = (sum(run[name] for run in runs) for name in ("misses", "hits"))
            lengths.append(100 * misses / max(misses + hits, 1))
        places = [number + 0.38 * side for number in range(len(KINDS))]
        panel.barh(places, lengths, 0.38, color=COLOURS[policy])
    panel.set_yticks([number + 0.19 for number in range(len(KINDS))],
                     [kind.name for kind in KINDS])
    panel.invert_yaxis()
    panel.set_title("misses by interaction, %")
