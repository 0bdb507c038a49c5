"""How all figures look, and how they are written. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "savefig.bbox": "tight",
    "svg.hashsalt": "thermocline",
    "svg.fonttype": "none",
}


def panels(count: int, height: float = 2.8, width: float | None = None) -> tuple[Figure, list[Axes]]:
    """A row of axes; sizes in inches."""
    width = width or (5.6 if count == 1 else 4.6 * count)
    figure, axes = plt.subplots(1, count, figsize=(width, height), layout="constrained", squeeze=False)
    return figure, list(axes[0])


def finish(axes: Axes, x: str, y: str, title: str = "", legend: bool = True) -> None:
    """Names on the axes; the ordinate begins at zero."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=9, loc="left")
    axes.set_ylim(bottom=0)
    if legend:
        axes.legend(fontsize=8)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Writes a figure as SVG and PNG, the same bytes for the same numbers, and closes it."""
    for suffix, options in [("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 160})]:
        figure.savefig(folder / f"{name}.{suffix}", **options)
    plt.close(figure)
