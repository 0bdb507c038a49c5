"""Which exception is raised for what, and what it says."""

import gzip
import os
import pickle

import pytest

import thermocline


def test_exceptions_are_what_python_users_catch():
    assert issubclass(thermocline.InputError, (thermocline.Error, ValueError))
    assert issubclass(thermocline.ResourceError, MemoryError)
    for kind in [thermocline.InputError, thermocline.RetryError, thermocline.ResourceError, thermocline.InternalError]:
        assert issubclass(kind, thermocline.Error)
        assert repr(pickle.loads(pickle.dumps(kind("text")))) == repr(kind("text"))


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT 'open", "SELECT 1 1 1", "SELECT (1"])
def test_a_syntax_error_is_raised_by_sql_itself(db, sql):
    with pytest.raises(thermocline.InputError, match="^syntax error"):
        db.sql(sql)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT x FROM (VALUES (1)) t(a)", "x"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT nothing(1)", "nothing"),
        ("SELECT 1 / 0", "zero"),
        ("SELECT CAST('abc' AS BIGINT)", "abc"),
        ("SELECT * FROM 'missing.ndjson'", "missing.ndjson"),
        ("SELECT * FROM 'no/such/folder/*.csv'", "no/such/folder"),
    ],
)
def test_a_wrong_query_is_an_input_error_that_names_the_fault(db, sql, named):
    with pytest.raises(thermocline.InputError, match=named):
        db.sql(sql).fetchall()
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_a_wrong_statement_is_raised_at_once(db):
    with pytest.raises(thermocline.InputError, match="settings are"):
        db.sql("SET thermocline.memori = '1GB'")
    with pytest.raises(thermocline.InputError, match="thermocline.memory"):
        db.sql("SET thermocline.memory = 'lots'")


def test_statements_before_a_wrong_one_have_run(db):
    with pytest.raises(thermocline.InputError):
        db.sql("CREATE TABLE t AS SELECT 1 AS a; DROP TABLE nowhere; CREATE TABLE u AS SELECT 1 AS a")
    assert db.sql("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(thermocline.InputError):
        db.sql("SELECT a FROM u").fetchall()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bad.ndjson", b'{"a": 1}\n{"a": oops}\n{"a": 3}\n', ["bad.ndjson", "byte 15"]),
        ("truncated.ndjson", b'{"a": 1}\n{"a": 2', ["truncated.ndjson", "byte"]),
        ("ragged.csv", b"a,b\n1,2\n3\n", ["ragged.csv", "line 3"]),
        ("encoding.csv", b"a\nx\n\xff\xfe\n", ["encoding.csv"]),
        ("broken.ndjson.gz", b"this is no gzip", ["broken.ndjson.gz"]),
        ("empty.ndjson", b"", ["empty.ndjson"]),
    ],
)
def test_bad_files_are_named_with_the_place(db, tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(thermocline.InputError) as raised:
        db.sql(f"SELECT * FROM '{path}'").fetchall()
    assert all(part in str(raised.value) for part in said), raised.value
    assert db.sql("SELECT 1").fetchall() == [(1,)]
    assert db.cache().fetchall() == []


def test_a_good_gzip_file_is_read(db, tmp_path):
    path = tmp_path / "t.ndjson.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert db.sql(f"SELECT sum(a) FROM '{path}'").fetchall() == [(3,)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(db, tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("a\n1\n")
    path.chmod(0)
    with pytest.raises(thermocline.InputError, match="secret.csv"):
        db.sql(f"SELECT * FROM '{path}'").fetchall()


def test_a_budget_that_is_too_small_names_its_setting():
    db = thermocline.connect(memory="4MB")
    join = "SELECT count(*) FROM range(0, 3000000) a JOIN range(0, 3000000) b ON a.value = b.value"
    with pytest.raises(thermocline.ResourceError, match="thermocline.memory"):
        db.sql(join).fetchall()
    db.sql("SET thermocline.memory = '1GB'")
    assert db.sql(join).fetchall() == [(3_000_000,)]


def test_an_error_in_the_middle_ends_the_rows(db, tmp_path):
    path = tmp_path / "late.ndjson"
    path.write_text('{"a": 1}\n' * 100_000 + "nonsense\n")
    result = db.sql(f"SELECT a FROM '{path}'")
    for ask in [result.fetchall, lambda: list(result), lambda: result.fetchmany(200_000)]:
        with pytest.raises(thermocline.InputError, match="late.ndjson.*byte 900000"):
            ask()


def test_an_error_in_the_middle_is_told_again_instead_of_the_rows_after_it(db, tmp_path):
    path = tmp_path / "late.ndjson"
    # Some pieces of a scan, the first of which is read before the last.
    path.write_text('{"a": 1}\n' * 3_000_000 + "nonsense\n")
    db.sql("SET threads = 1")
    result = db.sql(f"SELECT a FROM '{path}'")
    assert result.fetchone() == (1,)
    said = set()
    for ask in [lambda: result.fetchmany(4_000_000), result.fetchone, result.fetchmany, result.fetchall, result.fetchone]:
        with pytest.raises(thermocline.InputError, match="late.ndjson.*byte 27000000") as raised:
            ask()
        said.add(str(raised.value))
    assert len(said) == 1
    rows = iter(result)
    with pytest.raises(thermocline.InputError):
        list(rows)
    with pytest.raises(thermocline.InputError):
        next(rows)


def test_deeper_causes_stay_in_the_chain(db, tmp_path):
    """Whatever the chain holds, its links say more than the message, and all are Thermocline's."""
    for sql in ["SELECT * FROM 'missing.ndjson'", "SELECT CAST('abc' AS BIGINT)", "SELECT * FROM nowhere"]:
        with pytest.raises(thermocline.Error) as raised:
            db.sql(sql).fetchall()
        link, shown = raised.value.__cause__, str(raised.value)
        while link is not None:
            assert isinstance(link, thermocline.Error) and str(link) not in shown
            link, shown = link.__cause__, str(link)
