"""The page beside the figures: for each, what the paper claims, what was measured here, where and how.

Owns the texts between markers; the rest of the page is written by hand and left as it is. Every number of ours is
computed from results, every number of the paper's is its text's, with its section. Without results a part says so.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import tables
from comparison import Comparison, Compared
from experiment.conditions import machine_text
from experiment.page import amount
from experiments import AMPLE, SOURCE
from labels import LABELS
from measured import Measured
from media import BY_NAME, DRIVES, Medium
from model import share_needed
from predictions import median_error, predictions
from series import by_share, moments, placements, share_enough
from ssb_workloads import ONE_ROUND

All = dict[str, Measured]
"""Results by figure."""

CLAIMS = {
    "3": "“Both Q1.3 and Q2.2 are input-access-sensitive queries, and thus, their execution time is halved when moving half "
    "of their inputs in memory”; Q3.1 “executes in nearly the same amount of time regardless of the location of its inputs” "
    "(§3).",
    "4": "With one drive the time of Q2.1 “improves linearly as more data are found in the in-memory cache”, but “sees almost "
    "no reduction after a specific point” (§3).",
    "5": "Q2.1’s throughput in memory, 14.7 GB/s, lies between the bandwidths of 2 and 4 drives. With 1 and 2 drives it takes "
    "16.5 s and 9.8 s from storage, and its time falls linearly with the share in memory; with 4 “there is never a benefit to "
    "caching data in memory” (§5.1).",
    "6": "Q1.1 is input-access-sensitive: its prediction “is based on the storage and memory-bandwidth”, and lies above that "
    "for memory. The model “consistently underestimates the real execution time” (§5.1).",
    "7": "Q2.2 is processing-sensitive: “the current run-time prediction and the in-memory prediction are identical”; its time "
    "“slightly exceeds the in-memory time due to the overhead for the storage IO management” (§5.1).",
    "8": "HPCache “outperforms MRU in this experiment for all the cases”, by 15.6 % with 100 GB of the 192 GB that are read; "
    "MRU has a plateau where it holds enough of the first query and nothing of the second; both converge when everything fits "
    "(§5.1).",
    "9": "“With a memory budget of 20 GB HPCache achieves same performance as MRU with a budget of 80 GB”; up to 12 % faster "
    "at the same budget; with more than 160 GB, about all that is read, “MRU slightly outperforms HPCache” (§5.2, abstract).",
}

MUST_NOT_LOSE = 1.02
"""No policy may be faster by more than that."""


def less_or_more(ratio: float) -> str:
    """“12 % less”, “3.0 % more” or “the same time”."""
    percent = 100 * (1 - ratio)
    if abs(percent) < 0.05:
        return "the same time"
    return f"{amount(percent)} less" if percent >= 0 else f"{amount(-percent)} more"


def where(compared: Compared) -> str:
    """“0.5 x P (simulated), 20 %”."""
    return f"{BY_NAME[compared.place.medium].label}, {compared.place.share:.0%}"


def figure_3(results: All) -> str:
    """Beside everything from storage."""
    measured = results["3"]
    sentences = []
    for medium in measured.media():
        parts = []
        for workload, times_s in placements(measured, medium.name).items():
            if {0, 0.5, AMPLE} <= set(times_s):
                half, whole = (times_s[share] / times_s[0] for share in (0.5, AMPLE))
                parts.append(f"Q{workload} {half:.2f} and {whole:.2f}")
        if parts:
            sentences.append(f"{medium.label}: {', '.join(parts)}")
    return f"With half and with all of its input in memory, a query’s time by that from storage: {'; '.join(sentences)}."


def from_storage_to_memory(measured: Measured, medium: Medium) -> str:
    """One line of figures 4 and 5."""
    points = by_share(measured, "2.1", medium.name)
    first, last = points[0], points[-1]
    bytes_per_s = medium.bytes_per_s(pace := measured.pace("2.1"))
    model = "" if bytes_per_s is None else f" (equation 1: {share_needed(bytes_per_s, pace):.0%})"
    return (
        f"{medium.label}: {1e3 * first.seconds:.0f} ms with {first.share_held:.0%} in memory, {1e3 * last.seconds:.0f} ms with "
        f"{last.share_held:.0%}, hardly less from {share_enough(points):.0%} on{model}"
    )


def figure_4(results: All) -> str:
    """One drive."""
    return f"{from_storage_to_memory(results['5'], DRIVES[0])}. “Hardly less”: all of the rest saves at most 5 %."


def figure_5(results: All) -> str:
    """All media."""
    measured = results["5"]
    lines = "; ".join(from_storage_to_memory(measured, medium) for medium in measured.media())
    return f"In memory Q2.1 works at {measured.pace('2.1') / 1e9:.2f} GB/s. {lines}. Thin: equation 1."


def figure_6(results: All) -> str:
    """Q1.1."""
    return predicted(results["6"])


def figure_7(results: All) -> str:
    """Q2.2."""
    return predicted(results["7"])


def predicted(measured: Measured) -> str:
    """What the middle sample said, beside what it was."""
    [workload] = measured.workloads()
    parts = []
    for medium in measured.media():
        found = moments(measured, workload, medium.name)
        if found is None or not found.at_s:
            parts.append(f"{medium.label}: the pipeline was never seen running")
            continue
        now = median(found.predicted_s)
        in_memory = median(found.in_memory_s)
        parts.append(
            f"{medium.label}: {1e3 * now:.0f} ms predicted (median of {len(found.at_s)} looks), {1e3 * found.took_s:.0f} ms "
            f"taken; for memory {1e3 * in_memory:.0f} ms predicted, {1e3 * found.took_in_memory_s:.0f} ms taken"
        )
    return f"The pipeline that reads the lines, with a quarter of its bytes in the budget. {'; '.join(parts)}."


def figure_8(results: All) -> str:
    """Two queries."""
    return verdicts(results["8"], "two")


def figure_9(results: All) -> str:
    """One round."""
    return verdicts(results["9"], "ssb", ONE_ROUND["ssb"])


def verdicts(measured: Measured, workload: str, question_count: int | None = None) -> str:
    """By medians, and how it stands by what was fastest."""
    told = verdict(Comparison(measured, workload, question_count))
    standing = beside_best(Comparison(measured, workload, question_count, is_of_fastest=True))
    return f"{told} By every question’s fastest repetition: {standing}." if standing else told


def beside_best(comparison: Comparison) -> str | None:
    """At how many budgets nobody else is faster, and where it is worst."""
    beside = comparison.beside_best()
    if not beside:
        return None
    good = sum(compared.ratio <= MUST_NOT_LOSE for compared in beside)
    worst = max(beside, key=lambda compared: compared.ratio)
    return (
        f"ahead or at most 2 % behind at {good} of {len(beside)} budgets; at worst it takes {less_or_more(worst.ratio)} "
        f"({LABELS[worst.policy]}; {where(worst)})"
    )


def verdict(comparison: Comparison) -> str:
    """The comparison by medians in four sentences."""
    sentences = []
    standing = beside_best(comparison)
    if standing:
        sentences.append(f"Beside the fastest other policy, the proportional one is {standing}.")
    beside_mru = list(comparison.beside("mru"))
    if beside_mru:
        least, most = (choose(beside_mru, key=lambda compared: compared.ratio) for choose in (min, max))
        sentences.append(
            f"Beside MRU it takes {less_or_more(least.ratio)} at best ({where(least)}) and {less_or_more(most.ratio)} at worst "
            f"({where(most)})."
        )
    quarter = comparison.with_part_of_memory("mru", 4)
    if quarter:
        reached = [compared for compared in quarter if compared.ratio <= 1]
        least = min(quarter, key=lambda compared: compared.ratio)
        sentences.append(
            f"With a quarter of MRU’s memory it is as fast at {len(reached)} of {len(quarter)} places; at best it takes "
            f"{less_or_more(least.ratio)} ({where(least)} beside {4 * least.place.share:.0%})."
        )
    spread = comparison.spread()
    if spread is not None:
        sentences.append(f"Repetitions of one configuration differ by {amount(100 * spread)} (median).")
    return " ".join(sentences)


FINDINGS: dict[str, Callable[[All], str]] = {
    "3": figure_3,
    "4": figure_4,
    "5": figure_5,
    "6": figure_6,
    "7": figure_7,
    "8": figure_8,
    "9": figure_9,
}


def conditions(measured: Measured) -> str:
    """Where and how it was measured."""
    header = measured.header
    paces = ", ".join(
        f"{workload}: P {pace['bytes_per_s'] / 1e9:.2f} GB/s, {pace['used_bytes'] / 1e6:.0f} MB read"
        for workload, pace in measured.paces.items()
    )
    return (
        f"{machine_text(header['machine'])}; {paces}; medians of {measured.repetition_count()} or more processes; "
        f"{header['began'][:10]}, commit {header['commit']}; `{header['command']}`."
    )


def figure(number: str, results: All) -> str:
    """A figure's part of the page."""
    source = SOURCE.get(number, number)
    if source not in results:
        return f"*The paper:* {CLAIMS[number]}\n\nNot measured yet."
    return (
        f"![Figure {number}](hpcache-figure-{number}.svg)\n\n"
        f"*The paper:* {CLAIMS[number]} *Here:* {FINDINGS[number](results)}\n\n"
        f"{conditions(results[source])}"
    )


