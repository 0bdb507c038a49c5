"""Arrow data out and in: pandas, polars, pyarrow and the PyCapsule interface."""

import datetime as dt
import decimal
import sys

import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

import thermocline

QUERY = """SELECT value AS n, CASE WHEN value % 3 = 0 THEN NULL ELSE 'text ' || value END AS text,
                  [value, NULL] AS list, named_struct('a', value * 0.5) AS struct
           FROM range(0, 20000) ORDER BY value"""


def expected(n):
    return n, None if n % 3 == 0 else f"text {n}", [n, None], {"a": n * 0.5}


def test_arrow_is_a_table_with_the_same_values(db):
    table = db.sql(QUERY).arrow()
    assert isinstance(table, pyarrow.Table)
    assert table.column_names == ["n", "text", "list", "struct"]
    assert [tuple(row.values()) for row in table.to_pylist()] == db.sql(QUERY).fetchall()
    assert [tuple(row.values()) for row in table.slice(9_999, 2).to_pylist()] == [expected(9_999), expected(10_000)]
    table.validate(full=True)


def test_pl_is_a_polars_frame_with_the_same_values(db):
    frame = db.sql(QUERY).pl()
    assert isinstance(frame, polars.DataFrame)
    assert frame.rows() == db.sql(QUERY).fetchall()


def test_df_is_a_pandas_frame_with_the_same_values(db):
    frame = db.sql(QUERY).df()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 20_000
    assert frame["n"].dtype == "int64"
    assert frame["text"].isna().sum() == 6_667
    assert frame["text"][1] == "text 1"
    assert list(frame["list"][7])[0] == 7


def test_df_takes_the_strings_of_files(db, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name,day\nAda,2024-01-02\nBo,\n")
    frame = db.sql(f"SELECT * FROM '{path}'").df()
    assert list(frame["name"]) == ["Ada", "Bo"]
    assert frame["day"].isna().tolist() == [False, True]


def test_df_has_the_types_of_the_answer_whatever_pandas_said_of_the_source(db):
    db.register("t", pandas.DataFrame({"n": ["1", "2"]}))
    frame = db.sql("SELECT CAST(n AS BIGINT) AS n FROM t").df()
    assert (frame["n"].dtype, frame["n"].sum()) == ("int64", 3)
    assert not db.sql("SELECT * FROM t").arrow().schema.metadata
    reader = pyarrow.Table.from_pandas(pandas.DataFrame({"n": ["1", "2"]})).to_reader()
    db.register("t", reader)
    assert pyarrow.table(db.sql("SELECT CAST(n AS BIGINT) AS n FROM t")).to_pandas()["n"].sum() == 3


NARROW = ["Decimal32(5, 2)", "Decimal64(5, 2)"]
NESTED = {
    "{}": lambda value: value,
    "[{}]": lambda value: [value],
    "named_struct('a', [{}])": lambda value: {"a": [value]},
    "MAP {{'k': {}}}": lambda value: {"k": value},
}


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("form", NESTED)
def test_narrow_decimals_keep_their_values(db, kind, form):
    value = decimal.Decimal("-1.25")
    expression = form.format(f"arrow_cast(-1.25, '{kind}')")
    result = db.sql(f"SELECT {expression} AS x UNION ALL SELECT {expression} AS x")
    frame = result.pl()
    assert frame.rows() == result.fetchall() == [(NESTED[form](value),)] * 2
    assert "1.25" in str(result.df()["x"][1])


SECONDS = {
    "Timestamp(Second, None)": lambda seconds: dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds),
    'Timestamp(Second, Some("UTC"))': lambda seconds: dt.datetime.fromtimestamp(seconds, dt.timezone.utc),
    "Duration(Second)": lambda seconds: dt.timedelta(seconds=seconds),
}


