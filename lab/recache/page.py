"""The page beside the figures: for each, what the paper claims, what was measured here, where and how.

Owns the texts between markers; the rest of the page is written by hand and left as it is. Every number of ours
is computed from results, every number of the paper's is its text's, with its section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean, median

from charts import LABELS, SOURCE, All
from cost_model import errors_percent, own_errors_percent
from experiment.conditions import machine_text
from experiment.page import amount
from results import Results, Run, closer_percent, less_percent, more_percent, optimal_s, overheads_percent

CLAIMS = {
    "1": "A Parquet layout suits queries of non-nested attributes, “a relational columnar format performs better when both "
    "nested and non-nested attributes are accessed” (§4.1).",
    "5": "“Parquet continues to perform about 2.8x slower than a relational columnar layout as the size of the nested array "
    "increases” (§4.1).",
    "6": "Filling the cache is faster: “the smaller memory footprint of the Parquet layout makes it faster to write to "
    "memory” (§4.2).",
    "7": "“The error is within 10% of the actual cost for 90% of queries and within 30% for 98% of queries” (§4.2).",
    "9": "ReCache’s time is 53 % closer to the optimum than Parquet’s and 43 % closer than the relational columnar "
    "layout’s (a), 68 % and 57 % (b); at random (c) it “resembles that of the Parquet layout” (§6.1.1).",
    "10": "With 10 % of the queries on nested attributes the relational columnar layout is almost 29 % slower than ReCache; "
    "with 90 %, Parquet is 44 % slower and ReCache differs from the columnar layout by 4 % (§6.1.1).",
    "11": "The more nested attributes, the more ReCache saves beside Parquet and the less beside the relational columnar "
    "layout; on Yelp’s data it then takes 4 to 7 % more than the latter; the more queries of JSON, the more it saves "
    "beside both (§6.1.2).",
    "12": "Caching adds 2.5 % (lazy), 20 % (eager) and 8.2 % (ReCache) to a query on average: 59 % less than eager (§6.2).",
    "13": "Response time improves by 62 % beside no cache and by 47 % beside a lazy one, and is within 3 % of an eager one’s "
    "(§6.2).",
    "14": "ReCache’s eviction is better than LRU for every cache size, by as much as 24 % (8 GB), and 19 % better than "
    "MonetDB’s there (§6.3).",
    "15": "On spam, ReCache takes 39 % less time than Parquet and 34 % less than the columnar layout, both with greedy "
    "eviction; on Yelp’s data 19 % and over 70 %. With the columnar layout, greedy eviction gains some 8 % and 20 % over LRU "
    "(§6.4).",
}


def less(run: Run, other: Run) -> str:
    """“12 % less” or “3.0 % more”."""
    percent = less_percent(run, other)
    return f"{amount(percent)} less" if percent >= 0 else f"{amount(-percent)} more"


def times(slower: Iterable[float], faster: Iterable[float]) -> str:
    """How many times as long, by medians."""
    return f"{median(slower) / median(faster):.2f} times"


def processes(results: Results) -> str:
    """How often each configuration was measured, where one whole process stands for it."""
    count = min(run.fields.get("rounds", 1) for run in results.runs if run.name != "duckdb")
    if count == 1:
        return "Single processes, always in the same order: the same configuration takes up to a tenth more or less in another."
    return f"The middle one of {count} processes each."


def figure_1(results: All) -> str:
    """Either half."""
    runs = results["9"].part("a")
    striped, flat = runs["striped"].times_s, runs["flat"].times_s
    half = len(flat) // 2
    return (
        f"Striped takes {times(striped[:half], flat[:half])} as long as columnar while queries draw from all attributes, "
        f"{times(striped[half:], flat[half:])} as long once they draw from non-nested ones (medians)."
    )


def along_lengths(results: Results, part: str, what: str) -> str:
    """Ratios at the least and the greatest length."""
    series = results.series(part)
    sentences = []
    for name in ("striped", "nested", "auto"):
        ends = [min(series[name]), max(series[name])]
        ratios = [f"{median(series[name][at].times_s) / median(series['flat'][at].times_s):.2f}" for at in ends]
        sentences.append(f"{LABELS[name]} {ratios[0]} at {ends[0]:g} and {ratios[1]} at {ends[1]:g} elements")
    return f"{what}, as multiples of the relational columnar layout’s: {'; '.join(sentences)}."


def figure_5(results: All) -> str:
    """Scans."""
    return f"{processes(results['5'])} {along_lengths(results['5'], 'scan', 'Time of a full scan')}"


def figure_6(results: All) -> str:
    """First queries."""
    series = results["6"].series("fill")
    at = max(series["flat"])
    added = {name: more_percent(series[name][at], series["off"][at]) for name in ("striped", "flat", "nested", "auto")}
    return (
        along_lengths(results["6"], "fill", "Time of the first query, which fills the cache")
        + f" Filling it adds, at {at:g} elements, to the same query without a cache: "
        + ", ".join(f"{LABELS[name]} {amount(percent)}" for name, percent in added.items())
        + "."
    )


def figure_7(results: All) -> str:
    """Shares within 10 % and 30 %."""
    runs = results["7"].part("a")

    def shares(errors_by_layout: dict[str, list[float]]) -> str:
        parts = []
        for layout, errors in errors_by_layout.items():
            within = [100 * sum(error <= bound for error in errors) / len(errors) for bound in (10, 30)]
            shares = f"{within[0]:.0f} % of {len(errors)} queries are within 10 %, {within[1]:.0f} % within 30 %"
            parts.append(f"for {LABELS[layout]}, {shares}")
        return "; ".join(parts)

    printed = shares(errors_percent(runs["striped"], runs["flat"]))
    own = shares(own_errors_percent(runs["striped"], runs["flat"]))
    return (
        f"Every query in the one of {runs['striped'].fields['rounds']} runs that took its median. The equations as printed, fed "
        f"with our measurements: {printed}. Our own model, from readings in the other layout: {own}."
    )


def figure_9(results: All) -> str:
    """Closeness to the optimum."""
    parts = []
    for part in "abc":
        runs = results["9"].part(part)
        best_s = optimal_s(runs["striped"], runs["flat"])
        for name in ("recache", "single", "auto"):
            closer = [closer_percent(runs[name], runs[fixed], best_s) for fixed in ("striped", "flat")]
            parts.append(f"({part}) {LABELS[name]} {closer[0]:.0f} % and {closer[1]:.0f} %")
    at_random = results["9"].part("c")
    behind = {
        name: beside(max(more_percent(at_random[name], at_random[fixed]) for fixed in ("striped", "flat")))
        for name in ("auto", "single")
    }
    return (
        f"{processes(results['9'])} Closer to the optimum than striped and than columnar: {'; '.join(parts)}. "
        f"Negative: farther from it; more than 100 %: it has nested arrays too. At random (c) Thermocline takes {behind['auto']} "
        f"than the better of the two, and {behind['single']} with one layout at a time."
    )


def beside(percent: float) -> str:
    """How much more or less."""
    return f"{abs(percent):.1f} % {'more' if percent >= 0 else 'less'}"


def figure_10(results: All) -> str:
    """Fixed layouts beside the chosen ones."""
    parts = []
    for part, percent in [("a", 10), ("b", 90)]:
        runs = results["10"].part(part)
        for name in ("recache", "auto"):
            slower = [
                f"{amount(more_percent(runs[fixed], runs[name]))} ({LABELS[fixed]})" for fixed in ("striped", "flat", "nested")
            ]
            parts.append(f"{percent} % nested, beside {LABELS[name]}: {', '.join(slower)}")
    return f"{processes(results['10'])} How much slower the fixed layouts are: {'; '.join(parts)}. Negative: faster."


def figure_11(results: All) -> str:
    """The two ends of each axis."""
    parts = []
    for part in "abc":
        series = results["11"].series(part)
        ends = [min(series["auto"]), max(series["auto"])]
        for fixed in ("striped", "flat"):
            saved = [amount(less_percent(series["auto"][at], series[fixed][at])) for at in ends]
            parts.append(f"({part}) beside {LABELS[fixed]} {saved[0]} at {ends[0]:g} %, {saved[1]} at {ends[1]:g} %")
    return f"{processes(results['11'])} Thermocline saves {'; '.join(parts)}."


def figure_12(results: All) -> str:
    """Mean overheads."""
    runs = results["12"].part("a")
    added = {name: fmean(overheads_percent(runs[name], runs["off"])) for name in ("lazy", "eager", "auto")}
    return "On average caching adds " + ", ".join(f"{amount(added[name])} ({LABELS[name]})" for name in added) + "."


def figure_13(results: All) -> str:
    """The whole sequence."""
    runs = results["13"].part("sequence")
    beside = ", ".join(f"{less(runs['auto'], runs[name])} than {LABELS[name]}" for name in ("off", "lazy", "eager"))
    return f"{processes(results['13'])} The sequence takes {runs['auto'].total_s:.2f} s: {beside}."


def figure_14(results: All) -> str:
    """Each limit, beside LRU and MonetDB's."""
    series = results["14"].series("policies")
    parts = []
    for at, run in series["recache"].items():
        limit = run.fields["connect"]["cache_memory"]
        beside = ", ".join(
            f"{less(run, series[name][at])} than {LABELS[name]}" for name in ("lru", "monetdb", "recache-as-printed")
        )
        parts.append(f"at {limit / 1e6:.0f} MB {beside}")
    replayed = results["14"].fields["replayed"]["seconds"]
    offline = [
        f"{amount(100 * (own / other - 1))} ({LABELS[name]})"
        for name in ("farthest-first", "local-ratio")
        for own, other in [(sum(replayed["recache"]), sum(replayed[name]))]
    ]
    return (
        f"{processes(results['14'])} Thermocline’s policy takes {'; '.join(parts)}. Replayed on the requests that an unlimited "
        f"run recorded, over all limits, it takes more than the offline policies by {' and '.join(offline)}; negative: less."
    )


