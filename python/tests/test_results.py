"""How results are asked for."""

import time

import pytest

import thermocline

ROWS = 20_000


@pytest.fixture
def numbers(db):
    """More rows than one batch holds."""
    return db.sql(f"SELECT value AS n FROM range(0, {ROWS}) ORDER BY value")


def test_a_query_runs_when_its_rows_are_asked_for(db, tmp_path):
    path = tmp_path / "later.ndjson"
    result = db.sql(f"SELECT a FROM '{path}'")
    path.write_text('{"a": 1}\n')
    assert result.fetchall() == [(1,)]


def test_a_result_can_be_asked_again_and_tells_the_state_of_that_time(db, tmp_path):
    path = tmp_path / "numbers.ndjson"
    path.write_text('{"a": 1}\n')
    result = db.sql(f"SELECT sum(a) FROM '{path}'")
    assert result.fetchall() == [(1,)]
    path.write_text('{"a": 1}\n{"a": 5}\n')
    assert result.fetchall() == [(6,)]
    assert list(result) == [(6,)]


def test_columns_and_types_are_known_without_running(db):
    result = db.sql("SELECT 1 AS a, 'x' AS b, 0.5 AS c, [1] AS d")
    assert result.columns == ["a", "b", "c", "d"]
    assert result.types[0] == "Int64"
    assert result.types[2] == "Float64"
    assert result.types[3].startswith("List")


def test_columns_are_those_of_the_files_and_tables_as_they_are(db, tmp_path):
    path = tmp_path / "t.ndjson"

    def replace(text):
        # Whoever is reading the file goes on reading the old one.
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(path)

    replace('{"a": 1}\n')
    result = db.sql(f"SELECT * FROM '{path}'")
    assert (result.columns, result.fetchall()) == (["a"], [(1,)])
    replace('{"b": "x"}\n{"b": "y"}\n')
    assert (result.columns, result.types) == (["b"], ["Utf8"])
    assert result.fetchone() == ("x",)
    replace('{"c": 1.5, "d": 2}\n')
    # Of the rows that are being read.
    assert (result.columns, result.fetchone()) == (["b"], ("y",))
    assert (result.fetchone(), result.columns) == (None, ["c", "d"])


def test_who_asks_for_the_columns_alone_runs_no_query(db, tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text("".join(f'{{"a": {n}}}\n' for n in range(1_000)))
    for low in range(20):
        result = db.sql(f"SELECT sum(a) AS total FROM '{path}' WHERE a > {low}")
        assert (result.columns, result.types) == (["total"], ["Int64"])
    time.sleep(0.1)
    assert db.cache().fetchall() == []


def test_fetchone_walks_through_the_rows_and_stays_at_the_end(db):
    result = db.sql("SELECT * FROM (VALUES (1), (2)) ORDER BY 1")
    assert [result.fetchone() for _ in range(5)] == [(1,), (2,), None, None, None]
    assert result.fetchmany(2) == []
    assert result.fetchall() == [(1,), (2,)]
    assert result.fetchone() is None


def test_fetchmany_walks_through_the_rows(numbers):
    assert numbers.fetchmany(3) == [(0,), (1,), (2,)]
    assert numbers.fetchmany() == [(3,)]
    assert numbers.fetchone() == (4,)
    seen = 5
    while rows := numbers.fetchmany(3_000):
        assert rows[0] == (seen,)
        seen += len(rows)
    assert seen == ROWS
    assert (numbers.fetchmany(2), numbers.fetchone()) == ([], None)


def test_fetchall_after_fetchone_returns_the_rest(numbers):
    numbers.fetchone()
    assert numbers.fetchall() == [(n,) for n in range(1, ROWS)]
    assert numbers.fetchone() is None
    assert len(numbers.fetchall()) == ROWS


def test_iterations_are_independent_of_each_other(numbers):
    first, second = iter(numbers), iter(numbers)
    assert [next(first), next(first), next(second)] == [(0,), (1,), (0,)]
    assert sum(1 for _ in first) == ROWS - 2


def test_an_iteration_need_not_reach_the_end(db):
    endless = db.sql("SELECT a.value FROM range(0, 1000000) a, range(0, 1000000) b")
    for count, _ in enumerate(endless):
        if count == 10:
            break
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_rows_come_from_a_connection_that_nobody_holds_any_more():
    query = "SELECT value FROM range(0, 1000000)"
    assert sum(value for (value,) in thermocline.connect(threads=2).sql(query)) == 499_999_500_000
    result = thermocline.connect(threads=2).sql(query)
    rows = iter(result)
    assert next(rows) is not None
    assert result.fetchone() is not None
    del result
    assert sum(1 for _ in rows) == 999_999
    assert len(thermocline.connect(threads=2).sql(query).fetchall()) == 1_000_000


def test_an_answer_without_rows_has_columns(db):
    result = db.sql("SELECT 1 AS a WHERE false")
    assert (result.fetchall(), result.fetchone(), list(result), result.columns) == ([], None, [], ["a"])
    assert "0 rows" in repr(result)


def test_columns_of_the_same_name_stay_apart(db):
    result = db.sql("SELECT * FROM (VALUES (1)) t(a), (VALUES (2)) u(a)")
    assert result.fetchall() == [(1, 2)]
    assert result.columns == ["a", "a"]


def test_show_prints_the_first_rows(db, capsys):
    db.sql("SELECT value AS n, 'ö' || value AS text FROM range(0, 100) ORDER BY 1").show(max_rows=3)
    shown = capsys.readouterr().out
    assert "│     n │ text" in shown
    assert "│     2 │ ö2" in shown
    assert "ö3" not in shown
    assert "the first 3 rows; there are more" in shown
    assert len({len(line) for line in shown.splitlines()[:-1]}) == 1


def test_repr_is_a_small_table(db):
    assert repr(db.sql("SELECT NULL AS nothing, 'two\nlines' AS b")) == (
        "┌─────────┬────────────┐\n"
        "│ nothing │ b          │\n"
        "│ Null    │ Utf8       │\n"
        "├─────────┼────────────┤\n"
        "│ NULL    │ two\\nlines │\n"
        "└─────────┴────────────┘\n"
        "1 row"
    )
    long = repr(db.sql("SELECT repeat('x', 1000) AS b"))
    assert "…" in long and max(map(len, long.splitlines())) < 70


def test_repr_stops_early(db):
    text = repr(db.sql("SELECT a.value FROM range(0, 1000000) a, range(0, 1000000) b"))
    assert "there are more" in text


def test_explain_cache_and_show_are_queries(db, tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    explained = db.sql(f"EXPLAIN CACHE SELECT a FROM '{path}' WHERE a > 1")
    assert len(explained.fetchall()) > 0
    assert any(name == "thermocline.memory" for name, *_ in db.sql("SHOW ALL").fetchall())


def test_cache_lists_what_is_held(db, tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text("".join(f'{{"a": {n}}}\n' for n in range(1000)))
    assert db.cache().fetchall() == []
    db.sql(f"SELECT sum(a) FROM '{path}' WHERE a > 10").fetchall()
    items = db.cache()
    assert isinstance(items, thermocline.Result)
    assert {"path", "predicate", "size_bytes", "use_count"} <= set(items.columns)
    [path_held] = {dict(zip(items.columns, row))["path"] for row in items}
    assert path_held == str(path)
