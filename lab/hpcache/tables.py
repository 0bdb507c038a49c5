"""The tables of the page: policies at each budget, predictions, and with how much less memory.

Owns rows and columns, as Markdown. Numbers come from `comparison.py` and `predictions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from comparison import OURS, Comparison, Compared, Place
from experiment.page import amount
from labels import LABELS
from media import BY_NAME
from predictions import Prediction, median_error, within


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Numbers to the right, names to the left."""
    lines = [" | ".join(head), "|".join(["---", *["---:"] * (len(head) - 1)]), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def slower(compared: Compared | None) -> str:
    """“+1.2 %”: slower; “-3.0 %”: faster."""
    if compared is None:
        return "–"
    percent = 100 * (compared.ratio - 1)
    return ("+" if percent >= 0 else "") + amount(percent)


def seconds(value: float | None) -> str:
    """A time in s."""
    return "–" if value is None else f"{value:.3f}"


def policies(comparison: Comparison, medium: str, predicted: Sequence[Prediction]) -> str:
    """One medium's budgets."""
    head = ["memory", *(LABELS[policy] for policy in comparison.policies), "beside the best other", "beside MRU", "predicted"]
    beside_mru = {compared.place: compared for compared in comparison.beside("mru")}
    rows = []
    for place in comparison.of_medium(medium):
        times = [seconds(comparison.seconds(place, policy)) for policy in comparison.policies]
        best = comparison.best_other(place)
        named = f"{slower(best)} ({LABELS[best.policy]})" if best else "–"
        ours = [one for one in predicted if Place(one.medium, one.share) == place and one.policy == OURS]
        good = within(ours, "engine_s")
        rows.append(
            [f"{place.share:.0%}", *times, named, slower(beside_mru.get(place)), "–" if good is None else f"{good:.0%}"]
        )
    return table(head, rows)


READINGS = {"sum_s": "sum", "max_s": "maximum", "slowest_s": "slowest"}
PREDICTED = {**READINGS, "engine_s": "engine", "repeated_s": "repeated"}
"""What the page calls those who predicted."""


def combinations(predicted: Sequence[Prediction]) -> str:
    """Everybody's median error and share of good predictions, budget by budget."""
    rows = []
    for medium in dict.fromkeys(one.medium for one in predicted):
        for share in sorted({one.share for one in predicted if one.medium == medium}):
            here = [one for one in predicted if (one.medium, one.share) == (medium, share)]
            rows.append([f"{BY_NAME[medium].label}, {share:.0%}", str(len(here)), *accuracy(here)])
    rows.append(["all", str(len(predicted)), *accuracy(predicted)])
    return table(["", "pipelines", *PREDICTED.values()], rows)


def accuracy(predicted: Sequence[Prediction]) -> list[str]:
    """“9 % (55 %)”: the median error, and how many are within 10 %; a cell for each of those who predicted."""
    cells = []
    for by in PREDICTED:
        off, good = median_error(predicted, by), within(predicted, by)
        cells.append("–" if off is None or good is None else f"{amount(100 * off)} ({good:.0%})")
    return cells
