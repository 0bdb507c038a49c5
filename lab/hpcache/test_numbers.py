"""The arithmetic behind figures, tables and texts."""

import model
import predictions
import pytest
import series
from comparison import Comparison, Place
from experiments import AMPLE
from measured import Measured
from media import DRIVES
from model import Column


def policies_run(recorded, **seconds):
    """One repetition of a place: seconds by policy."""

    def runs(repetition=0, share=0.1, medium="1 x P"):
        return [
            recorded.run([recorded.asked(took)], share=share, medium=medium, policy=policy, repetition=repetition)
            for policy, took in seconds.items()
        ]

    return runs


def test_ratios_are_taken_within_a_repetition(recorded):
    # The machine was three times as slow in the second repetition, for both; by medians of each the ratio would be
    # 0.96.
    records = [
        *policies_run(recorded, proportional=1.2, mru=1.0)(0),
        *policies_run(recorded, proportional=3.0, mru=3.75)(1),
        *policies_run(recorded, proportional=1.0, mru=1.25)(2),
    ]
    comparison = Comparison(recorded.measured(*records), "ssb")
    place = Place("1 x P", 0.1)
    assert comparison.ratio(place, "mru") == pytest.approx(0.8)
    assert (comparison.seconds(place, "proportional"), comparison.seconds(place, "lru")) == (1.2, None)


def test_the_best_other_policy_is_the_fastest_by_its_median(recorded):
    records = policies_run(recorded, proportional=1.0, mru=2.0, lru=0.8, lfu=3.0, os=0.1)()
    [best] = Comparison(recorded.measured(*records), "ssb").beside_best()
    assert (best.policy, best.ratio) == ("lru", 1.25)
    alone = Comparison(recorded.measured(*policies_run(recorded, proportional=1.0, os=0.1)()), "ssb")
    assert alone.beside_best() == [], "what the system caches has no budget"


def test_the_spread_is_that_of_repetitions_of_one_configuration(recorded):
    runs = [policies_run(recorded, proportional=ours, mru=10.0)(repetition) for repetition, ours in enumerate([2, 2.2, 1.9])]
    assert Comparison(recorded.measured(*sum(runs, [])), "ssb").spread() == pytest.approx(0.15 / 2)
    assert Comparison(recorded.measured(*runs[0]), "ssb").spread() is None


def test_a_quarter_of_the_memory_is_held_against_the_same_medium(recorded):
    records = [
        *policies_run(recorded, proportional=1.0, mru=2.0)(share=0.1),
        *policies_run(recorded, proportional=0.7, mru=0.8)(share=0.4),
        *policies_run(recorded, proportional=9.0, mru=9.0)(share=0.1, medium="2 x P"),
    ]
    [found] = Comparison(recorded.measured(*records), "ssb").with_part_of_memory("mru", 4)
    assert (found.place, found.ratio) == (Place("1 x P", 0.1), 1.25)


def test_places_come_in_the_order_of_media_and_budgets(recorded):
    records = []
    for medium in ("0.5 x P", "4 x P", "the disk"):
        for share in (1.0, 0.1):
            records += policies_run(recorded, proportional=1.0, os=1.0)(share=share, medium=medium)
    comparison = Comparison(recorded.measured(*records), "ssb")
    assert [(place.medium, place.share) for place in comparison.places] == [
        (medium, share) for medium in ("0.5 x P", "4 x P", "the disk") for share in (0.1, 1.0)
    ]


def test_one_round_counts_its_questions_alone(recorded):
    records = [recorded.run([recorded.asked(1.0), recorded.asked(10.0)])]
    measured = recorded.measured(*records)
    place = Place("1 x P", 0.1)
    assert Comparison(measured, "ssb", 1).seconds(place, "proportional") == 1.0
    assert Comparison(measured, "ssb").seconds(place, "proportional") == 11.0


def test_the_fastest_repetition_of_each_question_counts_where_it_is_asked_for(recorded):
    def run(repetition, *seconds):
        return recorded.run([recorded.asked(one) for one in seconds], repetition=repetition)

    measured = recorded.measured(run(0, 1, 9, 5), run(1, 4, 2, 6), run(2, 3, 3, 4))
    place = Place("1 x P", 0.1)
    assert Comparison(measured, "ssb").seconds(place, "proportional") == 12
    assert Comparison(measured, "ssb", is_of_fastest=True).seconds(place, "proportional") == 1 + 2 + 4
    assert Comparison(measured, "ssb", 2, is_of_fastest=True).seconds(place, "proportional") == 1 + 2


def test_columns_share_the_device_or_not():
    four = [Column(250, 0.2)] * 4
    assert model.sum_over_device(four, 10, 20) == 80
    assert model.max_over_columns(four, 10, 20) == 20
    # As printed, a column all on storage keeps the pipeline waiting, however much there is of the others.
    uneven = [Column(250, 0.8), *[Column(250, 0)] * 3]
    assert (model.sum_over_device(uneven, 10, 20), model.max_over_columns(uneven, 10, 20)) == (80, 25)
    assert model.slowest_column(uneven, 10, 20) == 100 and model.slowest_column([Column(1000, 0.6)], 10, 20) == 50
    for reading in (model.sum_over_device, model.max_over_columns, model.slowest_column):
        assert reading([], 10, 20) == 0
    assert model.sum_over_device([Column(1000, 1)], 10, 20) == 50
    assert model.seconds(40e9, 1, 10, float("inf")) == 2, "memory gives 20 GB/s"
    assert model.seconds(40e9, 1, 10, 40e9) == 1, "and as much as a pipeline is known to take"
    assert (model.share_needed(5, 20), model.share_needed(30, 20)) == (0.75, 0)


