"""What other policies would have made of a recorded trace, offline ones too: the table that `lab replay` prints.

Owns reading it. A replay is a model: it adds up the times that the trace tells, so compare replays with replays only.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def replay(lab: Path, trace: Path, limits_bytes: list[int]) -> dict[str, list[float]]:
    """Seconds that the trace's requests take under each policy, one figure for each limit of the cache."""
    memory = [option for limit in limits_bytes for option in ("--memory", f"{limit}B")]
    try:
        done = subprocess.run([lab, "replay", trace, *memory], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise SystemExit(f"{lab} is not there: build it with make build") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.stderr) from error
    return seconds(done.stdout, len(limits_bytes))


def seconds(table: str, limit_count: int) -> dict[str, list[float]]:
    """The figures of `lab replay`'s table by policy; the hits behind them are left out."""
    rows = {}
    for row in table.splitlines():
        cells = re.findall(r"(\d+\.\d+) \(\d+\)", row)
        if len(cells) == limit_count:
            rows[row.split()[0]] = [float(cell) for cell in cells]
    return rows
