"""Looks at the pipelines that run while a query runs: what is predicted of them, moment by moment."""

from __future__ import annotations

import threading
import time
from typing import Any

PAUSE_S = 0.003
"""Between two looks. A look takes less, and takes it from the query."""


class Watch(threading.Thread):
    """Samples from its start until `samples` is asked for. Has a connection of its own, since a connection runs one
    query at a time."""

    def __init__(self, connection: Any) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self._found: list[dict[str, Any]] = []
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self._began = time.perf_counter()

    def run(self) -> None:
        """The thread's work. An error waits for who asks for the samples."""
        try:
            while not self._stopped.wait(PAUSE_S):
                result = self._connection.sql("SELECT * FROM thermocline.pipelines WHERE is_running")
                rows = result.fetchall()
                at_s = time.perf_counter() - self._began
                self._found += [{"at_s": at_s, **dict(zip(result.columns, row, strict=True))} for row in rows]
        except Exception as error:
            self._error = error

    def samples(self) -> list[dict[str, Any]]:
        """Ends the thread: one sample for each look and running pipeline, as the table has it, and when it was."""
        self._stopped.set()
        self.join()
        if self._error:
            raise self._error
        return self._found