@pytest.mark.parametrize("kind", SECONDS)
@pytest.mark.parametrize("form", NESTED)
def test_pl_has_seconds_as_they_are_or_refuses_them(db, kind, form):
    def seconds(count):
        expression = form.format(f"arrow_cast({count}, '{kind}')")
        return db.sql(f"SELECT {expression} AS x")

    assert NESTED[form](SECONDS[kind](86_401)) == seconds(86_401).pl().rows()[0][0] == seconds(86_401).fetchone()[0]
    # The last second that fits, and the first that does not.
    assert seconds(9_223_372_036_854_775).pl().shape == (1, 1)
    for count in [9_223_372_036_854_776, 9_223_372_036_854_775_807]:
        with pytest.raises(thermocline.InputError, match='column "x": a value of type .* does not fit'):
            seconds(count).pl()


@pytest.mark.parametrize(
    "expression",
    [
        "INTERVAL '1 month'",
        "[INTERVAL '1 month']",
        "arrow_cast(1.25, 'Decimal256(5, 2)')",
        "arrow_cast(100, 'Decimal128(5, -2)')",
        "arrow_cast([1], 'ListView(Int64)')",
        "arrow_cast(1, 'RunEndEncoded(\"run_ends\": Int32, \"values\": Int64)')",
    ],
)
def test_pl_refuses_what_polars_has_no_type_for(db, expression):
    for condition in ["true", "false"]:
        with pytest.raises(thermocline.InputError, match='column "x": polars has no type for'):
            db.sql(f"SELECT {expression} AS x WHERE {condition}").pl()


def test_frames_refuse_unions(db):
    kinds, children = pyarrow.array([0, 1], pyarrow.int8()), [pyarrow.array([1, 2]), pyarrow.array(["a", "b"])]
    union = pyarrow.UnionArray.from_sparse(kinds, children)
    for column in [union, pyarrow.StructArray.from_arrays([union], ["a"])]:
        db.register("t", pyarrow.table({"x": column}))
        result = db.sql("SELECT x FROM t")
        for library, frame in [("polars", result.pl), ("pandas", result.df)]:
            with pytest.raises(thermocline.InputError, match=f'column "x": {library} has no type for'):
                frame()


# What pandas would make 9007199254740992.0 of.
LARGE = 9_007_199_254_740_993


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "[{}]",
        "[0, {}]",
        "named_struct('a', {})",
        "[named_struct('a', {})]",
        "MAP {{'k': {}}}",
        "arrow_cast([{}], 'LargeList(Int64)')",
    ],
)
def test_df_refuses_integers_that_pandas_would_change_among_nulls(db, form):
    def asked(*values):
        rows = ", ".join(f"({value})" for value in values)
        return db.sql(f"SELECT {form.format('CAST(n AS BIGINT)')} AS x FROM (VALUES {rows}) t(n)")

    with pytest.raises(thermocline.InputError, match=f'column "x": pandas .* no float is {LARGE}; arrow'):
        asked(LARGE, "NULL").df()
    assert str(LARGE) in str(asked(LARGE, "NULL").arrow().to_pylist())
    assert str(LARGE) in str(asked(LARGE, 3).df()["x"].tolist())
    assert len(asked(LARGE - 1, "NULL").df()) == 2


def test_df_makes_floats_of_small_integers_among_nulls(db):
    db.register("t", pyarrow.table({"n": pyarrow.array([2**53, None, 2**63], pyarrow.uint64()), "m": [1, None, -(2**63)]}))
    frame = db.sql("SELECT * FROM t").df()
    assert frame.dtypes.tolist() == ["float64", "float64"]
    assert frame["n"].dropna().tolist() == [2**53, 2**63]
    db.register("t", pyarrow.table({"n": pyarrow.array([2**64 - 1, None], pyarrow.uint64())}))
    with pytest.raises(thermocline.InputError, match=f"no float is {2**64 - 1}"):
        db.sql("SELECT * FROM t").df()


@pytest.mark.parametrize("kind", ["VARCHAR", "arrow_cast(s, 'Utf8View')", "[arrow_cast(s, 'Utf8View')]", "arrow_cast(s, 'BinaryView')"])
def test_df_takes_views(db, kind):
    expression = f"CAST(s AS {kind})" if kind == "VARCHAR" else kind
    assert len(db.sql(f"SELECT {expression} AS x FROM (VALUES ('a'), (NULL)) t(s)").df()) == 2


