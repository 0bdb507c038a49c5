"""What is read from: memory slowed down to a bandwidth, which stands for drives, or a disk as it is.

Bandwidths are multiples of P, the pace of a workload with all its pages in memory, so that storage stands to the engine
as it did in the paper, whatever the machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Medium:
    """A name, and the bandwidth as a multiple of P; the disk has none."""

    name: str
    factor: float | None

    @property
    def label(self) -> str:
        """As figures and tables say it."""
        return f"{self.name} (simulated)" if self.factor is not None else self.name

    def bytes_per_s(self, pace: float) -> float | None:
        """The bandwidth beside a workload of this P; `None` for the disk."""
        return None if self.factor is None else self.factor * pace


DISK = Medium("the disk", None)

FOUR_DRIVES = 1.48
"""Q2.1 had a P of 14.7 GB/s where four drives gave 3 x 4970 + 5780 MiB/s (§5)."""
DRIVES = tuple(Medium(f"{count} drive{'s' if count > 1 else ''}", FOUR_DRIVES * count / 4) for count in (1, 2, 4))
MULTIPLES = tuple(Medium(f"{factor:g} x P", factor) for factor in (0.5, 1, 2, 4))
BY_NAME = {medium.name: medium for medium in (*DRIVES, *MULTIPLES, DISK)}
