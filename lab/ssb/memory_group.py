"""A memory control group for one process, its page cache included.

Owns the group's size and how a process gets into it, which takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from pathlib import Path

POWERS = {"": 0, "K": 1, "M": 2, "G": 3}


def size_bytes(text: str) -> int:
    """“1000M” and “1000MB” are a thousand million bytes, as budgets of engines are; “1000MiB” are 2^20 bytes each. The
    system's own “1000M” is the latter."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]?)(i?)B?", text)
    if not found or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"{text} is no size: 1000MB or 1000MiB, for example")
    return round(float(found[1]) * (1024 if found[3] else 1000) ** POWERS[found[2]])


def join(limit_bytes: int) -> None:
    """Moves this process into a new group."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    root, limit = (first, "memory.limit_in_bytes") if first.is_dir() else (second, "memory.max")
    if root == second:
        (root / "cgroup.subtree_control").write_text("+memory")
    for left_behind in root.glob("lab-ssb-*"):
        with contextlib.suppress(OSError):  # One that has processes stays.
            left_behind.rmdir()
    group = root / f"lab-ssb-{os.getpid()}"
    group.mkdir()
    (group / limit).write_text(str(limit_bytes))
    (group / "cgroup.procs").write_text(str(os.getpid()))
