"""Which configurations are measured, in which order, and that an interrupted measurement goes on where it stopped."""

import argparse
import json
from collections import Counter

import experiments
import pytest
import results_file
import run
import ssb_workloads
from experiments import EXPERIMENTS, configurations, quick, restricted
from media import DISK, DRIVES, FASTER_DISKS, MULTIPLES


def test_policies_are_compared_at_all_bandwidths_and_budgets_and_on_the_disk():
    for figure in ("8", "9"):
        found = list(configurations(EXPERIMENTS[figure], 3, has_disk=True))
        assert len(found) == len({one.key for one in found}) == 7 * 6 * 6 * 3
        assert {one.medium.factor for one in found} == {0.5, 1, 2, 4, None}
        assert {one.medium.fixed_bytes_per_s for one in found} == {3.6e9, 7.2e9, None}
        assert {one.share for one in found} == {0.1, 0.2, 0.4, 0.6, 0.8, 1.0}
    without = list(configurations(EXPERIMENTS["8"], 3, has_disk=False))
    assert len(without) == 6 * 6 * 6 * 3 and not any(one.medium == DISK for one in without)


def test_policies_of_a_configuration_are_measured_right_after_each_other_and_take_turns_in_who_is_first():
    found = list(configurations(EXPERIMENTS["9"], 6, has_disk=True))
    blocks = [found[at : at + 6] for at in range(0, len(found), 6)]
    for block in blocks:
        assert {one.policy for one in block} == set(experiments.POLICIES)
        assert len({(one.medium, one.share, one.repetition) for one in block}) == 1
    firsts = Counter((block[0].medium, block[0].share, block[0].policy) for block in blocks)
    assert set(firsts.values()) == {1} and len(firsts) == 7 * 6 * 6, "over six repetitions each one begins once"
    assert [one.repetition for one in found] == sorted(one.repetition for one in found), "all once, then all again"


def test_simulated_drives_stand_to_q2_1_as_in_the_paper():
    one, two, four = (drive.factor for drive in DRIVES)
    pace, mib = 14.7e9, 1 << 20
    assert one == pytest.approx(5780 * mib / pace, rel=0.01)
    assert four == pytest.approx((5780 + 3 * 4970) * mib / pace, rel=0.01) and two == four / 2 and two < 1 < four
    assert DRIVES[2].bytes_per_s(2e9) == pytest.approx(2.96e9) and DISK.bytes_per_s(2e9) is None
    assert [medium.label for medium in (DRIVES[0], MULTIPLES[0], FASTER_DISKS[0], DISK)] == [
        "1 drive (simulated)",
        "0.5 x P (simulated)",
        "3.6 GB/s (simulated)",
        "the disk",
    ]
    assert FASTER_DISKS[0].bytes_per_s(2e9) == 3.6e9
    assert {EXPERIMENTS[figure].pace_workload("1.3") for figure in "3567"} == {"2.1"}
    assert EXPERIMENTS["9"].pace_workload("ssb") == "ssb"


def test_a_quick_trial_has_the_ends_and_a_middle_on_both_kinds_of_media():
    less = quick(EXPERIMENTS["8"])
    assert (len(less.media), less.shares, less.policies) == (2, (0.1, 0.6, 1.0), ("proportional", "lru", "mru"))
    assert quick(EXPERIMENTS["5"]).shares == (0, 0.5, experiments.AMPLE)


def test_some_media_and_policies_can_be_measured_alone():
    some = restricted(EXPERIMENTS["8"], ["the disk", "7.2 GB/s"], ["mru", "proportional"])
    assert [medium.name for medium in some.media] == ["7.2 GB/s", "the disk"]
    assert some.policies == ("proportional", "mru") and some.shares == EXPERIMENTS["8"].shares
    assert restricted(EXPERIMENTS["8"], [], []) == EXPERIMENTS["8"]


def test_workloads_have_rounds_of_different_constants_and_two_queries_in_turn():
    ssb = ssb_workloads.questions("ssb")
    assert [name for name, _ in ssb] == ssb_workloads.NAMES * 3 and len({text for _, text in ssb}) == 39
    assert [name for name, _ in ssb_workloads.questions("two")] == ["first", "second"] * 3
    [(name, text)] = ssb_workloads.questions("2.1")
    assert name == "2.1" and "MFGR#12" in text


def test_budgets_and_bandwidths_become_settings():
    [first, *_] = configurations(EXPERIMENTS["8"], 1, has_disk=False)
    assert run.settings(first, 400_000_000, 1.5e9) == {
        "page_policy": "proportional",
        "cache_memory": "40000KB",
        "simulated_bandwidth": "1500000KB",
    }
    assert "simulated_bandwidth" not in run.settings(first, 1, None)


