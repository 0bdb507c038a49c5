"""One drawing for each figure of the ReCache paper (PVLDB 2017), from results.

Owns what is on the axes, colours and names. A chart whose runs are missing is None; nothing is drawn that was not
measured.
"""

from __future__ import annotations

from collections.abc import Callable

from cost_model import errors_percent, own_errors_percent
from experiment.drawing import finish, panels
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from results import Results, Run, cumulative, less_percent, overheads_percent, smoothed

All = dict[str, Results]
"""Results by figure."""

LABELS = {
    "striped": "striped (Parquet)",
    "flat": "relational columnar",
    "recache": "ReCache's rule, as printed",
    "auto": "Thermocline",
    "single": "Thermocline, one layout at a time",
    "nested": "nested arrays",
    "off": "no cache",
    "lazy": "lazy",
    "eager": "eager",
    "unlimited": "unlimited cache",
    "duckdb": "DuckDB, from the files",
    "lru": "LRU",
    "proteus": "Proteus",
    "vectorwise": "Vectorwise",
    "monetdb": "MonetDB",
    "recache-as-printed": "ReCache, as printed",
    "farthest-first": "farthest-first (offline)",
    "local-ratio": "local ratio (offline)",
    "flat, lru": "columnar, LRU",
    "flat, greedy": "columnar, greedy",
    "striped, greedy": "striped, greedy",
}
COLOURS = {
    "striped": "#d1605e",
    "striped, greedy": "#d1605e",
    "flat": "#4e79a7",
    "flat, greedy": "#4e79a7",
    "flat, lru": "#9ab8d6",
    "recache": "#e8a33d",
    "recache-as-printed": "#e8a33d",
    "auto": "#2b8a5a",
    "single": "#8cc5a5",
    "nested": "#8d6aa9",
    "off": "#8a8a8a",
    "unlimited": "#8a8a8a",
    "duckdb": "#b9a23b",
    "lazy": "#9ab8d6",
    "eager": "#d1605e",
    "lru": "#9ab8d6",
    "proteus": "#4e79a7",
    "vectorwise": "#8d6aa9",
    "monetdb": "#d1605e",
    "farthest-first": "#6b6b6b",
    "local-ratio": "#b0b0b0",
}


def line(axes: Axes, name: str, xs: list[float], ys: list[float], label: str | None = None, **style: object) -> None:
    """One configuration's line, in its colour."""
    axes.plot(xs, ys, color=COLOURS.get(name, "#333333"), label=label or LABELS.get(name, name), **style)


def sequence(axes: Axes, runs: dict[str, Run], names: list[str], title: str = "") -> None:
    """Time of each query, in ms: points, and as a line the medians of nine neighbours."""
    for name in names:
        if name in runs:
            times = [1e3 * time_s for time_s in runs[name].times_s]
            numbers = list(range(1, len(times) + 1))
            axes.scatter(numbers, times, s=2, color=COLOURS[name], alpha=0.3, linewidths=0, rasterized=True)
            line(axes, name, numbers, smoothed(times))
    finish(axes, "query", "time (ms)", title)


def totals(axes: Axes, runs: dict[str, Run], title: str = "", leave_out: tuple[str, ...] = ("duckdb",)) -> None:
    """Time of the first n queries, in s."""
    for name, run in runs.items():
        if name not in leave_out:
            line(axes, name, list(range(1, len(run.times_s) + 1)), cumulative(run.times_s))
    finish(axes, "queries", "time together (s)", title)


def figure_1(results: All) -> Figure | None:
    """Two layouts, two halves."""
    if "9" not in results:
        return None
    figure, [axes] = panels(1)
    sequence(axes, results["9"].part("a"), ["striped", "flat"])
    return figure


def figure_5(results: All) -> Figure | None:
    """Scans of cached lists of one length."""
    return by_length(results, "5", "scan", "full scan (ms)") if "5" in results else None


def figure_6(results: All) -> Figure | None:
    """First queries, which fill the cache."""
    return by_length(results, "6", "fill", "first query (ms)") if "6" in results else None


def by_length(results: All, number: str, part: str, y: str) -> Figure:
    """Medians against the length of the lists."""
    figure, [axes] = panels(1)
    for name, runs in results[number].series(part).items():
        if name not in ("recache", "duckdb"):
            line(axes, name, list(runs), [1e3 * median(run) for run in runs.values()], marker="o", markersize=3)
    finish(axes, "elements in every list", y)
    return figure