def test_predictions_are_fed_with_the_pace_of_the_round_before(recorded):
    columns = ((60_000_000, 30_000_000), (40_000_000, 0))
    first = recorded.asked(1, predicted_s=None, throughput=0.5e9, columns=columns)
    again = recorded.asked(1, predicted_s=0.19, took_s=0.2, throughput=2e9, columns=columns)
    other = recorded.asked(1, query="1.2", columns=columns)
    records = [recorded.run([first, other, again]), recorded.run([first, again], policy="os")]
    [found] = predictions.predictions(recorded.measured(recorded.pace(), *records), "ssb")
    # S is 1 GB/s. 70 MB are on storage, 40 of them of one column; work takes 0.2 s, or 0.12 for the larger column.
    assert (found.took_s, found.engine_s) == (0.2, 0.19)
    assert found.sum_s == pytest.approx(0.2) and found.max_s == pytest.approx(0.12)
    assert predictions.within([found], "sum_s") == 1 and predictions.within([found], "max_s") == 0
    assert predictions.median_error([found], "max_s") == pytest.approx(0.4)
    assert predictions.within([], "sum_s") is None
    assert found.repeated_s is None and predictions.within([found], "repeated_s") is None


def test_a_prediction_stands_beside_what_other_repetitions_took(recorded):
    def run(took_s, repetition, share=0.1):
        questions = [recorded.asked(1, predicted_s=None), recorded.asked(1, took_s=took_s)]
        return recorded.run(questions, share=share, repetition=repetition)

    records = [run(0.1, 0), run(0.2, 1), run(0.4, 2), run(9.0, 0, share=0.2)]
    found = list(predictions.predictions(recorded.measured(recorded.pace(), *records), "ssb"))
    assert [one.repeated_s for one in found] == pytest.approx([0.3, None, 0.25, 0.15])
    assert predictions.median_error(found, "repeated_s") == pytest.approx(0.625)


def test_a_pipeline_that_skips_part_of_its_columns_reads_less_of_all(recorded):
    pipeline = recorded.pipeline(columns=((100, 50), (300, 0)))
    pipeline["size_bytes"] = 200
    assert predictions.columns(pipeline) == [Column(50, 0.5), Column(150, 0)]


def test_the_disk_gives_what_its_fastest_pipelines_read(recorded):
    fast = recorded.asked(1, read_bytes=90_000_000, took_s=0.1)
    slow = recorded.asked(1, read_bytes=90_000_000, took_s=1.0)
    cached = recorded.asked(1, read_bytes=40_000_000, took_s=0.001)
    measured = recorded.measured(recorded.run([fast, slow, cached], medium="the disk"))
    assert predictions.disk_bytes_per_s(measured.runs) == pytest.approx(0.9e9)
    assert predictions.disk_bytes_per_s([]) is None


def test_the_share_in_memory_is_what_did_not_come_from_storage(recorded):
    def run(share, seconds, read_bytes):
        questions = [recorded.asked(seconds, read_bytes=read_bytes), recorded.asked(9 * seconds, read_bytes=read_bytes)]
        questions.append(recorded.asked(seconds, read_bytes=read_bytes))
        return recorded.run(questions, workload="2.1", medium="1 drive", share=share, policy="mru")

    records = [run(0, 1.0, 100_000_000), run(0.5, 0.52, 40_000_000), run(AMPLE, 0.5, 0)]
    measured = recorded.measured(recorded.pace("2.1", 0.4e9), *records)
    points = series.by_share(measured, "2.1", "1 drive")
    assert [(round(point.share_held, 6), point.seconds) for point in points] == [(0, 1.0), (0.6, 0.52), (1, 0.5)]
    assert series.share_enough(points) == pytest.approx(0.6)
    assert series.expected(measured, "2.1", DRIVES[0], [0, 1]) == pytest.approx([0.25 / 0.41, 0.25])
    assert series.placements(measured, "1 drive") == {"2.1": {0: 1.0, 0.5: 0.52, AMPLE: 0.5}}


def test_predictions_of_the_repetition_in_the_middle_stand_for_all(recorded):
    def run(share, took_s, repetition, predicted):
        question = recorded.asked(1, took_s=took_s)
        question["samples"] = [{"took_s": 0.01, "predicted_s": value, "in_memory_s": 0.05} for value in predicted]
        return recorded.run([question], workload="1.1", medium="4 drives", share=share, repetition=repetition)

    records = [run(0.25, 0.3, 0, [7]), run(0.25, 0.1, 1, [8]), run(0.25, 0.2, 2, [None, 0.19, 0.21])]
    assert series.moments(recorded.measured(*records), "1.1", "4 drives") is None, "nothing is known of memory"
    found = series.moments(recorded.measured(*records, run(AMPLE, 0.05, 0, [])), "1.1", "4 drives")
    assert (found.predicted_s, found.took_s, found.took_in_memory_s) == ([0.19, 0.21], 0.2, 0.05)


def test_a_file_can_be_read_before_it_is_finished(tmp_path, recorded):
    import json

    path = tmp_path / "9.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [recorded.header, recorded.pace()]) + '{"kind": "r')
    measured = Measured.read(path)
    assert measured.pace("ssb") == 1e9 and measured.runs == [] and measured.repetition_count() == 0
