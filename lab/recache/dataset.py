"""What queries can ask of a file: its numeric attributes and lists, found in a sample of its records.

Owns the sample and the ranges drawn from it. Works on any NDJSON or CSV file, so that the real data sets can stand in
for the generated ones. The sample is drawn at even steps through the file, so that it is the same each time.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SAMPLE_RECORDS = 2_000
RECORD, ELEMENT = "r", "e"
"""Aliases of the file's records and of the elements of their unnested list."""


@dataclass
class Attribute:
    """A path within a record or within an element of a list, and values seen there, sorted. Without values: a text."""

    sql: str
    values: list[float] = field(default_factory=list)

    @property
    def is_number(self) -> bool:
        """Whether it can be summed and asked for by range."""
        return bool(self.values)

    def range(self, draw: random.Random) -> str:
        """A range of random selectivity: its share of the values and its place are uniform."""
        share = draw.random()
        start = draw.random() * (1 - share)
        last = len(self.values) - 1
        low, high = self.values[round(start * last)], self.values[round((start + share) * last)]
        return f"{self.sql} BETWEEN {number(low)} AND {number(high)}"


@dataclass
class DataSet:
    """One table's attributes: those of the record, and for each list those of its elements."""

    table: str
    flat: list[Attribute]
    lists: dict[str, list[Attribute]]


def number(value: float) -> str:
    """A number as SQL, without an exponent."""
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def discover(table: str, path: Path) -> DataSet:
    """Attributes of the file at `path`: numbers anywhere in its records, numbers and texts in lists one level deep."""
    flat: dict[str, Attribute] = {}
    lists: dict[str, dict[str, Attribute]] = {}
    for record in sample(path):
        for name, value in leaves(record, RECORD):
            if isinstance(value, list):
                elements = lists.setdefault(name, {})
                for element in value:
                    for inner, scalar in leaves(element, ELEMENT):
                        note(elements, inner, scalar, texts=inner == ELEMENT)
            else:
                note(flat, name, value, texts=False)
    for attribute in [*flat.values(), *(a for elements in lists.values() for a in elements.values())]:
        attribute.values.sort()
    return DataSet(table, list(flat.values()), {name: list(elements.values()) for name, elements in lists.items() if elements})


def note(attributes: dict[str, Attribute], name: str, value: Any, texts: bool) -> None:
    """Keeps a number, or that there are texts at this path if those are wanted. Everything else can't be aggregated."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        attributes.setdefault(name, Attribute(name)).values.append(value)
    elif texts and isinstance(value, str):
        attributes.setdefault(name, Attribute(name))


def leaves(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Values that are no objects, with their paths in SQL."""
    if not isinstance(value, dict):
        yield prefix, value
        return
    for name, inner in value.items():
        plain = re.fullmatch("[a-z_][a-z0-9_]*", name)
        yield from leaves(inner, f"{prefix}.{name}" if plain else f'{prefix}."{name}"')


def sample(path: Path) -> Iterator[dict[str, Any]]:
    """Some records of the file, from its beginning to its end."""
    header: list[str] | None = None
    with path.open("rb") as file:
        size_bytes = path.stat().st_size
        if path.suffix == ".csv":
            header = next(csv.reader([file.readline().decode()]))
        begin = file.tell()
        for step in range(SAMPLE_RECORDS):
            offset = begin + step * (size_bytes - begin) // SAMPLE_RECORDS
            if offset > begin:
                file.seek(offset - 1)
                file.readline()
            else:
                file.seek(begin)
            line = file.readline()
            if not line:
                return
            if header is None:
                yield json.loads(line)
            else:
                values = next(csv.reader(io.StringIO(line.decode())))
                yield {name: scalar(value) for name, value in zip(header, values, strict=True)}


def scalar(text: str) -> int | float | str:
    """A CSV field's value."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
