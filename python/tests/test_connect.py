"""Opening, closing and configuring a database; statements that are no query."""

import pathlib

import pytest

import thermocline


def setting(db, name):
    return db.sql(f"SHOW {name}").fetchall()[0][1]


def test_a_connection_answers_a_query(db):
    assert db.sql("SELECT 1 + 1 AS two").fetchall() == [(2,)]


def test_memory_is_given_as_text_or_bytes():
    assert setting(thermocline.connect(memory="512MiB"), "thermocline.memory") == "512 MiB"
    assert setting(thermocline.connect(memory=300_000_000), "thermocline.memory") == "300 MB"
    assert setting(thermocline.connect(None, "1GB", "100MB"), "thermocline.cache_memory") == "100 MB"


def test_threads_set_how_many_parts_a_query_runs_in():
    db = thermocline.connect(threads=3)
    assert setting(db, "datafusion.execution.target_partitions") == "3"


@pytest.mark.parametrize("threads", [0, -1, 1025, 2**40, 2**62, 2**70, True])
def test_a_number_of_threads_that_cannot_be_is_refused(threads):
    with pytest.raises(thermocline.InputError, match=f"^threads={threads}: expected .*at least 1 and at most 1024"):
        thermocline.connect(threads=threads)


def test_the_eviction_policy_is_chosen_by_name():
    assert setting(thermocline.connect(), "thermocline.eviction") == "recache"
    assert setting(thermocline.connect(eviction="LRU"), "thermocline.eviction") == "lru"
    with pytest.raises(thermocline.InputError, match="'mru'.*vectorwise"):
        thermocline.connect(eviction="mru")


@pytest.mark.parametrize("memory", ["4 XB", "lots", "1e9GB"])
def test_an_amount_that_cannot_be_read_is_refused(memory):
    with pytest.raises(thermocline.InputError, match=f"'{memory}'"):
        thermocline.connect(memory=memory)


@pytest.mark.parametrize("amount", [-1, 2**64, 2**70, True, False])
@pytest.mark.parametrize("name", ["memory", "cache_memory"])
def test_a_number_that_is_no_amount_is_refused(name, amount):
    with pytest.raises(thermocline.InputError, match=f"^{name}={amount}: expected"):
        thermocline.connect(**{name: amount})


def test_an_argument_of_another_type_is_refused():
    for memory in [[1], 1.5]:
        with pytest.raises(TypeError, match="^memory=.*: expected"):
            thermocline.connect(memory=memory)
    with pytest.raises(TypeError, match="^threads='2': expected"):
        thermocline.connect(threads="2")


def test_nothing_is_kept_on_disk_unless_a_folder_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for nowhere in [None, ":memory:"]:
        assert thermocline.connect(nowhere).sql("SELECT 1").fetchall() == [(1,)]
    assert list(tmp_path.iterdir()) == []
    for folder in ["orders.db", pathlib.Path("orders.db")]:
        with thermocline.connect(folder) as db:
            assert db.sql("SELECT 1").fetchall() == [(1,)]
            with pytest.raises(thermocline.InputError, match="in this process already: use another session"):
                thermocline.connect(tmp_path / "orders.db")
    assert (tmp_path / "orders.db" / "thermocline.format").exists()


def test_tables_of_a_folder_are_there_the_next_time(tmp_path):
    with thermocline.connect(tmp_path / "kept.db") as db:
        db.sql("CREATE TABLE t AS SELECT value AS i, 'n' || CAST(value % 3 AS VARCHAR) AS s FROM generate_series(1, 1000)")
        inserted = db.sql("INSERT INTO t VALUES (1001, NULL)")
        assert inserted.fetchall() == [(1,)]
        db.register("frame", db.sql("SELECT 'n1' AS s").arrow())
        with pytest.raises(thermocline.InputError, match="kept in the database's folder"):
            db.register("t", db.sql("SELECT 1 AS i").arrow())
    with thermocline.connect(tmp_path / "kept.db") as db:
        assert db.sql("SELECT count(*), sum(i), count(s) FROM t").fetchall() == [(1001, 501501, 1000)]
        with pytest.raises(thermocline.InputError, match="frame"):
            db.sql("SELECT * FROM frame").fetchall()


