"""The sequences of queries that ReCache was measured with (PVLDB 2017, §4.1 and §6), drawn from a seed.

Owns which attributes are drawn how often. The paper leaves open: how many attributes a query aggregates (here one to
three, each under sum, avg, min, max or count), how many ranges it has (one or two), and how often what is joined is
nested. A query of "all attributes" draws from the record's and from those of one list; with several lists, one is drawn
for each query. On Yelp's data the fields, the kinds of predicates and their shares follow the description that the
paper's footnote 1 refers to, but for two things: one list is unnested where it unnests up to three, and what it selects
is aggregated.

Texts are in Thermocline's dialect; `Query.duckdb` gives DuckDB's, which differs in how the elements of a list are
named.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import spj_queries
from dataset import ELEMENT, RECORD, Attribute, DataSet

AGGREGATES = ["sum", "avg", "min", "max", "count"]
TEXT_AGGREGATES = ["min", "max", "count"]


@dataclass(frozen=True)
class Query:
    """A query, and whether it asks for elements of a list."""

    text: str
    nested: bool

    @property
    def duckdb(self) -> str:
        """The same in DuckDB's dialect: elements are a column of the unnested table."""
        return re.sub(r"UNNEST\(([^)]*)\) AS (\w+)", r"UNNEST(\1) AS \2(\2)", self.text)


def aggregate(draw: random.Random, attribute: Attribute) -> str:
    """One of the aggregates that the attribute's type has."""
    return f"{draw.choice(AGGREGATES if attribute.is_number else TEXT_AGGREGATES)}({attribute.sql})"


def source(data: DataSet, unnest: str | None) -> str:
    """The table, with one of its lists unnested if wanted."""
    return f"{data.table} AS {RECORD}" + (f", UNNEST({unnest}) AS {ELEMENT}" if unnest else "")


def is_nested(attributes: list[Attribute]) -> bool:
    """Whether one of them belongs to a list's elements."""
    return any(attribute.sql.split(".")[0] == ELEMENT for attribute in attributes)


def select(draw: random.Random, data: DataSet, attributes: list[Attribute], ranged: list[Attribute], unnest: str) -> Query:
    """A select-project-aggregate query; the list is unnested only if one of its attributes is asked for."""
    nested = is_nested(attributes + ranged)
    aggregates = ", ".join(aggregate(draw, attribute) for attribute in attributes)
    ranges = " AND ".join(attribute.range(draw) for attribute in ranged)
    return Query(f"SELECT {aggregates} FROM {source(data, unnest if nested else None)} WHERE {ranges}", nested)


def draw_attributes(draw: random.Random, pool: list[Attribute]) -> tuple[list[Attribute], list[Attribute]]:
    """What is aggregated and what is asked for by range."""
    numbers = [attribute for attribute in pool if attribute.is_number]
    return (
        draw.sample(pool, min(draw.randint(1, 3), len(pool))),
        draw.sample(numbers, min(draw.randint(1, 2), len(numbers))),
    )


def flat_query(draw: random.Random, data: DataSet) -> Query:
    """Only attributes of the record."""
    return select(draw, data, *draw_attributes(draw, data.flat), unnest="")


def any_query(draw: random.Random, data: DataSet) -> Query:
    """Attributes drawn from all of them, so it may happen that none is nested."""
    unnest = draw.choice(list(data.lists))
    return select(draw, data, *draw_attributes(draw, data.flat + data.lists[unnest]), unnest=unnest)


def nested_query(draw: random.Random, data: DataSet) -> Query:
    """As `any_query`, drawn until at least one attribute is nested."""
    while not (query := any_query(draw, data)).nested:
        pass
    return query


def either(draw: random.Random, data: DataSet, nested_percent: float) -> Query:
    """A query of nested attributes in that many of a hundred draws."""
    return nested_query(draw, data) if draw.random() * 100 < nested_percent else flat_query(draw, data)


def everything(data: DataSet) -> str:
    """Fills the cache: every attribute of the record and of its first list, of all records."""
    [(unnest, elements), *_] = data.lists.items()
    aggregates = [f"{'sum' if a.is_number else 'count'}({a.sql})" for a in data.flat + elements]
    return f"SELECT {', '.join(aggregates)} FROM {source(data, unnest)}"


def alternating(data: DataSet, seed: int, pattern: str, count: int = 600) -> list[Query]:
    """Figures 1, 7 and 9. `pattern` a: all attributes, from the middle on non-nested ones only; b: the same in turn,
    six times; c: half of the queries, drawn at random, of non-nested attributes."""
    draw = random.Random(seed)
    of_all: dict[str, Callable[[int], bool]] = {
        "a": lambda index: index < count // 2,
        "b": lambda index: index * 6 // count % 2 == 0,
        "c": lambda _: draw.random() < 0.5,
    }
    return [any_query(draw, data) if of_all[pattern](index) else flat_query(draw, data) for index in range(count)]


