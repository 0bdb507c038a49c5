"""Which configurations run which queries for each figure of the ReCache paper (PVLDB 2017).

Owns the configurations and the order of the runs. Names of configurations: `striped` is the paper's Parquet, `flat` its
relational columnar layout, `recache` its rule for choosing between the two as printed; `auto` is Thermocline's own
choice, `nested` Arrow's nested arrays. Figure 1 is drawn from the runs of figure 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import workloads
from data import LIST_ELEMENTS, TPCH_TABLES
from dataset import DataSet
from workloads import Query


@dataclass(frozen=True)
class Configuration:
    """Arguments of `connect` and settings of the session; DuckDB takes none of them."""

    name: str
    connect: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    engine: str = "thermocline"


class Lab(Protocol):
    """What a figure needs of `run.py`."""

    seed: int
    tpch_scale: float

    def file(self, name: str) -> str:
        """The path of a data file."""
        ...

    def discover(self, table: str, name: str) -> DataSet:
        """The attributes of a data file."""
        ...

    def count(self, full: int) -> int:
        """That many queries, or fewer if a share was asked for."""
        ...

    def ask(
        self, part: str, configuration: Configuration, tables: dict[str, str], queries: list[Query]
    ) -> dict[str, Any]:
        """What one process measures of a configuration; it goes into no figure."""
        ...

    def run_in_turn(
        self,
        part: str,
        configurations: list[Configuration],
        tables: dict[str, str],
        queries: list[Query],
        *,
        rounds: int,
        warm: Callable[[Configuration], list[str]] | None = None,
        whole: bool = False,
        x: float | None = None,
    ) -> None:
        """Measures configurations in turn, each several times, and keeps medians, of queries or of `whole` processes;
        `warm` gives what each is asked before, `x` is the place on the figure's axis."""
        ...

    def run_alone(
        self,
        part: str,
        configurations: list[Configuration],
        tables: dict[str, str],
        queries: list[Query],
        *,
        rounds: int,
        x: float | None = None,
    ) -> None:
        """Measures every query in databases of its own, in one process, and keeps medians."""
        ...

    def trace(self) -> str:
        """A file for the trace of a run; what it held is gone."""
        ...

    def replay(self, limits_bytes: list[int]) -> None:
        """Adds what every policy would have made of the trace under these limits."""
        ...


def layout(name: str) -> Configuration:
    """The cache's rows in one layout, or chosen by one rule."""
    return Configuration(name, settings={"thermocline.layout": name})


def admission(name: str) -> Configuration:
    """New items kept as rows, as offsets, or as it pays; nothing beyond them by the first query, as in the paper."""
    return Configuration(name, settings={"thermocline.admission": name, "thermocline.whole_columns": "later"})


OFF = Configuration("off", settings={"thermocline.cache": "off"})
UNLIMITED = Configuration("unlimited")
UNLIMITED_FLAT = Configuration(
    "unlimited, flat", {"eviction": "recache-as-printed"}, settings={"thermocline.layout": "flat"}
)
LAYOUTS = [layout(name) for name in ("striped", "flat", "recache", "auto", "nested")]
STRIPED, FLAT = LAYOUTS[:2]
SINGLE = layout("single")
COMPARED = LAYOUTS[:4]
ADMISSIONS = [admission(name) for name in ("lazy", "eager", "auto")]
POLICIES = ["recache", "recache-as-printed", "lru", "proteus", "vectorwise", "monetdb"]
CACHE_SHARES = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4]
"""Of what an unlimited cache keeps at most: the paper's steps from 1 to 8 GB, and one beyond."""
SEQUENCE_SHARES = [1 / 4, 1 / 2]
"""Of the same, for the long sequences."""
PERCENTS = [0, 20, 40, 60, 80, 100]


def figure_5(lab: Lab) -> None:
    """Full scans of what is cached of lists of one length, seven times in each process."""
    for elements in LIST_ELEMENTS:
        data = lab.discover("lists", f"lists_{elements}.ndjson")
        query = Query(workloads.everything(data), nested=True)
        tables = {"lists": lab.file(f"lists_{elements}.ndjson")}
        in_turn(lab, "scan", LAYOUTS, tables, [query] * 7, warm=lambda _, text=query.text: [text] * 2, x=elements)


