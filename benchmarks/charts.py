"""The plots of the results page and of the README, each drawn from a committed results file; nothing is measured.

python benchmarks/charts.py                 # draw docs/figures/*.png
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import common
import sets
import table_summary

PICTURES = common.ROOT / "docs" / "figures"
COLORS = (
    "#0b5fa5",
    "#df6d1c",
    "#2a8c4a",
    "#8a3fa0",
    "#b3262e",
    "#6b6b6b",
    "#a88a00",
    "#2aa6a6",
    "#d04a8b",
    "#444444",
    "#7a5230",
    "#5b8ff9",
    "#9bbf30",
)
MARKERS = "osD^v*PX<>phd"
START_SIZE, START_DPI = (6.0, 6.4), 150  # inches, and pixels of one: text of a phone's size on a phone
LOWEST_RATIO = 0.5  # of errors; smaller ones are arrows with their value
BETTER, WORSE, GREY = COLORS[0], COLORS[4], COLORS[5]


def axes_of(count: int, width: float = 4.4, height: float = 3.4, most: int = 4) -> tuple[Any, list[Any]]:
    """Return a figure with ``count`` panels, at most ``most`` in a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(count, most)
    lines = -(-count // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(width * columns, height * lines), squeeze=False)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    for axis in axes.flat[:count]:
        axis.grid(color="0.93", lw=0.6, which="both")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8, which="both")
    return figure, list(axes.flat[:count])


def saved(figure: Any, path: Path) -> Path:
    """Write a plot with few pixels, which is small enough to be committed."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=90, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    return path


def draw_memory(results: dict[str, Any], folder: Path) -> Path:
    """Draw memory against the number of features, and the size of an m × m matrix for comparison."""
    shown = {device: found for device, found in results.items() if "m" in found["axes"]}
    figure, axes = axes_of(max(1, len(shown)))
    for axis, (device, found) in zip(axes, shown.items(), strict=False):
        points = [(p["m"], p["peak_bytes"] / 1e6) for p in found["axes"]["m"]["points"] if p["peak_bytes"]]
        m, memory = zip(*points, strict=True)
        axis.loglog(m, memory, "o-", color=COLORS[0], ms=4, label="joker")
        axis.loglog(m, [4e-6 * size**2 for size in m], ":", color="0.4", label="an m × m matrix in float32")
        slope = found["axes"]["m"]["memory_slope"]
        axis.set_title(f"{found['machine'].get('card', device.upper())}: slope {slope}", fontsize=9)
        axis.set_xlabel("random features m", fontsize=9)
        axis.set_ylabel("peak memory in MB", fontsize=9)
        axis.legend(fontsize=8)
    return saved(figure, folder / "memory.png")


def draw_scaling(results: dict[str, Any], folder: Path) -> Path:
    """Draw time against n, m, d and t."""
    figure, axes = axes_of(4, width=3.6)
    for axis, name in zip(axes, ("n", "m", "d", "t"), strict=True):
        for color, (device, found) in zip(COLORS, results.items(), strict=False):
            if name in found["axes"]:
                points = [(p[name], p["seconds"]) for p in found["axes"][name]["points"]]
                label = f"{found['machine'].get('card', device.upper())}: {found['axes'][name]['time_slope']}"
                axis.loglog(*zip(*points, strict=True), "o-", color=color, ms=4, label=label)
        axis.set_xlabel(name, fontsize=9)
        axis.set_ylabel("seconds of an epoch" if name == "n" else "seconds of a step", fontsize=9)
        axis.legend(fontsize=7, title="slope", title_fontsize=7)
    return saved(figure, folder / "scaling.png")


def draw_exact(results: dict[str, Any], folder: Path) -> Path:
    """Draw the error against the seconds of a fit, with the exact kernel, random features and boosting."""
    figure, (axis,) = axes_of(1, width=6.0, height=4.0)
    parts = results["parts"]
    curves = parts.get("hepc, curves", {}).get("curves", {})
    for color, marker, (name, points) in zip(COLORS, MARKERS, curves.items(), strict=False):
        axis.loglog(*zip(*points, strict=True), marker=marker, color=color, ms=4, label=name)
    whole = {"JokerRegressor, all of its work": "hepc", "LightGBM, CPU": "hepc, LightGBM"}
    for color, marker, (name, part) in zip(COLORS[6:], "*P", whole.items(), strict=False):
        if part in parts:
            axis.loglog(parts[part]["seconds"], parts[part]["rmse"], marker, color=color, ms=9, label=name)
    axis.set_xlabel("seconds", fontsize=9)
    axis.set_ylabel("RMSE, in deviations of the target", fontsize=9)
    axis.legend(fontsize=7)
    return saved(figure, folder / "exact_kernels.png")


def draw_peers(results: dict[str, Any], folder: Path) -> Path:
    """Draw the best score of each program against seconds of a fit, over fits to growing parts of the rows."""
    shown = {
        name: entry for name, entry in results["sets"].items() if any(p.get("curve") for p in entry["peers"].values())
    }
    figure, axes = axes_of(len(shown), height=4.0, most=3)
    everyone = list(dict.fromkeys(re.split(r" \+ |R$|C$", peer)[0] for e in shown.values() for peer in e["peers"]))
    for axis, (name, entry) in zip(axes, shown.items(), strict=True):
        for peer, found in entry["peers"].items():
            points = frontier(entry["metric"], found.get("curve", []))
            if points:
                # SVC and SVR have the same style, and so do pipelines with one feature map.
                number = everyone.index(re.split(r" \+ |R$|C$", peer)[0])
                style = f"{MARKERS[number % len(MARKERS)]}{'-' if found['kernel'] else ':'}"
                color = COLORS[number % len(COLORS)]
                wide = 2.2 if peer.startswith("joker") else 1.0
                axis.plot(*zip(*points, strict=True), style, color=color, ms=4, lw=wide, label=peer)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("seconds of a fit", fontsize=9)
        axis.set_ylabel(f"test {entry['metric']}", fontsize=9)
    # One legend for all panels, below them.
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4)
    return saved(figure, folder / "peers_time.png")


def frontier(metric: str, curve: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return the points of a curve that are better than all earlier points."""
    found: list[tuple[float, float]] = []
    for seconds, score in sorted((point["seconds"], point[metric]) for point in curve):
        if not found or sets.better(metric, score, found[-1][1]):
            found.append((seconds, score))
    return found