def in_lists(array):
    return pyarrow.ListArray.from_arrays(pyarrow.array(range(len(array) + 1), pyarrow.int32()), array)


def in_views(array):
    offsets, sizes = pyarrow.array(range(len(array)), pyarrow.int32()), pyarrow.array([1] * len(array), pyarrow.int32())
    return pyarrow.ListViewArray.from_arrays(offsets, sizes, array)


def in_large_views(array):
    offsets, sizes = pyarrow.array(range(len(array)), pyarrow.int64()), pyarrow.array([1] * len(array), pyarrow.int64())
    return pyarrow.LargeListViewArray.from_arrays(offsets, sizes, array)


def in_runs(array):
    return pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array(range(2, len(array) + 2), pyarrow.int32()), array)


LEAVES = {
    "string_view": pyarrow.array(["a", None, "b"], pyarrow.string_view()),
    "binary_view": pyarrow.array([b"a", None, b"b"], pyarrow.binary_view()),
    "binary": pyarrow.array([b"a", None, b"b"], pyarrow.binary(1)),
    "decimal32": pyarrow.array([decimal.Decimal("1.25"), None, decimal.Decimal("-1.25")], pyarrow.decimal32(5, 2)),
    "decimal64": pyarrow.array([decimal.Decimal("1.25"), None, decimal.Decimal("-1.25")], pyarrow.decimal64(5, 2)),
}


@pytest.mark.parametrize("kind", LEAVES)
@pytest.mark.parametrize("form", [in_lists, in_views, in_large_views])
def test_df_takes_lists_of_what_pandas_does_not_know_in_lists(db, kind, form):
    db.register("t", pyarrow.table({"x": form(LEAVES[kind])}))
    assert [list(value) for value in db.sql("SELECT x FROM t").df()["x"]] == [[value] for value in LEAVES[kind].to_pylist()]


@pytest.mark.parametrize("kind", LEAVES)
def test_df_takes_runs(db, kind):
    first, second, third = LEAVES[kind].to_pylist()
    runs = in_runs(LEAVES[kind])
    db.register("t", pyarrow.table({"x": runs, "list": in_lists(runs)}))
    # Within a run too, and none of it.
    for start in range(5):
        frame = db.sql(f"SELECT x, list FROM t OFFSET {start}").df()
        expected = [first, first, second, third][start:]
        assert [None if pandas.isna(value) else value for value in frame["x"]] == expected
        assert [list(value) for value in frame["list"]] == [[value] for value in expected]


@pytest.mark.parametrize(
    ("kind", "text", "offset"),
    [("YearMonth", "14 months", {"months": 14}), ("DayTime", "3 days 2 seconds", {"days": 3, "nanoseconds": 2_000_000_000})],
)
def test_df_takes_intervals_of_all_kinds(db, kind, text, offset):
    expected = pandas.DateOffset(**{"months": 0, "days": 0, "nanoseconds": 0, **offset})
    frame = db.sql(f"SELECT x, [x] AS list FROM (SELECT arrow_cast('{text}', 'Interval({kind})') AS x)").df()
    assert frame["x"][0] == list(frame["list"][0])[0] == expected


def test_an_answer_without_rows_keeps_its_columns(db):
    empty = db.sql("SELECT value AS n FROM range(0, 10) WHERE value > 10")
    assert empty.arrow().schema.names == ["n"]
    assert (empty.arrow().num_rows, empty.pl().shape, empty.df().shape) == (0, (0, 1), (0, 1))