def figure_6(lab: Lab) -> None:
    """The first query over the same files, which fills the cache, and the same without a cache."""
    for elements in LIST_ELEMENTS:
        data = lab.discover("lists", f"lists_{elements}.ndjson")
        query = Query(workloads.everything(data), nested=True)
        tables = {"lists": lab.file(f"lists_{elements}.ndjson")}
        lab.run_alone("fill", [OFF, *LAYOUTS], tables, [query], rounds=5, x=elements)


def figure_7(lab: Lab) -> None:
    """The first workload of figure 9 with fewer queries, each measured in five processes: an error of ten per cent is
    less than what two runs of a query differ by. Our own model learns of every layout that an item has had, as the
    equations do: other queries are asked in both layouts before, last in the one that is measured."""
    data = lab.discover("order_lineitems", "order_lineitems.ndjson")
    tables = {"order_lineitems": lab.file("order_lineitems.ndjson")}
    queries = workloads.alternating(data, lab.seed, "a", lab.count(200))
    others = [query.text for query in workloads.alternating(data, lab.seed + 1, "c", lab.count(100))]

    def warm(measured: Configuration) -> list[str]:
        texts = [workloads.everything(data)] * 2
        for before in sorted([STRIPED, FLAT], key=lambda one: one is measured):
            texts += [f"SET {name} = '{value}'" for name, value in before.settings.items()] + others
        return texts

    lab.run_in_turn("a", [STRIPED, FLAT], tables, queries, rounds=5, warm=warm)


def figure_9(lab: Lab) -> None:
    """Select-project-aggregate queries over nested orders, the cache filled before. Our rule twice: with a second layout
    held where there is room, and with one at a time, as the paper's has it."""
    data = lab.discover("order_lineitems", "order_lineitems.ndjson")
    tables = {"order_lineitems": lab.file("order_lineitems.ndjson")}
    for pattern in "abc":
        queries = workloads.alternating(data, lab.seed, pattern, lab.count(600))
        in_turn(lab, pattern, [*LAYOUTS, SINGLE], tables, queries, warm=lambda _: [workloads.everything(data)] * 2)


def figure_10(lab: Lab) -> None:
    """The same over spam mails, from an empty cache, with few and with many queries of nested attributes."""
    data = lab.discover("mails", "mails.ndjson")
    for part, nested_percent in [("a", 10), ("b", 90)]:
        queries = workloads.nested_share(data, lab.seed, nested_percent, lab.count(2000))
        in_turn(lab, part, LAYOUTS, {"mails": lab.file("mails.ndjson")}, queries)


def figure_11(lab: Lab) -> None:
    """How the difference grows with the share of queries of nested attributes (a, b) and of the mails (c)."""
    mails, verdicts, tables = spam_files(lab)
    count = lab.count(200)
    for percent in PERCENTS:
        queries = workloads.spam(mails, verdicts, lab.seed, count, percent, join_percent=10)
        in_turn(lab, "a", COMPARED, tables, queries, x=percent)
    for percent in PERCENTS:
        queries = workloads.yelp(lab.seed, count, percent)
        in_turn(lab, "b", COMPARED, yelp_tables(lab), queries, x=percent)
    for percent in PERCENTS:
        queries = workloads.spam(mails, verdicts, lab.seed, count, 100, json_percent=percent, nested_from=0.5)
        in_turn(lab, "c", COMPARED, tables, queries, x=percent)


def figure_12(lab: Lab) -> None:
    """What caching adds to each of the joins, asked alone of an empty cache."""
    queries = workloads.joins(lab.seed, lab.count(100), lab.tpch_scale)
    lab.run_alone("a", [OFF, *ADMISSIONS], tpch_tables(lab), queries, rounds=5)