def draw_start(results: dict[str, Any], folder: Path) -> Path:
    """Draw the error of joker relative to that of the best tree model, on each table, with its noise."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    compared = table_summary.compared(table_summary.scores(results))["sets"]
    rows = sorted(((*relative_error(entry), name) for name, entry in compared.items()), reverse=True)
    figure, axis = plt.subplots(figsize=START_SIZE)
    axis.axvline(1, color="0.4", lw=1)
    for place, (ratio, noise, _) in enumerate(rows):
        color = GREY if abs(ratio - 1) <= noise else BETTER if ratio < 1 else WORSE
        if ratio < LOWEST_RATIO:
            axis.plot(LOWEST_RATIO, place, "<", color=color, ms=8)
            axis.text(1.03 * LOWEST_RATIO, place, f"{ratio:.2f}", va="center", color=color, fontsize=11)
        else:
            axis.errorbar(ratio, place, xerr=noise, fmt="o", color=color, ms=7, lw=2, capsize=3)
    axis.set_yticks(range(len(rows)), [name for *_, name in rows], fontsize=11)
    axis.tick_params(axis="x", labelsize=11)
    axis.set_xlim(left=0.97 * LOWEST_RATIO)
    axis.set_xlabel("error of joker / error of the best tree model", fontsize=11)
    axis.set_title("Left of the line joker is better, right of it worse", fontsize=12)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "start.png"
    figure.savefig(path, dpi=START_DPI, metadata={"Software": None})
    plt.close(figure)
    return path


def relative_error(entry: dict[str, Any]) -> tuple[float, float]:
    """Return 1 − score of joker over 1 − score of the best tree model, and the noise in the same unit."""
    theirs = 1 - entry["score_of_best_tree"]
    return (1 - entry["joker"]) / theirs, entry["noise"] / theirs


DRAWN: dict[str, tuple[Callable[[dict[str, Any], Path], Path], ...]] = {
    "scaling": (draw_memory, draw_scaling),
    "peers": (draw_peers,),
    "tables": (draw_start,),
    "exact_scale": (draw_exact,),
}


def draw(results: Path, folder: Path) -> list[Path]:
    """Draw all plots whose results exist, and print which results are missing."""
    plots = []
    for name, drawers in DRAWN.items():
        file = results / f"{name}.json"
        if not file.is_file():
            print(f"{file.name} is missing: {', '.join(drawer.__name__ for drawer in drawers)} left out")
            continue
        found = json.loads(file.read_text(encoding="utf-8"))
        plots += [drawer(found, folder) for drawer in drawers]
    return plots


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="folder of the results")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder of the plots")
    options = parser.parse_args(arguments)
    for picture in draw(options.results, options.pictures):
        print(picture.name)


if __name__ == "__main__":
    main()
