"""The sequences of queries and the arithmetic behind the figures. Needs neither the package nor matplotlib."""

import argparse
import importlib.util
import json
import random
from pathlib import Path

import cost_model
import figures
import pytest
import replayed
import results
import rounds
import spj_queries
import workloads
from dataset import discover


@pytest.fixture
def mails(tmp_path):
    """A file whose records have optional fields, structs, and lists of objects, texts and nothing."""
    draw = random.Random(1)
    lines = []
    for number in range(3000):
        record = {"mail_id": number, "size": draw.randint(1, 1000), "origin": {"port": draw.random(), "Lat": 5}, "lang": "en"}
        record["hops"] = [{"ttl": draw.randint(0, 9), "ip": "x"} for _ in range(draw.randint(0, 3))]
        record["tags"] = ["a"] * draw.randint(0, 2)
        if number % 10 == 0:
            record["late"] = -number
        lines.append(json.dumps(record))
    path = tmp_path / "mails.ndjson"
    path.write_text("\n".join(lines) + "\n")
    return discover("mails", path)


@pytest.fixture
def verdicts(tmp_path):
    """A CSV file of numbers, with one column of texts."""
    path = tmp_path / "verdicts.csv"
    path.write_text("mail_id,score,name\n" + "".join(f"{number},{number / 7:.3f},n\n" for number in range(3000)))
    return discover("verdicts", path)


def test_numbers_anywhere_and_texts_in_lists_are_attributes(mails, verdicts):
    assert [a.sql for a in mails.flat] == ["r.mail_id", "r.size", "r.origin.port", 'r.origin."Lat"', "r.late"]
    assert {name: [(a.sql, a.is_number) for a in attributes] for name, attributes in mails.lists.items()} == {
        "r.hops": [("e.ttl", True)],
        "r.tags": [("e", False)],
    }
    assert [a.sql for a in verdicts.flat] == ["r.mail_id", "r.score"]
    values = mails.flat[0].values
    assert values[0] == 0 and values[-1] > 2990, "the sample reaches from the file's beginning to its end"


def test_ranges_select_any_share_of_the_values(mails):
    draw = random.Random(3)
    size = mails.flat[1]
    shares = []
    for _ in range(1000):
        low, high = (int(word) for word in size.range(draw).split(" BETWEEN ")[1].split(" AND "))
        assert low <= high
        shares.append(sum(low <= value <= high for value in size.values) / len(size.values))
    assert 0.45 < sum(shares) / len(shares) < 0.55
    assert min(shares) < 0.01 and max(shares) > 0.99


def test_a_seed_gives_the_same_queries_again_and_another_seed_others(mails, verdicts):
    def drawn(seed):
        return [
            workloads.alternating(mails, seed, "c", 50),
            workloads.nested_share(mails, seed, 50, 50),
            workloads.spam(mails, verdicts, seed, 50, 50, json_percent=50, join_percent=20),
            workloads.yelp(seed, 50, 50),
            workloads.joins(seed, 50, 1),
        ]

    assert drawn(1) == drawn(1)
    assert all(one != other for one, other in zip(drawn(1), drawn(2), strict=True))


def test_nested_queries_come_where_and_as_often_as_asked(mails, verdicts):
    def nested(queries):
        return [("UNNEST" in query.text, query.nested) for query in queries]

    for percent in (0, 10, 90, 100):
        flags = nested(workloads.nested_share(mails, 5, percent, 1000))
        assert all(unnests == says for unnests, says in flags)
        assert abs(sum(says for _, says in flags) / 10 - percent) <= 4
        flags = nested(workloads.yelp(5, 1000, percent))
        assert abs(sum(says for _, says in flags) / 10 - percent) <= 5
    flags = [says for _, says in nested(workloads.alternating(mails, 5, "a", 600))]
    assert sum(flags[:300]) > 90 and not any(flags[300:])
    flags = [says for _, says in nested(workloads.alternating(mails, 5, "b", 600))]
    assert not any(flags[100:200] + flags[300:400] + flags[500:]) and all(
        map(any, (flags[:100], flags[200:300], flags[400:500]))
    )
    assert all(query.nested for query in workloads.spam(mails, verdicts, 5, 100, 100, join_percent=100))
    late = workloads.spam(mails, verdicts, 5, 400, 100, json_percent=60, nested_from=0.5)
    assert not any(query.nested for query in late[:200])
    assert abs(sum("FROM verdicts" in query.text for query in late) / 4 - 40) <= 8
    assert all(query.nested for query in late[200:] if "FROM mails" in query.text)


