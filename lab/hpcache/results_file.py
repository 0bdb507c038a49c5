"""The results of one figure: a file of JSON lines that grows by one line with each finished run.

Owns the file. Its first line says what was measured on what (`kind` is `header`); every other line is a record of the
`kind` `pace` (a workload with all pages in memory) or `run`. A line that was cut off when the process ended is dropped,
so that a later process goes on where an earlier one stopped; it must measure the same on the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]

COMPARABLE = ("figure", "commit", "machine", "scale", "memory", "quick", "database")
"""What two processes must agree in to write one file."""


def whole_lines(path: Path) -> list[str]:
    """The lines of the file, without a last one that was cut off."""
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def read(path: Path) -> tuple[Record, list[Record]]:
    """Header and records."""
    header, *records = (json.loads(line) for line in whole_lines(path))
    return header, records


def run_key(record: Record) -> tuple[str, str, float, str, int]:
    """The configuration that a run is of."""
    return (record["workload"], record["medium"], record["share"], record["policy"], record["repetition"])


class ResultsFile:
    """Open for appending."""

    def __init__(self, path: Path, header: Record) -> None:
        """Makes the file, or goes on with it if its header says the same."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = whole_lines(path)
        if lines:
            earlier = json.loads(lines[0])
            self._agree(earlier, header)
            # How often each configuration is measured may grow; the last command says how often that is.
            lines[0] = json.dumps({**earlier, "command": header["command"]})
        else:
            lines = [json.dumps(header)]
        path.write_text("".join(f"{line}\n" for line in lines))
        records = [json.loads(line) for line in lines[1:]]
        self.paces: dict[str, Record] = {record["workload"]: record for record in records if record["kind"] == "pace"}
        self.done = {run_key(record) for record in records if record["kind"] == "run"}

    def _agree(self, earlier: Record, now: Record) -> None:
        for name in COMPARABLE:
            if earlier.get(name) != now[name]:
                raise SystemExit(
                    f"{self.path}, line 1: {name} is {earlier.get(name)} there and {now[name]} now: "
                    "remove the file to begin anew, or go on as it was begun"
                )

    def append(self, record: Record) -> None:
        """Adds a record, at once."""
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        if record["kind"] == "pace":
            self.paces[record["workload"]] = record
        else:
            self.done.add(run_key(record))