def test_any_number_of_connections_read_a_folder_and_none_changes_it(tmp_path):
    folder = tmp_path / "kept.db"
    with thermocline.connect(folder) as db:
        db.sql("CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)")
        with pytest.raises(thermocline.InputError, match="open for changes in this process already"):
            thermocline.connect(folder, read_only=True)
    first, second = (thermocline.connect(folder, read_only=True) for _ in range(2))
    with first, second:
        for db in [first, second]:
            assert db.sql("SELECT count(*), sum(i) FROM t").fetchall() == [(1000, 500500)]
        with pytest.raises(thermocline.InputError, match=r"public\.t cannot be made, changed or dropped.*read-only"):
            first.sql("DROP TABLE t")
        first.register("frame", first.sql("SELECT 1 AS i").arrow())
        assert first.sql("SELECT count(*) FROM t JOIN frame USING (i)").fetchall() == [(1,)]
        with pytest.raises(thermocline.InputError, match="open for reading in"):
            thermocline.connect(folder)
    for nowhere in [None, ":memory:"]:
        with pytest.raises(thermocline.InputError, match="needs a folder"):
            thermocline.connect(nowhere, read_only=True)
    with pytest.raises(thermocline.InputError, match="not made where it is to be read"):
        thermocline.connect(tmp_path / "missing.db", read_only=True)
    assert not (tmp_path / "missing.db").exists()


def test_a_folder_of_other_files_is_no_database(tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(thermocline.InputError, match="holds other files"):
        thermocline.connect(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_statements_that_return_no_rows_run_at_once_and_return_none(db):
    assert db.sql("CREATE TABLE t AS SELECT 1 AS a") is None
    assert db.sql("SET thermocline.verify = 'on'") is None
    assert setting(db, "thermocline.verify") == "on"
    assert db.sql("DROP TABLE t") is None


def test_insert_runs_at_once_and_tells_its_count(db):
    db.sql("CREATE TABLE t AS SELECT 1 AS a")
    inserted = db.sql("INSERT INTO t VALUES (2), (3)")
    assert db.sql("SELECT sum(a) FROM t").fetchall() == [(6,)]
    assert inserted.fetchall() == [(2,)]
    # Asking for the count again does not insert again.
    assert inserted.fetchall() == [(2,)]
    assert db.sql("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_of_several_statements_all_but_the_last_run_at_once(db):
    last = db.sql("CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2); SELECT sum(a) FROM t;")
    db.sql("INSERT INTO t VALUES (10)")
    assert last.fetchall() == [(13,)]


def test_execute_is_sql(db):
    assert db.execute("SELECT 5").fetchall() == [(5,)]


def test_text_without_a_statement_is_refused(db):
    for text in ["", " ; ", "-- nothing"]:
        with pytest.raises(thermocline.InputError, match="no statement"):
            db.sql(text)


def test_cursors_share_tables_and_keep_their_settings_apart(db):
    other = db.cursor()
    db.sql("CREATE TABLE t AS SELECT 1 AS a")
    assert other.sql("SELECT a FROM t").fetchall() == [(1,)]
    other.sql("SET thermocline.cache = 'off'")
    assert (setting(db, "thermocline.cache"), setting(other, "thermocline.cache")) == ("on", "off")
    assert db.session().sql("SELECT a FROM t").fetchall() == [(1,)]


def test_two_databases_share_nothing(db):
    db.sql("CREATE TABLE t AS SELECT 1 AS a")
    with thermocline.connect() as other, pytest.raises(thermocline.InputError, match="t"):
        other.sql("SELECT a FROM t").fetchall()


def test_a_closed_connection_says_so(db):
    other = db.cursor()
    result, started = other.sql("SELECT 1 AS a"), other.sql("SELECT 1 AS a")
    assert (result.columns, result.types, started.fetchone()) == (["a"], ["Int64"], (1,))
    other.close()
    other.close()
    uses = [lambda: other.sql("SELECT 1"), other.cursor, lambda: other.register("t", None)]
    uses += [use for asked in [result, started] for use in [asked.fetchall, asked.fetchone, asked.fetchmany, asked.arrow]]
    uses += [lambda: result.columns, lambda: result.types, lambda: started.columns, lambda: iter(started)]
    for use in uses:
        with pytest.raises(thermocline.InputError, match="closed"):
            use()
    assert "closed" in repr(other)
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_a_connection_closes_itself_at_the_end_of_a_with_block():
    with thermocline.connect() as db:
        assert db.sql("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(thermocline.InputError, match="closed"):
        db.sql("SELECT 1")


def test_a_started_iteration_outlives_its_connection(db):
    cursor = db.cursor()
    rows = iter(cursor.sql("SELECT value FROM range(0, 100000)"))
    assert next(rows) is not None
    cursor.close()
    assert sum(1 for _ in rows) == 99_999


def test_a_started_iteration_keeps_its_database_open(tmp_path):
    folder = tmp_path / "kept.db"
    db = thermocline.connect(folder)
    rows = iter(db.sql("SELECT a.value FROM range(0, 1000000) a, range(0, 1000000) b"))
    assert next(rows) is not None
    db.close()
    with pytest.raises(thermocline.InputError, match="in this process already"):
        thermocline.connect(folder)


def test_the_version_is_that_of_the_package():
    assert thermocline.__version__.count(".") == 2