@pytest.mark.parametrize("kind", ["ListView(Int64)", "LargeListView(Utf8)", "Utf8View", "Dictionary(Int8, Utf8)", "Decimal32(4, 1)"])
def test_an_answer_without_rows_is_a_frame_without_rows(in_process, kind):
    """In a process of its own: without any batch, pyarrow ends it for some types."""
    source = """
        import sys
        import pyarrow
        import thermocline
        empty = thermocline.connect().sql(f"SELECT arrow_cast(NULL, '{sys.argv[1]}') AS x WHERE false")
        print(len(empty.df()), len(pyarrow.table(empty).to_pandas()), len(empty.arrow_reader().read_all().to_pandas()))
    """
    assert in_process(source, kind) == "0 0 0\n"


def test_arrow_reader_streams(db):
    reader = db.sql("SELECT a.value AS n FROM range(0, 1000000) a, range(0, 1000000) b").arrow_reader()
    assert isinstance(reader, pyarrow.RecordBatchReader)
    assert reader.schema.names == ["n"]
    # The whole would be 8 TB.
    assert sum(reader.read_next_batch().num_rows for _ in range(3)) > 0
    reader.close()
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_streams_outlive_their_connection():
    query = "SELECT value AS n FROM range(0, 1000000)"

    def reader():
        return thermocline.connect(threads=2).sql(query).arrow_reader()

    def capsule():
        return thermocline.connect(threads=2).sql(query).__arrow_c_stream__()

    class Stream:
        def __init__(self, capsule):
            self.capsule = capsule

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    result = pyarrow.RecordBatchReader.from_stream(thermocline.connect(threads=2).sql(query))
    for batches in [reader(), pyarrow.RecordBatchReader.from_stream(Stream(capsule())), result]:
        assert pyarrow.compute.sum(batches.read_all()["n"]).as_py() == 499_999_500_000


def test_others_read_a_result_as_it_is(db):
    result = db.sql("SELECT value AS n FROM range(0, 20000)")
    assert pyarrow.compute.sum(pyarrow.table(result)["n"]).as_py() == 199_990_000
    assert polars.DataFrame(result)["n"].sum() == 199_990_000


def test_a_capsule_that_nobody_reads_does_no_harm(db):
    for _ in range(100):
        capsule = db.sql("SELECT value FROM range(0, 1000000)").__arrow_c_stream__()
        assert "arrow_array_stream" in repr(capsule)
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_an_error_in_the_middle_of_a_stream_reaches_the_reader(db, tmp_path):
    path = tmp_path / "bad.ndjson"
    path.write_text('{"a": 1}\n' * 50_000 + '{"a": 1\x00\n' + '{"a": 1}\n' * 50_000)
    result = db.sql(f"SELECT a FROM '{path}'")
    for read in [result.arrow, result.pl, result.arrow_reader().read_all]:
        with pytest.raises(thermocline.InputError, match="bad.ndjson"):
            read()
    # Others know only their own errors.
    with pytest.raises(pyarrow.ArrowInvalid, match="bad.ndjson"):
        pyarrow.table(result)


