"""Policies beside each other: medians, who is ahead, and with how much less memory.

Policies of one configuration were measured right after each other, so that ratios are taken within a repetition, and
their median counts: what slows the machine down for a minute slows down both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from measured import Measured, Run

OURS = "proportional"
UNBOUNDED = "os"
"""What the system caches knows no budget: on a disk it holds everything, of simulated storage nothing. No rival at
equal memory."""


@dataclass(frozen=True)
class Place:
    """A budget on a medium."""

    medium: str
    share: float


@dataclass(frozen=True)
class Compared:
    """The proportional policy beside another one."""

    place: Place
    policy: str
    ratio: float
    """Its time by the other's; below 1 it is ahead."""


class Comparison:
    """The runs of one workload, or the first questions of each run; or in their place one run of each configuration, put
    together of every question's fastest repetition: what comes in between on a machine only ever adds to a time."""

    def __init__(
        self, measured: Measured, workload: str, question_count: int | None = None, is_of_fastest: bool = False
    ) -> None:
        self.policies = measured.policies()
        self.media = measured.media()
        self.times_s: dict[tuple[Place, str], dict[int, float]] = {}
        runs: dict[tuple[Place, str], list[Run]] = {}
        for run in measured.of(workload=workload):
            key = (Place(run.medium, run.share), run.policy)
            self.times_s.setdefault(key, {})[run.repetition] = run.seconds(question_count)
            runs.setdefault(key, []).append(run)
        if is_of_fastest:
            self.times_s = {key: {0: fastest_s(repeated, question_count)} for key, repeated in runs.items()}
        self.places = sorted({place for place, _ in self.times_s}, key=lambda place: (self._rank(place.medium), place.share))

    def _rank(self, medium: str) -> int:
        return [one.name for one in self.media].index(medium)

    def of_medium(self, medium: str) -> list[Place]:
        """Its places, budgets ascending."""
        return [place for place in self.places if place.medium == medium]

    def seconds(self, place: Place, policy: str) -> float | None:
        """The median of the repetitions; `None` if there is none yet."""
        times_s = self.times_s.get((place, policy))
        return median(times_s.values()) if times_s else None

    def ratio(self, place: Place, other: str, other_place: Place | None = None) -> float | None:
        """Our time by another policy's, which may have had another budget."""
        ours = self.times_s.get((place, OURS), {})
        theirs = self.times_s.get((other_place or place, other), {})
        ratios = [ours[repetition] / theirs[repetition] for repetition in ours.keys() & theirs.keys()]
        return median(ratios) if ratios else None

    def beside(self, other: str) -> Iterator[Compared]:
        """All places at which both were measured."""
        for place in self.places:
            ratio = self.ratio(place, other)
            if ratio is not None:
                yield Compared(place, other, ratio)

    def best_other(self, place: Place) -> Compared | None:
        """The fastest of the others that have the same memory."""
        rivals = [policy for policy in self.policies if policy not in (OURS, UNBOUNDED)]
        times_s = {policy: self.seconds(place, policy) for policy in rivals}
        known = {policy: seconds for policy, seconds in times_s.items() if seconds is not None}
        if not known:
            return None
        best = min(known, key=known.__getitem__)
        ratio = self.ratio(place, best)
        return Compared(place, best, ratio) if ratio is not None else None

    def beside_best(self) -> list[Compared]:
        """Beside the fastest other one, everywhere."""
        return [compared for compared in map(self.best_other, self.places) if compared]

    def spread(self) -> float | None:
        """From the fastest to the slowest repetition, by the median: the middle one of all configurations. Who is that
        close to another one is not told apart from it."""
        repeated = [list(times_s.values()) for times_s in self.times_s.values() if len(times_s) > 1]
        spreads = [(max(times_s) - min(times_s)) / median(times_s) for times_s in repeated]
        return median(spreads) if spreads else None

    def with_part_of_memory(self, other: str, times_less: float) -> list[Compared]:
        """Our times with that much less memory than the other one has: the places are ours."""
        found = []
        for place in self.places:
            more = times_less * place.share
            theirs = next((other for other in self.of_medium(place.medium) if close(other.share, more)), None)
            ratio = self.ratio(place, other, theirs) if theirs else None
            if ratio is not None:
                found.append(Compared(place, other, ratio))
        return found


def fastest_s(repeated: list[Run], question_count: int | None) -> float:
    """Every question's fastest repetition, together."""
    questions = zip(*(run.asked[:question_count] for run in repeated), strict=False)
    return sum(min(one["seconds"] for one in asked) for asked in questions)


def close(left: float, right: float) -> bool:
    """Equal but for the binary fraction."""
    return abs(left - right) < 1e-9
