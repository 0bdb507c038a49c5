"""What a measurement was made on: machine, sources, time."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "core_count": len(os.sched_getaffinity(0)),
        "memory_bytes": memory_kib * 1024,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def machine_text(described: dict[str, Any]) -> str:
    """The same as a page says it."""
    return f"{described['cpu']}, {described['core_count']} cores, {described['memory_bytes'] / 2**30:.0f} GiB"


def commit() -> str:
    """The sources' version. The package must have been built from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--porcelain", "-uno") else "")


def now() -> str:
    """The date and time, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
