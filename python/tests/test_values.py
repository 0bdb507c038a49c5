"""What SQL values become in Python."""

import datetime as dt
import decimal
import math

import pyarrow
import pytest

import thermocline


def value(db, expression):
    [(answer,)] = db.sql(f"SELECT {expression}").fetchall()
    return answer


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("NULL", None),
        ("true", True),
        ("CAST(-128 AS TINYINT)", -128),
        ("CAST(18446744073709551615 AS BIGINT UNSIGNED)", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("CAST(0.5 AS REAL)", 0.5),
        ("1.25", 1.25),
        ("CAST('12.30' AS DECIMAL(10, 2))", decimal.Decimal("12.30")),
        ("CAST('-0.001' AS DECIMAL(38, 10))", decimal.Decimal("-0.0010000000")),
        ("'fünf 日本'", "fünf 日本"),
        ("CAST('view' AS VARCHAR)", "view"),
        ("''", ""),
        ("x'00ff'", b"\x00\xff"),
        ("DATE '2024-02-29'", dt.date(2024, 2, 29)),
        ("DATE '1969-12-31'", dt.date(1969, 12, 31)),
        ("DATE '0001-01-01'", dt.date(1, 1, 1)),
        ("CAST('23:59:59.000001' AS TIME)", dt.time(23, 59, 59, 1)),
        ("TIMESTAMP '2024-02-29 12:30:01.25'", dt.datetime(2024, 2, 29, 12, 30, 1, 250_000)),
        ("TIMESTAMP '1900-01-01 00:00:00.5'", dt.datetime(1900, 1, 1, microsecond=500_000)),
        ("TIMESTAMP '2024-01-01 00:00:00.123456789'", dt.datetime(2024, 1, 1, microsecond=123_456)),
        ("TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01 23:00:00'", dt.timedelta(hours=1)),
        ("TIMESTAMP '2024-01-01' - TIMESTAMP '2024-01-01 00:00:00.5'", dt.timedelta(seconds=-0.5)),
        ("INTERVAL '14 months 3 days 1 second'", thermocline.Interval(14, 3, 10**9)),
        ("[1, NULL, 3]", [1, None, 3]),
        ("[[1], [], NULL]", [[1], [], None]),
        ("named_struct('a', 1, 'b', NULL)", {"a": 1, "b": None}),
        ("[named_struct('a', [1.5])]", [{"a": [1.5]}]),
        ("MAP {'x': 1, 'y': NULL}", {"x": 1, "y": None}),
        ("arrow_cast('x', 'Dictionary(Int32, Utf8)')", "x"),
        ("arrow_cast(0.5, 'Float16')", 0.5),
        ("arrow_cast('x', 'LargeUtf8')", "x"),
        ("arrow_cast([1, 2], 'LargeList(Int64)')", [1, 2]),
        ("arrow_cast([1, 2], 'FixedSizeList(2, Int64)')", [1, 2]),
        ("arrow_cast(1, 'Duration(Second)')", dt.timedelta(seconds=1)),
    ],
)
def test_a_value_has_its_python_type(db, expression, expected):
    answer = value(db, expression)
    assert answer == expected
    assert type(answer) is type(expected)


def test_not_a_number_and_infinity_are_floats(db):
    assert math.isnan(value(db, "CAST('NaN' AS DOUBLE)"))
    assert value(db, "CAST('-inf' AS DOUBLE)") == -math.inf


@pytest.mark.parametrize("unit", ["Second", "Millisecond", "Microsecond", "Nanosecond"])
def test_times_with_a_zone_are_aware_and_in_utc(db, unit):
    expression = f"arrow_cast('2024-07-01T12:00:00+02:00', 'Timestamp({unit}, Some(\"Europe/Zurich\"))')"
    answer = value(db, expression)
    assert answer == dt.datetime(2024, 7, 1, 10, tzinfo=dt.timezone.utc)
    assert answer.tzinfo is dt.timezone.utc


def test_days_agree_with_python_over_the_whole_calendar(db):
    days = range(-719_162, 2_932_897, 9_973)  # 0001-01-01 to 9999-12-31
    rows = ", ".join(f"({day})" for day in days)
    answer = db.sql(f"SELECT column1, arrow_cast(arrow_cast(column1, 'Int32'), 'Date32') FROM (VALUES {rows})").fetchall()
    epoch = dt.date(1970, 1, 1)
    assert all(date == epoch + dt.timedelta(days=day) for day, date in answer)
    assert len(answer) == len(days)


def test_what_python_cannot_hold_is_an_error_that_names_the_column(db):
    with pytest.raises(thermocline.InputError, match='"late".*10000'):
        db.sql("SELECT arrow_cast(arrow_cast(2932897, 'Int32'), 'Date32') AS late").fetchall()
    with pytest.raises(thermocline.InputError, match='"early".*year 0'):
        db.sql("SELECT [arrow_cast(arrow_cast(-719163, 'Int32'), 'Date32')] AS early").fetchall()