def figure_15(results: All) -> str:
    """Both sequences under every limit."""
    parts, others = [], ("striped, greedy", "flat, greedy", "flat, lru")
    for part, data in [("a", "spam"), ("b", "Yelp")]:
        series = results["15"].series(part)
        for share, run in series["auto"].items():
            limit = run.fields["connect"]["cache_memory"]
            for name in ("recache", "auto"):
                beside = [f"{less(series[name][share], series[other][share])} than {LABELS[other]}" for other in others]
                parts.append(f"{data} ({limit / 1e6:.0f} MB): {LABELS[name]} takes {', '.join(beside)}")
    return f"{processes(results['15'])} Beside other configurations: {'; '.join(parts)}."


FINDINGS: dict[str, Callable[[All], str]] = {
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


def conditions(results: Results) -> str:
    """Where and how it was measured."""
    fields = results.fields
    size_bytes = sum(fields["size_bytes"].values())
    return (
        f"{machine_text(fields['machine'])}; threads a query: "
        f"{fields['threads']}; {size_bytes / 1e6:.0f} MB of data; {fields['began'][:10]}, commit {fields['commit']}; "
        f"`lab/recache/data.py --scale {fields['data']['scale']:g}`, `{fields['command']}`."
    )


def paragraph(number: str, results: All) -> str:
    """A figure's part of the page."""
    return (
        f"![Figure {number}](figure-{number}.svg)\n\n"
        f"*The paper:* {CLAIMS[number]} *Here:* {FINDINGS[number](results)}\n\n"
        f"{conditions(results[SOURCE.get(number, number)])}"
    )