def policies(number: str, workload: str, results: All) -> str:
    """The tables of one workload, all rounds."""
    if number not in results:
        return "Not measured yet."
    measured = results[number]
    comparison = Comparison(measured, workload)
    compared = list(predictions(measured, workload))
    parts = [verdicts(measured, workload)]
    for medium in measured.media():
        here = [one for one in compared if one.medium == medium.name]
        parts.append(f"{medium.label[0].upper()}{medium.label[1:]}:\n\n{tables.policies(comparison, medium.name, here)}")
    return "\n\n".join(parts)


def combinations(results: All) -> str:
    """Which reading of the equations predicts better."""
    if "9" not in results:
        return "Not measured yet."
    compared = list(predictions(results["9"], "ssb"))
    if not compared:
        return "No pipeline was predicted."
    errors = {name: median_error(compared, by) or 0.0 for by, name in tables.READINGS.items()}
    told = ", ".join(f"{amount(100 * error)} for “{name}”" for name, error in errors.items())
    best = min(errors, key=errors.__getitem__)
    return f"“{best.capitalize()}” predicts best, by the median error: {told}.\n\n{tables.combinations(compared)}"


def parts(results: All) -> dict[str, str]:
    """Every part of the page by the name of its markers."""
    return {
        **{f"figure {number}": figure(number, results) for number in FINDINGS},
        "policies two": policies("8", "two", results),
        "policies ssb": policies("9", "ssb", results),
        "combinations": combinations(results),
    }
