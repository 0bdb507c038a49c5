"""One drawing for each figure of the HPCache paper (DaMoN 2022), from results.

Owns what is on the axes. A chart whose runs are missing is None; nothing is drawn that was not measured, but for the
thin lines of equation 1. Simulated media say so in their titles or names.
"""

from __future__ import annotations

from collections.abc import Callable

from comparison import OURS, Comparison
from experiment.drawing import finish, panels
from experiments import AMPLE, SOURCE
from labels import COLOURS, LABELS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from measured import Measured
from media import DISK, DRIVES, Medium
from series import by_share, expected, moments, placements
from ssb_workloads import ONE_ROUND

All = dict[str, Measured]
"""Results by figure."""

PLACES = {0: ("on storage", "#9ab8d6"), 0.5: ("half in memory", "#4e79a7"), AMPLE: ("in memory", "#2b8a5a")}
DRIVE_COLOURS = dict(zip((*DRIVES, DISK), ("#d1605e", "#e8a33d", "#2b8a5a", "#4e79a7"), strict=True))
PANEL_INCHES = 3.3


def row(media: list[Medium], height: float = 2.8) -> tuple[Figure, list[Axes]]:
    """A panel for each medium."""
    return panels(len(media), height, width=max(5.6, PANEL_INCHES * len(media)))


def figure_3(results: All) -> Figure | None:
    """Three queries, three placements."""
    measured = results["3"]
    media = measured.media()
    figure, axes = row(media)
    for axis, medium in zip(axes, media, strict=True):
        times_s = placements(measured, medium.name)
        for index, (share, (label, colour)) in enumerate(PLACES.items()):
            places = [at + 0.27 * (index - 1) for at in range(len(times_s))]
            heights = [1e3 * by_place.get(share, float("nan")) for by_place in times_s.values()]
            axis.bar(places, heights, width=0.25, color=colour, label=label)
        axis.set_xticks(range(len(times_s)), [f"Q{workload}" for workload in times_s])
        finish(axis, "", "time (ms)", medium.label, legend=axis is axes[0])
    return figure


def shares_line(axes: Axes, measured: Measured, medium: Medium, workload: str = "2.1") -> None:
    """What was measured, and equation 1."""
    points = by_share(measured, workload, medium.name)
    held = [100 * point.share_held for point in points]
    colour = DRIVE_COLOURS[medium]
    axes.plot(held, [1e3 * point.seconds for point in points], color=colour, marker="o", markersize=3, label=medium.label)
    shares = [percent / 100 for percent in range(101)]
    by_model = expected(measured, workload, medium, shares)
    if by_model:
        by_model_ms = [1e3 * time_s for time_s in by_model]
        axes.plot([100 * share for share in shares], by_model_ms, color=colour, linewidth=0.7, linestyle=":")


def figure_4(results: All) -> Figure | None:
    """Q2.1 from one drive."""
    figure, [axes] = panels(1)
    shares_line(axes, results["5"], DRIVES[0])
    finish(axes, "input in memory (%)", "time (ms)")
    return figure


def figure_5(results: All) -> Figure | None:
    """The same from several."""
    figure, [axes] = panels(1, height=3.2)
    for medium in results["5"].media():
        shares_line(axes, results["5"], medium)
    finish(axes, "input in memory (%)", "time (ms)")
    return figure


def predicted(results: All, number: str) -> Figure | None:
    """Predictions while a query runs."""
    measured = results[number]
    [workload] = measured.workloads()
    media = [medium for medium in measured.media() if moments(measured, workload, medium.name)]
    if not media:
        return None
    figure, axes = row(media)
    for axis, medium in zip(axes, media, strict=True):
        found = moments(measured, workload, medium.name)
        if found is None:
            continue
        at_ms = [1e3 * at_s for at_s in found.at_s]
        for values, took_s, colour, name in (
            (found.predicted_s, found.took_s, "#2b8a5a", "a quarter held"),
            (found.in_memory_s, found.took_in_memory_s, "#4e79a7", "all in memory"),
        ):
            values_ms = [1e3 * value for value in values]
            axis.plot(at_ms, values_ms, color=colour, marker="o", markersize=1.5, label=f"predicted, {name}")
            axis.axhline(1e3 * took_s, color=colour, linewidth=1, linestyle="--", label=f"took, {name}")
        finish(axis, "since its beginning (ms)", "time of the pipeline (ms)", medium.label, legend=False)
        axis.set_ylim(top=1.08 * axis.dataLim.ymax)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def by_budget(results: All, number: str, workload: str, question_count: int | None = None) -> Figure | None:
    """All policies over all budgets."""
    measured = results[number]
    comparison = Comparison(measured, workload, question_count)
    media = measured.media()
    figure, axes = row(media, height=3.1)
    for axis, medium in zip(axes, media, strict=True):
        for policy in comparison.policies:
            timed = [(place, comparison.seconds(place, policy)) for place in comparison.of_medium(medium.name)]
            points = [(100 * place.share, seconds) for place, seconds in timed if seconds is not None]
            main = policy in (OURS, "mru")
            axis.plot(
                [share for share, _ in points],
                [seconds for _, seconds in points],
                color=COLOURS[policy],
                label=LABELS[policy],
                linewidth=1.8 if main else 0.9,
                marker="o",
                markersize=3 if main else 2,
                zorder=3 if main else 2,
            )
        finish(axis, "memory (% of the bytes read)", "time (s)", medium.label, legend=False)
        axis.set_ylim(top=1.08 * axis.dataLim.ymax)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    return figure


CHARTS: dict[str, Callable[[All], Figure | None]] = {
    "3": figure_3,
    "4": figure_4,
    "5": figure_5,
    "6": lambda results: predicted(results, "6"),
    "7": lambda results: predicted(results, "7"),
    "8": lambda results: by_budget(results, "8", "two"),
    "9": lambda results: by_budget(results, "9", "ssb", ONE_ROUND["ssb"]),
}


def chart(number: str, results: All) -> Figure | None:
    """A figure's drawing; None without its results."""
    return CHARTS[number](results) if SOURCE.get(number, number) in results else None