def figure_13(lab: Lab) -> None:
    """The same queries one after the other."""
    queries = workloads.joins(lab.seed, lab.count(100), lab.tpch_scale)
    in_turn(lab, "sequence", [OFF, *ADMISSIONS], tpch_tables(lab), queries)


def figure_14(lab: Lab) -> None:
    """The same with the lineitems as NDJSON, under every policy and several limits; offline policies by replay."""
    queries = workloads.joins(lab.seed, lab.count(100), lab.tpch_scale)
    tables = {**tpch_tables(lab), "lineitem": lab.file("lineitem.ndjson")}
    traced = Configuration("traced", settings={"thermocline.trace": lab.trace()})
    kept = lab.ask("policies", traced, tables, queries)
    in_turn(lab, "policies", [UNLIMITED], tables, queries)
    for share in CACHE_SHARES:
        limit = limit_bytes(kept, share)
        limited = [Configuration(policy, {"cache_memory": limit, "eviction": policy}) for policy in POLICIES]
        in_turn(lab, "policies", limited, tables, queries, x=share)
    lab.replay([limit_bytes(kept, share) for share in CACHE_SHARES])


def figure_15(lab: Lab) -> None:
    """Long sequences over spam and Yelp's data under a quarter and a half of what a cache without limit keeps in flat
    columns: what others of our own making keep depends on how well they share."""
    mails, verdicts, tables = spam_files(lab)
    count = lab.count(4000)
    sequences = [
        ("a", tables, workloads.spam(mails, verdicts, lab.seed, count, 50, json_percent=50, join_percent=10)),
        ("b", yelp_tables(lab), workloads.yelp(lab.seed, count, 50)),
    ]
    for part, files, queries in sequences:
        kept = lab.ask(part, UNLIMITED_FLAT, files, queries)
        in_turn(lab, part, [UNLIMITED], files, queries)
        for share in SEQUENCE_SHARES:
            limit = limit_bytes(kept, share)
            limited = [
                Configuration(name, {"cache_memory": limit, "eviction": policy}, {"thermocline.layout": chosen})
                for name, policy, chosen in [
                    ("flat, lru", "lru", "flat"),
                    ("flat, greedy", "recache-as-printed", "flat"),
                    ("striped, greedy", "recache-as-printed", "striped"),
                    ("recache", "recache-as-printed", "recache"),
                    ("auto", "recache", "auto"),
                ]
            ]
            in_turn(lab, part, limited, files, queries, x=share)


def in_turn(
    lab: Lab,
    part: str,
    configurations: list[Configuration],
    tables: dict[str, str],
    queries: list[Query],
    *,
    warm: Callable[[Configuration], list[str]] | None = None,
    x: float | None = None,
) -> None:
    """Of three processes each, in turn, the middle one: the same configuration takes up to a tenth more or less in
    another."""
    lab.run_in_turn(part, configurations, tables, queries, rounds=3, whole=True, warm=warm, x=x)


def limit_bytes(unlimited: dict[str, Any], share: float) -> int:
    """A share of what an unlimited cache kept at most; never less than 1 MiB."""
    return max(1 << 20, round(unlimited["kept"]["most_bytes"] * share))


def spam_files(lab: Lab) -> tuple[DataSet, DataSet, dict[str, str]]:
    """The mails, what was found out about them, and both as tables."""
    return (
        lab.discover("mails", "mails.ndjson"),
        lab.discover("verdicts", "verdicts.csv"),
        {"mails": lab.file("mails.ndjson"), "verdicts": lab.file("verdicts.csv")},
    )


def yelp_tables(lab: Lab) -> dict[str, str]:
    """The three files of Yelp's data."""
    return {table: lab.file(f"{table}.ndjson") for table in ("business", "user", "review")}


def tpch_tables(lab: Lab) -> dict[str, str]:
    """Five tables of TPC-H as CSV."""
    return {table: lab.file(f"{table}.csv") for table in TPCH_TABLES}


FIGURES: dict[str, Callable[[Lab], None]] = {
    "5": figure_5,
    "6": figure_6,
    "7": figure_7,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "12": figure_12,
    "13": figure_13,
    "14": figure_14,
    "15": figure_15,
}
