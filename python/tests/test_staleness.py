"""Files that change between queries: always the new answer, named directly and registered."""

import os

import pytest

import thermocline


def lines(format, values):
    return "".join(f'{{"a": {value}}}\n' if format == "ndjson" else f"{value}\n" for value in values)


def content(format, values):
    return ("" if format == "ndjson" else "a\n") + lines(format, values)


def overwrite(path, format):
    path.write_text(content(format, [1, 2, 3]))
    return 6


def truncate(path, format):
    size = len(content(format, range(100, 150)))
    os.truncate(path, size)
    return sum(range(100, 150))


def touch(path, format):
    os.utime(path)
    return sum(range(100, 200))


def append(path, format):
    with open(path, "a") as file:
        file.write(lines(format, [900]))
    return sum(range(100, 200)) + 900


def rewrite_longer_in_place(path, format):
    with open(path, "r+") as file:
        file.write(content(format, range(200, 400)))
    return sum(range(200, 400))


def rename_over(path, format):
    other = path.with_name("other")
    other.write_text(content(format, range(300, 400)))
    os.replace(other, path)
    return sum(range(300, 400))


def rewrite_with_old_size_and_time(path, format):
    before = path.stat()
    with open(path, "r+") as file:
        file.write(content(format, range(300, 400)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    return sum(range(300, 400))


def rename_over_with_old_size_and_time(path, format):
    before = path.stat()
    rename_over(path, format)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return sum(range(300, 400))


CHANGES = [
    overwrite, truncate, touch, append, rewrite_longer_in_place, rename_over, rewrite_with_old_size_and_time,
    rename_over_with_old_size_and_time,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("is_registered", [False, True], ids=["named", "registered"])
@pytest.mark.parametrize("format", ["ndjson", "csv"])
def test_the_new_answer_after(db, tmp_path, format, is_registered, change):
    path = tmp_path / f"t.{format}"
    path.write_text(content(format, range(100, 200)))
    table = f"'{path}'"
    if is_registered:
        db.sql(f"CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{path}'")
        table = "t"
    other = db.cursor()
    query = f"SELECT sum(a) FROM {table} WHERE a >= 0"
    narrower = f"SELECT sum(a) FROM {table} WHERE a >= 0 AND a < 100000"
    for _ in range(2):
        assert db.sql(query).fetchall() == [(sum(range(100, 200)),)]
    expected = change(path, format)
    for session in [db, other]:
        for sql in [query, narrower, query]:
            assert session.sql(sql).fetchall() == [(expected,)]


def test_an_unterminated_last_line_is_completed(db, tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text('{"a": 1}\n{"a": 2}')
    assert db.sql(f"SELECT sum(a) FROM '{path}' WHERE a > 0").fetchall() == [(3,)]
    with open(path, "a") as file:
        file.write('\n{"a": 4}\n')
    assert db.sql(f"SELECT sum(a) FROM '{path}' WHERE a > 0").fetchall() == [(7,)]


def test_a_file_that_comes_to_a_folder_or_leaves_it(db, tmp_path):
    query = f"SELECT sum(a), count(*) FROM '{tmp_path}/*.ndjson' WHERE a > 0"
    (tmp_path / "1.ndjson").write_text('{"a": 1}\n')
    assert db.sql(query).fetchall() == [(1, 1)]
    (tmp_path / "2.ndjson").write_text('{"a": 10}\n')
    assert db.sql(query).fetchall() == [(11, 2)]
    (tmp_path / "1.ndjson").unlink()
    assert db.sql(query).fetchall() == [(10, 1)]


def test_a_file_that_is_gone_is_an_error(db, tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text('{"a": 1}\n')
    query = db.sql(f"SELECT sum(a) FROM '{path}' WHERE a > 0")
    assert query.fetchall() == [(1,)]
    path.unlink()
    with pytest.raises(thermocline.InputError, match="t.ndjson"):
        query.fetchall()


def test_a_registered_frame_is_the_one_that_was_registered(db):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, 2]})
    db.register("t", frame)
    frame = frame.with_columns(a=polars.col("a") * 10)
    assert db.sql("SELECT sum(a) FROM t").fetchall() == [(3,)]