class Sessions:
    """Takes the place of processes: counts them and can be killed."""

    def __init__(self, lives):
        self.lives, self.asked_s = lives, []

    def ask(self, folder, asked, warm=None, settings=None, is_sampled=False, tables=False, cache_bytes=None):
        """Every question takes a second and reads nothing."""
        if tables:
            return {"tables": [["lineorder", 600_000, 1]]}
        if self.lives == 0:
            raise KeyboardInterrupt
        self.lives -= 1
        self.asked_s.append((str(folder), settings))
        whole = {"throughput_bytes_per_s": 1e9, "size_bytes": 1, "read_bytes": 0}
        answers = [{"query": query, "seconds": 1.0, "answer": query, "pipeline": whole} for query, _ in asked]
        return {"asked": answers, "used_bytes": 1000, "tables": []}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A lab that measures with `Sessions`."""
    monkeypatch.setattr(run, "commit", lambda: "abc1234")
    named = {"data": tmp_path, "scale": 0.1, "db": tmp_path / "db", "disk": None, "out": tmp_path, "repetitions": 2}
    chosen = {"quick": False, "media": [], "policies": []}
    made = run.Lab(argparse.Namespace(**named, memory="8GB", lab=tmp_path, **chosen))

    def with_lives(lives):
        sessions = Sessions(lives)
        monkeypatch.setattr(made, "ask", sessions.ask)
        return made, sessions

    return with_lives


def test_an_interrupted_figure_goes_on_with_what_is_missing(lab, tmp_path):
    wanted = len(list(configurations(EXPERIMENTS["8"], 2, has_disk=False)))
    made, _ = lab(5)
    with pytest.raises(KeyboardInterrupt):
        run.measure_figure("8", made, made.make_databases())
    path = tmp_path / "8.jsonl"
    with path.open("a") as file:
        file.write('{"kind": "run", "workl')
    made, sessions = lab(-1)
    run.measure_figure("8", made, made.make_databases())
    assert len(sessions.asked_s) == wanted - 4, "P and four runs were there already"
    header, records = results_file.read(path)
    assert header["figure"] == "8" and header["database"] == {"tables": [["lineorder", 600_000, 1]]}
    assert [record["kind"] for record in records] == ["pace"] + ["run"] * wanted
    assert len({results_file.run_key(record) for record in records[1:]}) == wanted
    made, sessions = lab(0)
    run.measure_figure("8", made, made.make_databases())
    assert sessions.asked_s == []


def test_every_run_begins_with_nothing_in_the_system_s_cache(lab, tmp_path, monkeypatch):
    inner = tmp_path / "db" / "segments"
    inner.mkdir(parents=True)
    (inner / "pages").write_text("x")
    forgotten = []
    monkeypatch.setattr(run.os, "posix_fadvise", lambda *asked: forgotten.append(asked[1:]))
    made, sessions = lab(3)
    with pytest.raises(KeyboardInterrupt):
        run.measure_figure("8", made, made.make_databases())
    assert len(sessions.asked_s) == 3, "P and two runs"
    assert forgotten == [(0, 0, run.os.POSIX_FADV_DONTNEED)] * 3, "also for the run that was killed"


def test_a_file_is_not_continued_with_something_else(tmp_path, recorded):
    path = tmp_path / "9.jsonl"
    results_file.ResultsFile(path, recorded.header).append(recorded.pace())
    later = {**recorded.header, "began": "later", "command": "with more repetitions"}
    assert results_file.ResultsFile(path, later).paces["ssb"]["bytes_per_s"] == 1e9
    header, _ = results_file.read(path)
    assert (header["began"], header["command"]) == (recorded.header["began"], "with more repetitions")
    with pytest.raises(SystemExit, match=r"9.jsonl, line 1: commit is abc1234 there and def5678 now"):
        results_file.ResultsFile(path, {**recorded.header, "commit": "def5678"})
    assert len(path.read_text().splitlines()) == 2


def test_a_database_of_another_scale_is_refused(lab):
    made, _ = lab(0)
    made.arguments.scale = 1
    with pytest.raises(SystemExit, match="has 600000 lines, expected about 6000000 at --scale 1"):
        made.make_databases()


def test_another_answer_ends_the_measurement():
    [configuration, *_] = configurations(EXPERIMENTS["3"], 1, has_disk=False)
    answers = [{"query": "1.3", "answer": "x"}, {"query": "1.3", "answer": "y"}]
    run.check_answers(configuration, answers[:1] * 5, ["x"])
    with pytest.raises(SystemExit, match=r"question 2 \(1.3\) is answered otherwise"):
        run.check_answers(configuration, answers, ["x"])


def test_headers_survive_being_written(recorded):
    assert json.loads(json.dumps(recorded.header)) == recorded.header
