"""What is read from: memory slowed down to a bandwidth, which stands for drives, or a disk as it is.

Bandwidths are multiples of P, the pace of a workload with all its pages in memory, so that storage stands to the engine
as it did in the paper, whatever the machine; or those of real drives.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Medium:
    """A name, and the bandwidth as a multiple of P or by itself; the disk has neither."""

    name: str
    factor: float | None = None
    fixed_bytes_per_s: float | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether it is memory slowed down."""
        return self.factor is not None or self.fixed_bytes_per_s is not None

    @property
    def label(self) -> str:
        """As figures and tables say it."""
        return f"{self.name} (simulated)" if self.is_simulated else self.name

    def bytes_per_s(self, pace: float) -> float | None:
        """The bandwidth beside a workload of this P; `None` for the disk."""
        return self.fixed_bytes_per_s if self.factor is None else self.factor * pace


DISK = Medium("the disk")

DRIVES = (Medium("1 drive", 0.41), Medium("2 drives", 0.74), Medium("4 drives", 1.48))
"""Q2.1 had a P of 14.7 GB/s, where one drive gave 5780 MiB/s and each of three others 4970 (§5). Two are half of four:
which two they were is not said."""
MULTIPLES = tuple(Medium(f"{factor:g} x P", factor) for factor in (0.5, 1, 2, 4))
FASTER_DISKS = tuple(Medium(f"{gigabytes:g} GB/s", fixed_bytes_per_s=gigabytes * 1e9) for gigabytes in (3.6, 7.2))
"""Two and four times what one NVMe drive of a rented machine gives."""
BY_NAME = {medium.name: medium for medium in (*DRIVES, *MULTIPLES, *FASTER_DISKS, DISK)}
