"""Which configurations are measured for each figure of the HPCache paper (DaMoN 2022), and in which order.

Owns the choice; measures nothing. Figure 4 is drawn from the runs of 5, as the line of one drive. Those of 8 and 9
compare all policies at all budgets, so that they also make the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from media import DISK, DRIVES, FASTER_DISKS, MULTIPLES, Medium

POLICIES = ("proportional", "lru", "mru", "2q", "lfu", "os")
BUDGETS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of the bytes that the workload reads."""
AMPLE = 1.5
"""A budget in which everything finds room, whatever pages take beyond their bytes."""
HOLDER = "mru"
"""Of a query that is asked again and again it holds as much as there is room for, wanted or not: what figures 3 to 5
need."""


@dataclass(frozen=True)
class Experiment:
    """Every combination of these is a configuration."""

    figure: str
    workloads: tuple[str, ...]
    media: tuple[Medium, ...]
    shares: tuple[float, ...]
    policies: tuple[str, ...]
    pace_of: str | None = None
    """The workload whose P bandwidths are multiples of; each its own if absent."""
    warm_rounds: int = 0
    """How often all is asked before it is measured."""
    timed_rounds: int = 1
    is_sampled: bool = False
    """Whether what is predicted is looked at all the time."""

    def pace_workload(self, workload: str) -> str:
        """The workload whose P counts."""
        return self.pace_of or workload


@dataclass(frozen=True)
class Configuration:
    """What one process measures."""

    workload: str
    medium: Medium
    share: float
    policy: str
    repetition: int

    @property
    def key(self) -> tuple[str, str, float, str, int]:
        """What tells it from others in a file of results."""
        return (self.workload, self.medium.name, self.share, self.policy, self.repetition)


EXPERIMENTS = {
    experiment.figure: experiment
    for experiment in (
        Experiment("3", ("1.3", "2.2", "3.1"), (*DRIVES, DISK), (0, 0.5, AMPLE), (HOLDER,), "2.1", 3, 5),
        Experiment("5", ("2.1",), (*DRIVES, DISK), (*(n / 10 for n in range(10)), AMPLE), (HOLDER,), "2.1", 3, 5),
        Experiment("6", ("1.1",), (*DRIVES, DISK), (0.25, AMPLE), ("proportional",), "2.1", 3, 1, is_sampled=True),
        Experiment("7", ("2.2",), (*DRIVES, DISK), (0.25, AMPLE), ("proportional",), "2.1", 3, 1, is_sampled=True),
        Experiment("8", ("two",), (*MULTIPLES, *FASTER_DISKS, DISK), BUDGETS, POLICIES),
        Experiment("9", ("ssb",), (*MULTIPLES, *FASTER_DISKS, DISK), BUDGETS, POLICIES),
    )
}
SOURCE = {"4": "5"}
"""Figures drawn from the runs of another one."""


def quick(experiment: Experiment) -> Experiment:
    """Less of the same, to try it out: two media, the least, a middle and the greatest share, three policies."""
    shares = experiment.shares
    return replace(
        experiment,
        media=(experiment.media[0], DISK),
        shares=tuple(sorted({shares[0], shares[len(shares) // 2], shares[-1]})),
        policies=experiment.policies[:3],
    )


def restricted(experiment: Experiment, media: Collection[str], policies: Collection[str]) -> Experiment:
    """The same on these media, by name, and with these policies; on all of them and with all where none is named."""
    return replace(
        experiment,
        media=tuple(medium for medium in experiment.media if not media or medium.name in media),
        policies=tuple(policy for policy in experiment.policies if not policies or policy in policies),
    )


def configurations(experiment: Experiment, repetitions: int, has_disk: bool) -> Iterator[Configuration]:
    """All of them, in the order of the runs: all once, then all again, so that hours of a busier machine are
    everybody's. Policies take turns in who goes first, and are measured right after each other."""
    count = len(experiment.policies)
    for repetition in range(repetitions):
        turn = repetition
        for medium in experiment.media:
            if medium == DISK and not has_disk:
                continue
            for workload in experiment.workloads:
                for share in experiment.shares:
                    first = turn % count
                    turn += 1
                    for policy in experiment.policies[first:] + experiment.policies[:first]:
                        yield Configuration(workload, medium, share, policy, repetition)
