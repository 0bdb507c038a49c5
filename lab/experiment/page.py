"""Pages of results: written by hand, but for the parts between markers."""

from __future__ import annotations

import re


def with_part(page: str, name: str, text: str) -> str:
    """The page with what stands between the part's markers replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"the page has no markers {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def amount(percent: float) -> str:
    """A percentage as the text says it."""
    return f"{percent:.0f} %" if abs(percent) >= 9.5 else f"{percent:.1f} %"
