"""Figure 7: the cost model of ReCache (PVLDB 2017, §4.2, equations 1 to 5) and our own, held against what was measured.

Owns the estimates of the equations; those of the own model are in the table of decisions, as they were before the query
was measured. Needs, for each query, the scan of the cached item in either layout: time to get at the data (`data_ns`,
the paper's D), time to compute (`compute_ns`, C), rows and columns read (`rows_read`, `columns_read`) and the rows that
the item has when flattened (`row_count`, R), as the table of decisions tells them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from results import Run


@dataclass(frozen=True)
class Scan:
    """One scan of a cached item; times in nanoseconds."""

    data_ns: float
    compute_ns: float
    rows_read: float
    columns_read: float
    row_count: float

    @property
    def cost_ns(self) -> float:
        """D + C."""
        return self.data_ns + self.compute_ns


def scans(run: Run) -> list[Scan | None]:
    """The scan of each query; None where it made none or several, as queries do that miss."""
    found: list[Scan | None] = []
    for decisions in run.fields.get("scans", []):
        found.append(scan(decisions[0]) if len(decisions) == 1 else None)
    return found


def scan(decision: dict[str, Any]) -> Scan | None:
    """The decision's numbers; None if some are missing."""
    try:
        return Scan(*(float(decision[name]) for name in Scan.__dataclass_fields__))
    except KeyError:
        return None


def errors_percent(striped: Run, flat: Run) -> dict[str, list[float]]:
    """How far the predicted cost is from the measured one, in ascending order, by the layout predicted."""
    errors: dict[str, list[float]] = {"flat": [], "striped": []}
    history: list[Scan] = []
    for in_stripes, flattened in zip(scans(striped), scans(flat), strict=True):
        if in_stripes is None or flattened is None or not in_stripes.rows_read or not flattened.row_count:
            continue
        predicted_flat = in_stripes.data_ns * in_stripes.row_count / in_stripes.rows_read
        errors["flat"].append(off_percent(predicted_flat, flattened.cost_ns))
        if history:
            # ComputeCost(r, c): that of the query nearest in rows and columns among those seen in stripes so far.
            nearest = min(history, key=lambda past: distance(past, in_stripes))
            share = in_stripes.rows_read / flattened.row_count
            predicted_striped = (flattened.data_ns + nearest.compute_ns) * share
            errors["striped"].append(off_percent(predicted_striped, in_stripes.cost_ns))
        history.append(in_stripes)
    return {layout: sorted(values) for layout, values in errors.items()}


def own_errors_percent(striped: Run, flat: Run) -> dict[str, list[float]]:
    """The same of what Thermocline's model predicted of each query for the other layout than the one it was read in."""
    predictions = {"flat": (striped, flat), "striped": (flat, striped)}
    return {layout: sorted(predicted_errors(read, layout, measured)) for layout, (read, measured) in predictions.items()}


def predicted_errors(read: Run, layout: str, measured: Run) -> list[float]:
    """Errors of what was predicted for a layout in one run, beside the other run, which had the items in that
    layout."""
    errors = []
    for decisions, found in zip(read.fields.get("scans", []), scans(measured), strict=True):
        predicted_ns = decisions[0].get(f"{layout}_ns") if len(decisions) == 1 else None
        if predicted_ns is not None and found is not None:
            errors.append(off_percent(float(predicted_ns), found.cost_ns))
    return errors


def distance(left: Scan, right: Scan) -> float:
    """How unlike two scans are: the sum of their relative differences in rows and columns."""
    rows = abs(left.rows_read - right.rows_read) / max(left.rows_read, right.rows_read, 1)
    columns = abs(left.columns_read - right.columns_read) / max(left.columns_read, right.columns_read, 1)
    return rows + columns


def off_percent(predicted_ns: float, measured_ns: float) -> float:
    """The error as a share of what was measured."""
    return 100 * abs(predicted_ns - measured_ns) / measured_ns if measured_ns else 0.0
