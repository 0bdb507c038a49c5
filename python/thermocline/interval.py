"""SQL intervals as Python values."""

from typing import NamedTuple


class Interval(NamedTuple):
    """A span of the calendar. Its parts are kept apart because months and days differ in length."""

    months: int
    days: int
    nanoseconds: int
