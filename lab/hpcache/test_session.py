"""What a session tells of its questions: from texts alone, and, where the package is there, from a small database."""

import pytest
import session


def test_new_pipelines_are_told_apart_from_those_that_were_there():
    rows = [{"pipeline": str(number), "took_s": number} for number in range(6)]
    assert session.new_pipelines(rows[:3], rows[:5]) == rows[3:5]
    assert session.new_pipelines(rows[:4], rows[2:6]) == rows[4:], "the table forgets its oldest"
    assert session.new_pipelines([], rows) == rows
    assert session.new_pipelines(rows[:2], rows[3:]) == rows[3:]
    assert session.new_pipelines(rows, rows) == []


def test_columns_are_named_with_their_table():
    assert session.columns_of("public.t (one, other)") == ["public.t.one", "public.t.other"]
    with pytest.raises(ValueError, match="a pipeline is called 'public.t', expected"):
        session.columns_of("public.t")


def test_digests_tell_rows_and_their_order_apart():
    assert session.digest([(1, "a"), (2, "b")]) == session.digest([(1, "a"), (2, "b")])
    assert session.digest([(1, "a"), (2, "b")]) != session.digest([(2, "b"), (1, "a")])


def test_a_plan_is_measured_with_what_the_engine_tells_of_it(tmp_path):
    thermocline = pytest.importorskip("thermocline")
    folder = tmp_path / "small.db"
    with thermocline.connect(folder) as made:
        made.sql(
            "CREATE TABLE lines AS SELECT value AS k, value * 7919 % 100003 AS a, value * 104729 % 99991 AS b "
            "FROM generate_series(1, 600000)"
        )
    text = "SELECT sum(a), sum(b) FROM lines WHERE a > 5"
    plan = {
        "db": str(folder),
        "bring_in_bytes": 1_000_000,
        "memory": "1GB",
        "tables": {},
        "set": {"thermocline.page_policy": "mru", "thermocline.simulated_bandwidth": "4MB"},
        "warm": [],
        "questions": [["one", text], ["again", text]],
        "is_sampled": True,
    }
    told = session.run(plan)
    first, again = told["asked"]
    assert (first["query"], again["query"]) == ("one", "again") and first["answer"] == again["answer"]
    assert first["pipeline"]["pipeline"] == "public.lines (a, b)"
    size_bytes = first["pipeline"]["size_bytes"]
    # What pads pages is counted in their size alone.
    assert size_bytes == told["used_bytes"] and 0.98 < first["pipeline"]["read_bytes"] / size_bytes <= 1
    assert again["pipeline"]["read_bytes"] == 0
    assert {name: held for name, (_, held) in first["pipeline"]["columns"].items()} == {
        "public.lines.a": 0,
        "public.lines.b": 0,
    }
    assert sum(held for _, held in again["pipeline"]["columns"].values()) >= size_bytes
    assert first["samples"] and all(sample["is_running"] for sample in first["samples"])
    assert {"at_s", "took_s", "predicted_s", "in_memory_s"} <= set(first["samples"][0])
    [(table, row_count, _)] = told["tables"]
    assert (table, row_count) == ("lines", 600_000)