SOURCES = {
    "pyarrow.Table": lambda: pyarrow.table({"n": [1, 2, None], "s": ["a", None, "c"]}),
    "pyarrow.RecordBatch": lambda: pyarrow.RecordBatch.from_pydict({"n": [1, 2, None], "s": ["a", None, "c"]}),
    "pyarrow.RecordBatchReader": lambda: pyarrow.table({"n": [1, 2, None], "s": ["a", None, "c"]}).to_reader(max_chunksize=2),
    "pyarrow slice": lambda: pyarrow.table({"n": [9, 1, 2, None, 9], "s": ["x", "a", None, "c", "x"]}).slice(1, 3),
    "pyarrow struct array": lambda: pyarrow.array([{"n": 1, "s": "a"}, {"n": 2, "s": None}, {"n": None, "s": "c"}]),
    "polars": lambda: polars.DataFrame({"n": [1, 2, None], "s": ["a", None, "c"]}),
    "pandas": lambda: pandas.DataFrame({"n": pandas.array([1, 2, None], "Int64"), "s": ["a", None, "c"]}, index=[7, 8, 9]),
    "stream of Python batches": lambda: pyarrow.RecordBatchReader.from_batches(
        pyarrow.schema([("n", pyarrow.int64()), ("s", pyarrow.string())]),
        (
            pyarrow.RecordBatch.from_pydict({"n": pyarrow.array(n, pyarrow.int64()), "s": pyarrow.array(s, pyarrow.string())})
            for n, s in [([1, 2], ["a", None]), ([None], ["c"])]
        ),
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_register_makes_a_table_of_anything_arrow(db, source):
    db.register("t", SOURCES[source]())
    assert db.sql("SELECT * FROM t ORDER BY s").columns == ["n", "s"]
    assert db.sql("SELECT * FROM t ORDER BY s NULLS FIRST").fetchall() == [(2, None), (1, "a"), (None, "c")]
    assert db.cursor().sql("SELECT sum(n) FROM t").fetchall() == [(3,)]


def test_register_takes_an_own_result_of_this_or_another_database(db):
    db.register("t", db.sql("SELECT value AS n FROM range(0, 20000)"))
    other = thermocline.connect()
    other.register("t", db.sql("SELECT n + 1 AS n FROM t"))
    assert other.sql("SELECT sum(n), count(*) FROM t").fetchall() == [(200_010_000, 20_000)]


def test_register_replaces_and_unregister_removes(db):
    db.register("t", pyarrow.table({"n": [1]}))
    db.register("t", pyarrow.table({"other": ["x"]}))
    assert db.sql("SELECT * FROM t").columns == ["other"]
    db.unregister("t")
    with pytest.raises(thermocline.InputError):
        db.sql("SELECT * FROM t").fetchall()
    with pytest.raises(thermocline.InputError, match="no table 't'"):
        db.unregister("t")


def test_registered_nested_and_encoded_columns_keep_their_values(db):
    table = pyarrow.table({
        "list": [[1, 2], None],
        "object": [{"a": "x"}, None],
        "dictionary": pyarrow.array(["p", "q"]).dictionary_encode(),
        "time": pyarrow.array([0, None], pyarrow.timestamp("us", "UTC")),
    })
    db.register("t", table)
    assert db.sql("SELECT list, object, dictionary FROM t").fetchall() == [([1, 2], {"a": "x"}, "p"), (None, None, "q")]
    assert db.sql("SELECT * FROM t").arrow().select(["list", "time"]).to_pylist() == table.select(["list", "time"]).to_pylist()
    db.register("t", polars.DataFrame({"c": polars.Series(["u", "v", "u"], dtype=polars.Categorical)}))
    assert db.sql("SELECT c, count(*) FROM t GROUP BY c ORDER BY c").fetchall() == [("u", 2), ("v", 1)]


@pytest.mark.parametrize("thing", [None, 1, "text", [1, 2], {"a": [1]}, object()])
def test_register_refuses_what_is_no_table(db, thing):
    with pytest.raises(thermocline.InputError, match="cannot make a table of"):
        db.register("t", thing)


def test_register_refuses_arrays_that_are_no_tables(db):
    for thing in [pyarrow.array([1, 2]), polars.Series([1, 2])]:
        with pytest.raises(thermocline.InputError, match="expected a table"):
            db.register("t", thing)
    with pytest.raises(thermocline.InputError, match="NULL as a whole"):
        db.register("t", pyarrow.array([{"a": 1}, None]))


def test_register_passes_on_what_a_stream_raises(db):
    def batches(raised):
        yield pyarrow.RecordBatch.from_pydict({"n": [1]})
        raise raised

    for raised in [ValueError("the source is broken"), KeyboardInterrupt(), ZeroDivisionError(), OSError(5, "the disk")]:
        reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("n", pyarrow.int64())]), batches(raised))
        with pytest.raises(type(raised)) as caught:
            db.register("t", reader)
        assert caught.value is raised


def test_register_refuses_batches_of_other_columns(db):
    wrong = iter([pyarrow.RecordBatch.from_pydict({"n": ["x"]})])
    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("n", pyarrow.int64())]), wrong)
    with pytest.raises(thermocline.InputError, match="n Utf8.*expected.*n Int64"):
        db.register("t", reader)