def test_the_distinct_queries_are_distinct(mails):
    queries = workloads.nested_share(mails, 1, 10, 500)
    assert len(set(queries)) == len(queries) == 500


def test_duckdb_gets_the_elements_as_a_column():
    query = workloads.Query("SELECT max(e.x) FROM f AS r, UNNEST(r.a.b) AS e WHERE e.x < 3", nested=True)
    assert query.duckdb == "SELECT max(e.x) FROM f AS r, UNNEST(r.a.b) AS e(e) WHERE e.x < 3"


def test_joined_tables_are_linked_by_their_keys():
    draw = random.Random(2)
    for _ in range(200):
        query = spj_queries.query(draw, 1)
        tables = query.split(" FROM ")[1].split(" WHERE ")[0].split(", ")
        equalities = [part for part in query.split(" AND ") if " = " in part]
        assert len(equalities) >= len(tables) - 1, query


def run(times_s, **fields):
    """A run with just what is needed."""
    return results.Run({"configuration": "x", "times_s": times_s, "x": None, **fields})


def test_the_optimum_has_the_faster_layout_of_every_query():
    striped, flat, chosen = run([1.0, 4.0]), run([3.0, 2.0]), run([1.5, 2.0])
    best_s = results.optimal_s(striped, flat)
    assert best_s == 3.0
    assert results.closer_percent(chosen, striped, best_s) == pytest.approx(75)
    assert results.closer_percent(striped, striped, best_s) == 0
    assert results.less_percent(chosen, flat) == pytest.approx(30)
    assert results.more_percent(flat, striped) == 0


def test_the_optimum_takes_what_the_layout_takes_that_is_expected_to_be_faster():
    # By single times it would be 3.0: the second query happened to be slow in stripes.
    striped, flat = run([1.0, 4.0], medians_s=[1.0, 1.9]), run([3.0, 2.0], medians_s=[3.0, 2.1])
    assert results.optimal_s(striped, flat) == 5.0


def test_overheads_are_those_of_each_query_in_ascending_order():
    assert results.overheads_percent(run([3.0, 1.0]), run([2.0, 1.0])) == [0, 50]


def scan(data_ns, compute_ns, rows_read):
    """A decision's numbers, as the table tells them: texts."""
    values = {"data_ns": data_ns, "compute_ns": compute_ns, "rows_read": rows_read, "columns_read": 2, "row_count": 400}
    return [{name: str(value) for name, value in values.items()}]


def test_a_replay_s_table_is_read_by_policy():
    table = "3 requests for 2 items\n\nseconds (hits)      60.0 MB      30.0 MB\nlru       5.802 (0)    5.679 (1)\n"
    assert replayed.seconds(table, 2) == {"lru": [5.802, 5.679]}


def test_predictions_follow_the_paper_s_equations():
    # §4.2's example: D = 1000 and C = 2000 striped. Elements read: columnar costs D * R / r = 1000; records only: 4000.
    striped = run([0, 0, 0], scans=[scan(1000, 2000, 400), scan(1000, 2000, 100), []])
    flat = run([0, 0, 0], scans=[scan(1000, 0, 400), scan(5000, 0, 400), scan(1, 1, 1)])
    errors = cost_model.errors_percent(striped, flat)
    assert errors["flat"] == [0, 20]
    # The second query's striped cost: (D + C of the nearest query before) * r / R = (5000 + 2000) / 4, measured 3000.
    assert errors["striped"] == [pytest.approx(100 * 1250 / 3000)]


def test_our_own_predictions_for_the_other_layout_are_held_against_what_it_took_there():
    read_striped = {**scan(1, 1, 1)[0], "flat_ns": "1200"}
    read_flat = {**scan(1000, 0, 400)[0], "striped_ns": "900"}
    striped = run([0, 0], scans=[[read_striped], []])
    flat = run([0, 0], scans=[[read_flat], [read_flat]])
    errors = cost_model.own_errors_percent(striped, flat)
    # The second query read nothing in stripes, so that there is nothing to predict or to compare with.
    assert errors == {"flat": [pytest.approx(20)], "striped": [pytest.approx(100 * 898 / 2)]}


def test_of_several_processes_the_middle_one_stands_as_it_was():
    processes = [{"times_s": times_s, "decisions": {"read": at}} for at, times_s in enumerate([[1.0, 9.0], [2.0, 2.0], [5.0, 4.0]])]
    expected = {"times_s": [5.0, 4.0], "decisions": {"read": 2}, "rounds": 3, "medians_s": [2.0, 4.0]}
    assert rounds.middle_process(processes) == expected