def test_a_value_that_python_cannot_hold_fails_its_own_row_alone(db):
    days = pyarrow.array([*range(57), 2_932_897, *range(57)], pyarrow.int32()).cast(pyarrow.date32())
    db.register("t", pyarrow.table({"late": days}))
    epoch = dt.date(1970, 1, 1)
    result = db.sql("SELECT late FROM t")
    assert result.fetchmany(3) == [(epoch + dt.timedelta(days=day),) for day in range(3)]
    assert len(result.fetchmany(54)) == 54
    for ask in [result.fetchone, result.fetchmany, result.fetchall]:
        with pytest.raises(thermocline.InputError, match='"late".*10000'):
            ask()
    # Rows before it are not taken for the answer to a call that asked for it too.
    whole = db.sql("SELECT late FROM t")
    with pytest.raises(thermocline.InputError, match='"late".*10000'):
        whole.fetchmany(100)
    with pytest.raises(thermocline.InputError, match='"late".*10000'):
        whole.fetchone()


HIDDEN = pyarrow.array([0, 2_932_897, 1], pyarrow.int32()).cast(pyarrow.date32())
MASK = pyarrow.array([False, True, False])
OFFSETS = pyarrow.array([0, 1, 2, 3], pyarrow.int32())
COVERED = {
    "struct": (pyarrow.StructArray.from_arrays([HIDDEN], ["d"], mask=MASK), lambda day: {"d": day}),
    "struct in a struct": (
        pyarrow.StructArray.from_arrays([pyarrow.StructArray.from_arrays([HIDDEN], ["d"])], ["s"], mask=MASK),
        lambda day: {"s": {"d": day}},
    ),
    "list in a struct": (
        pyarrow.StructArray.from_arrays([pyarrow.ListArray.from_arrays(OFFSETS, HIDDEN)], ["l"], mask=MASK),
        lambda day: {"l": [day]},
    ),
    "dictionary in a struct": (
        pyarrow.StructArray.from_arrays(
            [pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2], pyarrow.int8()), HIDDEN)], ["d"], mask=MASK
        ),
        lambda day: {"d": day},
    ),
    "list": (pyarrow.ListArray.from_arrays(OFFSETS, HIDDEN, mask=MASK), lambda day: [day]),
    "fixed list": (pyarrow.FixedSizeListArray.from_arrays(HIDDEN, 1, mask=MASK), lambda day: [day]),
    "map": (
        pyarrow.MapArray.from_arrays(OFFSETS, pyarrow.array(["x", "y", "z"]), HIDDEN, mask=MASK),
        lambda day: {"x" if day.day == 1 else "z": day},
    ),
}


@pytest.mark.parametrize("kind", COVERED)
def test_what_lies_beneath_a_null_is_not_looked_at(db, kind):
    column, value = COVERED[kind]
    db.register("t", pyarrow.table({"x": column}))
    first, second = dt.date(1970, 1, 1), dt.date(1970, 1, 2)
    assert db.sql("SELECT x FROM t").fetchall() == [(value(first),), (None,), (value(second),)]


def test_a_dict_never_has_one_of_two_values_of_a_name(db):
    twice = db.sql("SELECT named_struct('a', 1, 'a', 2) AS twice")
    for ask in [twice.fetchall, twice.df, twice.pl]:
        with pytest.raises(thermocline.InputError, match='"twice".*several fields named "a"'):
            ask()
    entries = pyarrow.array([[("a", 1), ("b", 2), ("a", 3)]], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    db.register("t", pyarrow.table({"again": entries}))
    with pytest.raises(thermocline.InputError, match='"again".*the key \'a\' twice'):
        db.sql("SELECT again FROM t").fetchall()


def test_nulls_inside_of_columns_stay_in_place(db):
    rows = db.sql(
        "SELECT column1, column2, [column1] FROM (VALUES (1, 'a'), (NULL, 'b'), (3, NULL)) ORDER BY column2 NULLS LAST"
    ).fetchall()
    assert rows == [(1, "a", [1]), (None, "b", [None]), (3, None, [3])]


@pytest.mark.parametrize("kind", ["list_", "large_list", "list_view", "map_", "struct"])
def test_nested_values_are_found_in_a_part_of_a_column(db, kind):
    values = [[], [1], None, [2, 3], [4], [], [5, 6]]
    if kind == "map_":
        values = [value and [(key, str(key)) for key in value] for value in values]
        column = pyarrow.array(values, pyarrow.map_(pyarrow.int64(), pyarrow.string()))
        values = [None if value is None else dict(value) for value in values]
    elif kind == "struct":
        values = [None if value is None else {"a": value} for value in values]
        column = pyarrow.array(values)
    else:
        column = pyarrow.array(values, getattr(pyarrow, kind)(pyarrow.int64()))
    db.register("t", pyarrow.table({"x": column}))
    for start in range(len(values)):
        assert db.sql(f"SELECT x FROM t OFFSET {start}").fetchall() == [(value,) for value in values[start:]]


def test_nested_records_of_a_file(db, tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text('{"id": 1, "a": {"b": [{"c": 1}, {"c": null}]}}\n{"id": 2, "a": null}\n{"id": 3, "a": {"b": []}}\n')
    rows = db.sql(f"SELECT a FROM '{path}' WHERE id > 0 ORDER BY id").fetchall()
    assert rows == [({"b": [{"c": 1}, {"c": None}]},), (None,), ({"b": []},)]
    assert db.sql(f"SELECT a FROM '{path}' WHERE id = 3").fetchall() == [({"b": []},)]


def test_sums_and_averages_are_plain_numbers(db):
    answer = db.sql("SELECT sum(value), avg(value), count(*), sum(value * 0.5) FROM range(0, 10)").fetchall()
    assert answer == [(45, 4.5, 10, 22.5)]
    assert list(map(type, answer[0])) == [int, float, int, float]