INT = pyarrow.int64()
SAID = {
    "metadata": (pyarrow.struct([("a", INT)]), pyarrow.struct([pyarrow.field("a", INT, metadata={"PARQUET:field_id": "1"})])),
    "never null": (pyarrow.struct([("a", INT)]), pyarrow.struct([pyarrow.field("a", INT, nullable=False)])),
    "name of elements": (pyarrow.list_(INT), pyarrow.list_(pyarrow.field("element", INT, nullable=False))),
    "elements of views": (pyarrow.list_view(INT), pyarrow.list_view(pyarrow.field("element", INT, metadata={"a": "b"}))),
    "deep": (pyarrow.list_(pyarrow.struct([("a", INT)])), pyarrow.list_(pyarrow.struct([pyarrow.field("a", INT, False)]))),
    "keys": (pyarrow.map_(pyarrow.string(), INT), pyarrow.map_(pyarrow.string(), pyarrow.field("number", INT, False))),
    "dictionary": (
        pyarrow.dictionary(pyarrow.int8(), pyarrow.struct([("a", INT)])),
        pyarrow.dictionary(pyarrow.int8(), pyarrow.struct([pyarrow.field("a", INT, False)])),
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_register_takes_batches_whose_nested_fields_say_other_things_of_the_same_values(db, case):
    to, of = SAID[case]
    value = {"struct": {"a": 1}, "list": [1], "list_view": [1], "map": [("k", 1)]}.get(str(of).split("<")[0])
    if case == "deep":
        value = [{"a": 1}]
    if case == "dictionary":
        value = {"a": 1}
        column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0], pyarrow.int8()), pyarrow.array([value], of.value_type))
    else:
        column = pyarrow.array([value], of)
    batch = pyarrow.RecordBatch.from_arrays([column], schema=pyarrow.schema([pyarrow.field("x", of, nullable=False)]))
    schema = pyarrow.schema([pyarrow.field("x", to, metadata={"said": "here"})])
    db.register("t", pyarrow.RecordBatchReader.from_batches(schema, iter([batch, batch])))
    assert db.sql("SELECT x FROM t").fetchall() == [(dict(value) if case == "keys" else value,)] * 2


def test_register_takes_the_batches_of_a_file(db, tmp_path):
    table = pyarrow.table({"s": [{"a": 1}, None], "l": [[1, None], []]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    file = pyarrow.parquet.ParquetFile(tmp_path / "t.parquet")
    # The file calls elements "element", the table "item".
    db.register("t", pyarrow.RecordBatchReader.from_batches(table.schema, file.iter_batches()))
    assert db.sql("SELECT * FROM t").fetchall() == [({"a": 1}, [1, None]), (None, [])]


NEVER = pyarrow.field("a", INT, nullable=False)


@pytest.mark.parametrize(
    ("to", "of", "value"),
    [
        (pyarrow.struct([("a", INT)]), pyarrow.struct([("b", INT)]), {"b": 1}),
        (pyarrow.struct([("a", INT)]), pyarrow.struct([("a", pyarrow.int32())]), {"a": 1}),
        # Queries count on it.
        (pyarrow.struct([NEVER]), pyarrow.struct([("a", INT)]), {"a": None}),
        (pyarrow.list_(NEVER), pyarrow.list_(INT), [None]),
        (pyarrow.list_(INT, 1), pyarrow.list_(INT, 2), [1, 2]),
        (pyarrow.map_(pyarrow.string(), NEVER), pyarrow.map_(pyarrow.string(), INT), [("k", None)]),
    ],
)
def test_register_refuses_batches_whose_nested_fields_are_others(db, to, of, value):
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array([value], of)], ["x"])
    with pytest.raises(thermocline.InputError, match="a batch of the stream has the columns"):
        db.register("t", pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("x", to)]), iter([batch])))