def median(run: Run) -> float:
    """The middle one of the run's times."""
    return sorted(run.times_s)[len(run.times_s) // 2]


def figure_7(results: All) -> Figure | None:
    """How far the cost model's predictions are off; needs decisions that carry the measurements of each scan."""
    runs = results["7"].part("a") if "7" in results else {}
    if not {"striped", "flat"} <= set(runs) or not runs["striped"].fields["scans"] or not runs["flat"].fields["scans"]:
        return None
    models = {
        "a  the equations as printed": errors_percent(runs["striped"], runs["flat"]),
        "b  Thermocline's own model": own_errors_percent(runs["striped"], runs["flat"]),
    }
    if not all(errors for errors_by_layout in models.values() for errors in errors_by_layout.values()):
        return None
    figure, axes = panels(2)
    for axis, (title, errors_by_layout) in zip(axes, models.items(), strict=True):
        for layout, errors in errors_by_layout.items():
            shares = [100 * (index + 1) / len(errors) for index in range(len(errors))]
            line(axis, layout, shares, errors, label=f"{LABELS[layout]}, predicted from the other")
        finish(axis, "queries (%)", "error (% of the measured cost)", title)
    return figure


def figure_9(results: All) -> Figure | None:
    """The choice of a layout while the workload changes."""
    if "9" not in results:
        return None
    figure, axes = panels(3)
    titles = ["a  all attributes, then non-nested ones", "b  in turn", "c  at random"]
    for part, axis, title in zip("abc", axes, titles, strict=True):
        sequence(axis, results["9"].part(part), ["striped", "flat", "recache", "single", "auto"], title)
    return figure


def figure_10(results: All) -> Figure | None:
    """The same from an empty cache, cumulated."""
    if "10" not in results:
        return None
    figure, axes = panels(2)
    for part, axis, percent in zip("ab", axes, [10, 90], strict=True):
        totals(axis, results["10"].part(part), f"{part}  {percent} % of the queries of nested attributes")
    return figure


def figure_11(results: All) -> Figure | None:
    """Time saved beside either fixed layout, against the workload's mix."""
    if "11" not in results:
        return None
    figure, axes = panels(3, height=3.2)
    names = ["queries of nested attributes (%), spam", "queries of nested attributes (%), Yelp", "queries of JSON (%), spam"]
    for part, axis, x in zip("abc", axes, names, strict=True):
        series = results["11"].series(part)
        for chosen, dashes in [("auto", "-"), ("recache", ":")]:
            for fixed in ("striped", "flat"):
                saved = [less_percent(run, series[fixed][at]) for at, run in series[chosen].items()]
                label = f"{LABELS[chosen]} beside {LABELS[fixed]}"
                line(axis, fixed, list(series[chosen]), saved, label=label, linestyle=dashes, marker="o", markersize=3)
        axis.axhline(0, color="#555555", linewidth=0.8)
        finish(axis, x, "time saved (%)", part, legend=False)
        axis.autoscale(axis="y")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def figure_12(results: All) -> Figure | None:
    """What caching adds to a query, in ascending order."""
    if "12" not in results:
        return None
    runs = results["12"].part("a")
    figure, [axes] = panels(1)
    for name in ("lazy", "eager", "auto"):
        overheads = overheads_percent(runs[name], runs["off"])
        line(axes, name, [100 * (index + 1) / len(overheads) for index in range(len(overheads))], overheads)
    finish(axes, "queries (%)", "time added by caching (%)")
    axes.autoscale(axis="y")
    return figure


def figure_13(results: All) -> Figure | None:
    """The same queries in sequence."""
    if "13" not in results:
        return None
    figure, [axes] = panels(1)
    totals(axes, results["13"].part("sequence"))
    return figure


def figure_14(results: All) -> Figure | None:
    """Policies under limits."""
    if "14" not in results:
        return None
    figure, axes = panels(2, height=3.4)
    measured = {name: [run.total_s for run in runs.values()] for name, runs in results["14"].series("policies").items()}
    replayed = results["14"].fields["replayed"]
    bars(axes[0], measured, replayed["limits_bytes"], "all queries (s), measured")
    unlimited = results["14"].part("policies")["unlimited"]
    axes[0].axhline(unlimited.total_s, color="#555555", linewidth=1, linestyle="--", label=LABELS["unlimited"])
    bars(axes[1], replayed["seconds"], replayed["limits_bytes"], "requests of the cache (s), replayed")
    named = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=5, fontsize=8)
    return figure


def bars(axes: Axes, seconds: dict[str, list[float]], limits_bytes: list[int], y: str) -> None:
    """A group of bars for each limit, one for each policy."""
    width = 0.84 / len(seconds)
    for index, (name, values) in enumerate(seconds.items()):
        places = [at + (index - len(seconds) / 2 + 0.5) * width for at in range(len(values))]
        label = "Thermocline" if name == "recache" else LABELS[name]
        colour = COLOURS["auto"] if name == "recache" else COLOURS[name]
        axes.bar(places, values, width=0.9 * width, color=colour, label=label)
    axes.set_xticks(range(len(limits_bytes)), [f"{limit / 1e6:.0f}" for limit in limits_bytes])
    finish(axes, "limit of the cache (MB)", y, legend=False)


def figure_15(results: All) -> Figure | None:
    """Everything together, on two data sets, each under two limits."""
    if "15" not in results:
        return None
    figure, axes = panels(4)
    left = iter(axes)
    for part, data in [("a", "spam, CSV and JSON"), ("b", "Yelp")]:
        series = results["15"].series(part)
        for share in series["auto"]:
            runs = {name: by_share[share] for name, by_share in series.items()} | results["15"].part(part)
            limit_bytes = runs["auto"].fields["connect"]["cache_memory"]
            totals(next(left), runs, f"{part}  {data}, {limit_bytes / 1e6:.0f} MB")
    return figure


CHARTS: dict[str, Callable[[All], Figure | None]] = {
    "1": figure_1,
    "5": figure_5,
    "6": figure_6,
    "7": figure_7,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "12": figure_12,
    "13": figure_13,
    "14": figure_14,
    "15": figure_15,
}
SOURCE = {"1": "9"}
"""Figures drawn from the runs of another one."""