def test_of_several_rounds_each_query_stands_for_its_middle_one():
    def one_round(times_s, totals_ns):
        read = [[{"data_ns": str(ns - 1), "compute_ns": "1", "flat_ns": str(7 * ns)}] if ns else [] for ns in totals_ns]
        return {"times_s": times_s, "scans": read, "kept": {"item_count": 1}}

    merged = rounds.middle([one_round([3.0, 1.0], [900, 20]), one_round([1.0, 9.0], [100, 30]), one_round([2.0, 2.0], [300, 0])])
    assert merged["times_s"] == [2.0, 2.0] and merged["rounds"] == 3 and merged["kept"] == {"item_count": 1}
    # What was predicted comes from the round that is in the middle, as texts or not.
    assert merged["scans"] == [
        [{"data_ns": "299", "compute_ns": "1", "flat_ns": "2100"}],
        [{"data_ns": "19", "compute_ns": "1", "flat_ns": "140"}],
    ]
    alone = rounds.middle([{"times_s": [1.0]}, {"times_s": [3.0]}])
    assert alone["times_s"] == [2.0] and "scans" not in alone, "databases of their own tell of no scans"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """What `run.py` keeps of a figure, with what asks in place of processes; it has the order in which they began."""
    spec = importlib.util.spec_from_file_location("recache_run", Path(__file__).with_name("run.py"))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    (tmp_path / "data.json").write_text('{"tpch_scale": 0.01}')
    for name in [*(f"{table}.csv" for table in figures.TPCH_TABLES), "lineitem.ndjson"]:
        (tmp_path / name).write_text("x" * 10)
    arguments = argparse.Namespace(
        data=tmp_path, seed=1, threads=1, memory=None, queries_share=0.1, peer=None, lab=tmp_path / "lab"
    )
    made = run.Runs(arguments, tmp_path / "figure.trace")
    made.began = []

    def ask(part, configuration, tables, queries, *, x=None, warm=None):
        made.began.append((part, x, configuration.name))
        return {"times_s": [float(len(made.began))] * len(queries), "kept": {"most_bytes": 16 << 20}}

    monkeypatch.setattr(made, "ask", ask)
    monkeypatch.setattr(run, "replay", lambda lab, trace, limits_bytes: {"lru": [1.0] * len(limits_bytes)})
    return made


def test_processes_take_turns_and_every_round_begins_with_another(runs):
    configurations = [figures.Configuration(name) for name in "abc"]
    runs.run_in_turn("p", configurations, {}, [workloads.Query("SELECT 1", False)], rounds=3, whole=True)
    assert "".join(name for _, _, name in runs.began) == "abc" "bca" "cab"
    # One began first, sixth and eighth, and so on.
    assert {run["configuration"]: (run["times_s"], run["rounds"]) for run in runs.runs} == {
        "a": ([6.0], 3),
        "b": ([4.0], 3),
        "c": ([5.0], 3),
    }


def test_the_peer_is_asked_once_before_the_others(runs):
    runs.arguments.peer = "python"
    for _ in range(2):
        runs.run_in_turn("p", [figures.OFF], {}, [workloads.Query("SELECT 1", False)], rounds=2)
    assert [name for _, _, name in runs.began] == ["duckdb", *["off"] * 4]


def test_configurations_that_are_asked_alone_are_measured_in_one_process(runs, tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("a\n" + "".join(f"{number}\n" for number in range(100)))
    queries = [workloads.Query(f"SELECT sum(a) FROM numbers WHERE a < {limit}", False) for limit in (50, 60)]
    runs.run_alone("q", [figures.OFF, *figures.ADMISSIONS], {"numbers": str(path)}, queries, rounds=3)
    assert [run["configuration"] for run in runs.runs] == ["off", "lazy", "eager", "auto"]
    assert {(len(run["times_s"]), run["rounds"]) for run in runs.runs} == {(2, 3)}
    assert runs.answers == {("q", None): [[[1225]], [[1770]]]}
    off, *_, auto = runs.runs
    assert "admit" not in off["decisions"] and auto["decisions"]["admit"] >= 2, "a database for each query"


def test_all_that_figures_13_and_14_show_is_the_middle_one_of_three_processes(runs):
    figures.figure_13(runs)
    figures.figure_14(runs)
    assert {run["rounds"] for run in runs.runs} == {3}
    assert len(runs.runs) == 4 + 1 + len(figures.CACHE_SHARES) * len(figures.POLICIES)
    assert [name for _, _, name in runs.began].count("traced") == 1, "a trace is of one process"
    assert runs.replayed["limits_bytes"] == [round(share * (16 << 20)) for share in figures.CACHE_SHARES]
    assert runs.size_bytes["lineitem.ndjson"] == 10