def test_register_passes_on_the_errors_of_a_result(db, tmp_path):
    small = thermocline.connect(memory="4MB")
    join = small.sql("SELECT count(*) AS n FROM range(0, 3000000) a JOIN range(0, 3000000) b ON a.value = b.value")
    path = tmp_path / "bad.ndjson"
    path.write_text('{"a": 1}\n' * 50_000 + "nonsense\n")
    bad = db.sql(f"SELECT a FROM '{path}'")
    for result, kind in [(join, thermocline.ResourceError), (bad, thermocline.InputError)]:
        for source in [result, result.arrow_reader()]:
            with pytest.raises(kind):
                db.register("t", source)
    with pytest.raises(thermocline.InputError, match="t"):
        db.sql("SELECT * FROM t").fetchall()


def test_register_refuses_columns_of_one_name(db):
    table = pyarrow.table([[1], [2], [3]], names=["a", "b", "a"])
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array([1]), pyarrow.array([2])], ["a", "a"])
    result = db.sql("SELECT * FROM (VALUES (1)) t(a), (VALUES (2)) u(a)")
    for twice in [table, table.to_reader(), batch, result]:
        with pytest.raises(thermocline.InputError, match="table 't': several columns are named \"a\""):
            db.register("t", twice)


def test_a_stream_is_read_once(db):
    reader = pyarrow.table({"n": [1]}).to_reader()
    capsule = reader.__arrow_c_stream__()

    class Source:
        def __arrow_c_stream__(self, requested_schema=None):
            return capsule

    db.register("t", Source())
    with pytest.raises(thermocline.InputError, match="read before"):
        db.register("t", Source())


def test_registered_rows_count_in_the_budget():
    db = thermocline.connect(memory="8MB")
    with pytest.raises(thermocline.ResourceError, match="thermocline.memory"):
        db.register("t", pyarrow.table({"n": range(2_000_000)}))
    db.register("t", pyarrow.table({"n": range(1_000)}))
    assert db.sql("SELECT count(*) FROM t").fetchall() == [(1_000,)]


def test_a_stream_without_end_is_refused_as_soon_as_the_budget_is_spent():
    def batches():
        for _ in range(1_000):
            yield pyarrow.RecordBatch.from_pydict({"n": list(range(10_000))})
        raise AssertionError("80 MB were read for a budget of 8 MB")

    db = thermocline.connect(memory="8MB")
    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("n", pyarrow.int64())]), batches())
    with pytest.raises(thermocline.ResourceError, match="thermocline.memory"):
        db.register("t", reader)


def test_a_stream_is_counted_while_it_is_read(in_process):
    source = """
        import pyarrow
        import thermocline
        db = thermocline.connect(memory="100MB", threads=1)
        column = pyarrow.array(range(1_000_000))
        other = pyarrow.table({"n": pyarrow.chunked_array([column] * 6)})

        def batches():
            for _ in range(8):
                try:
                    db.register("other", other)
                    db.unregister("other")
                    print("fits")
                except thermocline.ResourceError:
                    print("full")
                yield pyarrow.RecordBatch.from_arrays([column], ["n"])

        db.register("t", pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("n", pyarrow.int64())]), batches()))
        print(db.sql("SELECT count(*) FROM t").fetchall())
    """
    # 48 MB beside 0 and beside 56.
    first, *_, last, count = in_process(source).splitlines()
    assert (first, last, count) == ("fits", "full", "[(8000000,)]")


@pytest.mark.parametrize(("method", "package"), [("df", "pandas"), ("df", "pyarrow"), ("pl", "polars"), ("arrow", "pyarrow")])
def test_a_missing_package_is_named(db, monkeypatch, method, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{method}\\(\\) needs {package}: pip install {package}"):
        getattr(db.sql("SELECT 1"), method)()


def test_importing_the_package_imports_none_of_the_others(in_process):
    loaded = in_process("import sys, thermocline; thermocline.connect().sql('SELECT 1').fetchall(); print(*sys.modules)").split()
    assert not {"pandas", "polars", "pyarrow", "numpy"} & set(loaded)