def nested_share(data: DataSet, seed: int, nested_percent: float, count: int = 2000) -> list[Query]:
    """Figure 10: select-project-aggregate queries, that many of them of nested attributes. No two are the same."""
    draw = random.Random(seed)
    queries: dict[Query, None] = {}
    while len(queries) < count:
        queries[either(draw, data, nested_percent)] = None
    return list(queries)


def join(draw: random.Random, mails: DataSet, verdicts: DataSet, nested_percent: float) -> Query:
    """One attribute and one range of either file, joined by the mail's identifier."""
    unnest = draw.choice(list(mails.lists)) if draw.random() * 100 < nested_percent else None
    kept, ranged = draw.choice(mails.lists[unnest] if unnest else mails.flat), draw.choice(mails.flat)
    columns = [Attribute(f"v.{a.sql.removeprefix(RECORD + '.')}", a.values) for a in verdicts.flat]
    summed, bounded = draw.sample(columns, 2)
    return Query(
        f"SELECT {aggregate(draw, kept)}, {aggregate(draw, summed)} "
        f"FROM {verdicts.table} AS v, {source(mails, unnest if is_nested([kept]) else None)} "
        f"WHERE v.mail_id = {RECORD}.mail_id AND {ranged.range(draw)} AND {bounded.range(draw)}",
        is_nested([kept]),
    )


def spam(
    mails: DataSet,
    verdicts: DataSet,
    seed: int,
    count: int,
    nested_percent: float,
    json_percent: float = 100,
    join_percent: float = 0,
    nested_from: float = 0,
) -> list[Query]:
    """Figures 11a, 11c and 15a. `join_percent` of the queries join both files, `json_percent` of the others ask the
    mails; of those that ask mails, from the share `nested_from` of the sequence on, `nested_percent` ask for nested
    attributes."""
    draw = random.Random(seed)
    queries = []
    for index in range(count):
        percent = nested_percent if index >= nested_from * count else 0
        if draw.random() * 100 < join_percent:
            queries.append(join(draw, mails, verdicts, percent))
        elif draw.random() * 100 < json_percent:
            queries.append(either(draw, mails, percent))
        else:
            queries.append(flat_query(draw, verdicts))
    return queries


YELP_BOUNDS = {
    "business": {"stars": 5, "review_count": 20_000},
    "user": {"review_count": 11_000, "fans": 1_000, "compliment_funny": 100, "compliment_cool": 1_000},
    "review": {"stars": 5, "votes.useful": 1_000, "votes.cool": 1_000, "votes.funny": 1_000},
}
"""What is asked for by `field < number`, and the highest number."""
YELP_LISTS = {"business": ["categories", "checkins"], "user": ["friends", "elite"]}
YELP_CITIES = ["Edinburgh", "Phoenix", "Toronto", "Montréal", "Pittsburgh", "Charlotte", "Cleveland"]
YELP_ELEMENTS = {
    "categories": ["count(e)", "max(e)"],
    "checkins": ["sum(e.count)", "max(e.hour)", "min(e.day)"],
    "friends": ["count(e)", "max(e)"],
    "elite": ["count(e)", "max(e)", "min(e)"],
}


def yelp_query(draw: random.Random, table: str, nested: bool) -> Query:
    """The highest values of the record's fields, and of a list's elements if `nested`, under two predicates."""
    bounds = YELP_BOUNDS[table]
    predicates = []
    for _ in range(2):
        name = draw.choice([*bounds, "city"] if table == "business" else list(bounds))
        if name == "city":
            predicates.append(f"r.city = '{draw.choice(YELP_CITIES)}'")
        else:
            predicates.append(f"r.{name} < {draw.randint(1, bounds[name])}")
    aggregates = [f"max(r.{name})" for name in list(bounds)[:2]]
    unnest = ""
    if nested:
        name = draw.choice(YELP_LISTS[table])
        aggregates += YELP_ELEMENTS[name]
        unnest = f", UNNEST(r.{name}) AS e"
        if name == "elite" and draw.random() < 0.2:
            predicates[1] = f"e = {draw.randint(2010, 2016)}"
    return Query(f"SELECT {', '.join(aggregates)} FROM {table} AS r{unnest} WHERE {' AND '.join(predicates)}", nested)


def yelp(seed: int, count: int, nested_percent: float) -> list[Query]:
    """Figures 11b and 15b: each of the three files a third of the queries, while so many can be nested; then the two
    with lists a half each."""
    draw = random.Random(seed)
    tables = ["business", "user", "review"] if nested_percent <= 200 / 3 else ["business", "user"]
    nested_of_two = min(100, nested_percent * len(tables) / 2)
    queries = []
    for _ in range(count):
        table = draw.choice(tables)
        queries.append(yelp_query(draw, table, table in YELP_LISTS and draw.random() * 100 < nested_of_two))
    return queries


def joins(seed: int, count: int, scale: float) -> list[Query]:
    """Figures 12, 13 and 14: select-project-join queries over five tables of TPC-H."""
    draw = random.Random(seed)
    return [Query(spj_queries.query(draw, scale), nested=False) for _ in range(count)]
