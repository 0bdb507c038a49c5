"""Random questions about random files: the same answers with the cache off, cold and warm, and as DuckDB gives them."""

import math

import duckdb
import pytest

import thermocline
from random_files import FLAT_QUERIES, NDJSON_COLUMNS, NESTED_QUERIES, queries, write_csv, write_ndjson

ROWS = 3_000
ASKED = 25


def same(ours, theirs):
    """Equal, floats within what another order of summing changes."""
    if isinstance(ours, float) or isinstance(theirs, float):
        if ours is None or theirs is None:
            return ours is theirs
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def in_order(rows):
    """Rows in an order of their own; floats rounded there, so that their last digits don't decide."""

    def key(value):
        if isinstance(value, float):
            return ("1", f"{round(value, 4):+025.4f}")
        if isinstance(value, (list, tuple)):
            return ("2", [key(part) for part in value])
        if isinstance(value, dict):
            return ("3", [(name, key(part)) for name, part in sorted(value.items())])
        return ("0", repr(value))

    return sorted(rows, key=lambda row: repr([key(value) for value in row]))


def check(seed, query, name, rows, expected):
    rows, expected = in_order(rows), in_order(expected)
    if not same(rows, expected):
        wrong = [(ours, theirs) for ours, theirs in zip(rows, expected) if not same(ours, theirs)][:3]
        pytest.fail(f"seed {seed}, {name}: {query}\n{len(rows)} rows, expected {len(expected)}; differing: {wrong}")


def compare(seed, path, relation, templates):
    """Asks in each mode; `relation` is the file as DuckDB reads it."""
    duck = duckdb.connect()
    duck.execute(f"CREATE TABLE t AS FROM {relation}")
    warm = thermocline.connect()
    off = warm.cursor()
    off.sql("SET thermocline.cache = 'off'")
    # Room for an item or two at a time: others have to go.
    starved = thermocline.connect(cache_memory="64KiB")
    for query in queries(seed, ROWS, templates, ASKED):
        expected = duck.execute(query.format(t="t")).fetchall()
        ours = query.format(t=f"'{path}'")
        if "LIMIT" in query:
            assert len(expected) <= 7
        check(seed, ours, "cache off", off.sql(ours).fetchall(), expected)
        check(seed, ours, "first", warm.sql(ours).fetchall(), expected)
        check(seed, ours, "again", warm.sql(ours).fetchall(), expected)
        check(seed, ours, "starved", starved.sql(ours).fetchall(), expected)
    [(items, uses)] = warm.sql("SELECT count(*), sum(use_count) FROM thermocline.cache_items").fetchall()
    assert items > 0 and uses > items, "the cache was never used"
    [(held,)] = starved.sql("SELECT coalesce(sum(size_bytes), 0) FROM thermocline.cache_items").fetchall()
    assert held <= 64 << 10


def test_ndjson_agrees_with_duckdb(tmp_path, seed):
    path = tmp_path / "t.ndjson"
    write_ndjson(path, seed, ROWS)
    relation = f"read_json('{path}', format = 'newline_delimited', columns = {NDJSON_COLUMNS})"
    compare(seed, path, relation, FLAT_QUERIES + NESTED_QUERIES)


def test_csv_agrees_with_duckdb(tmp_path, seed):
    path = tmp_path / "t.csv"
    write_csv(path, seed, ROWS)
    relation = (
        f"read_csv('{path}', header = true, delim = ',', quote = '\"', escape = '\"', columns = "
        "{'id': 'BIGINT', 'k': 'BIGINT', 'price': 'DOUBLE', 'name': 'VARCHAR', 'flag': 'BOOLEAN'})"
    )
    compare(seed, path, relation, FLAT_QUERIES)


def test_parquet_agrees_with_duckdb(tmp_path, seed):
    source, path = tmp_path / "t.ndjson", tmp_path / "t.parquet"
    write_ndjson(source, seed, ROWS)
    duckdb.sql(
        f"COPY (FROM read_json('{source}', format = 'newline_delimited', columns = {NDJSON_COLUMNS})) TO '{path}' "
        "(FORMAT parquet, ROW_GROUP_SIZE 1000)"
    )
    off = thermocline.connect()
    for query in queries(seed, ROWS, FLAT_QUERIES + NESTED_QUERIES, ASKED):
        expected = duckdb.sql(query.format(t=f"'{path}'")).fetchall()
        ours = query.format(t=f"'{path}'")
        check(seed, ours, "first", off.sql(ours).fetchall(), expected)
        check(seed, ours, "again", off.sql(ours).fetchall(), expected)


def test_our_results_are_read_by_duckdb(db):
    result = db.sql("SELECT value AS n, 'x' || value AS s FROM range(0, 20000)")
    whole = result.arrow()
    assert duckdb.sql("SELECT sum(n), count(DISTINCT s) FROM whole").fetchall() == [(199_990_000, 20_000)]
    reader = result.arrow_reader()
    assert duckdb.sql("SELECT sum(n), count(DISTINCT s) FROM reader").fetchall() == [(199_990_000, 20_000)]


def test_their_results_are_registered_here(db):
    db.register("t", duckdb.sql("SELECT range AS n, 'x' || range AS s FROM range(20000)").to_arrow_table())
    assert db.sql("SELECT sum(n), count(DISTINCT s) FROM t").fetchall() == [(199_990_000, 20_000)]
