"""The page's texts, from small results whose numbers can be checked by hand."""

import re
from pathlib import Path

import page
import pytest
from experiment.page import with_part
from experiments import AMPLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "hpcache.md"


@pytest.fixture
def ssb(recorded):
    """Two budgets on one medium, two repetitions, three policies; 13 questions a round, two rounds."""

    def run(share, policy, repetition, seconds):
        questions = [
            recorded.asked(
                seconds,
                query=f"q{at % 13}",
                took_s=0.1,
                predicted_s=0.105 if policy == "mru" else 0.13,
                columns=((60_000_000, 30_000_000), (40_000_000, 0)),
                throughput=10e9,
            )
            for at in range(26)
        ]
        return recorded.run(questions, share=share, policy=policy, repetition=repetition)

    seconds = {0.1: {"proportional": 0.9, "mru": 1.2, "lru": 1.0}, 0.4: {"proportional": 0.6, "mru": 0.9, "lru": 0.5}}
    runs = [
        run(share, policy, repetition, took)
        for repetition in range(2)
        for share, by_policy in seconds.items()
        for policy, took in by_policy.items()
    ]
    return recorded.measured(recorded.pace(), *runs)


def test_what_was_not_measured_says_so_beside_the_paper_s_claim():
    parts = page.parts({})
    assert set(parts) == {
        *(f"figure {number}" for number in range(3, 10)),
        "policies two",
        "policies ssb",
        "combinations",
    }
    assert all("Not measured yet." in text for text in parts.values())
    assert "15.6 %" in parts["figure 8"] and "§5.1" in parts["figure 8"]


def test_the_comparison_is_told_as_it_is(ssb):
    text = page.figure_9({"9": ssb})
    assert text == (
        "Beside the fastest other policy, the proportional one is ahead or at most 2 % behind at 1 of 2 budgets; at worst it "
        "takes 20 % more (LRU; 1 x P (simulated), 40%). Beside MRU it takes 33 % less at best (1 x P (simulated), 40%) and "
        "25 % less at worst (1 x P (simulated), 10%). With a quarter of MRU’s memory it is as fast at 1 of 1 places; at best it "
        "takes the same time (1 x P (simulated), 10% beside 40%). Repetitions "
        "of one configuration differ by 0.0 % (median). By every question’s fastest repetition: ahead or at most 2 % behind at "
        "1 of 2 budgets; at worst it takes 20 % more (LRU; 1 x P (simulated), 40%)."
    )


def test_tables_have_a_row_for_each_budget(ssb):
    text = page.policies("9", "ssb", {"9": ssb})
    assert (
        "1 x P (simulated):\n\n| memory | proportional | LRU | MRU | beside the best other | beside MRU | predicted |" in text
    )
    assert "| 10% | 23.400 | 26.000 | 31.200 | -10 % (LRU) | -25 % | 0% |" in text
    assert "| 40% | 15.600 | 13.000 | 23.400 | +20 % (LRU) | -33 % | 0% |" in text


def test_combinations_are_counted_over_all_policies(ssb):
    text = page.combinations({"9": ssb})
    # Two columns on storage of 1 GB/s, one of 60 MB held by half and one of 40 MB: 0.07 s, 0.04 s and 0.1 s.
    assert text.startswith(
        "“Slowest” predicts best, by the median error: 30 % for “sum”, 60 % for “maximum”, 0.0 % for “slowest”.\n\n| "
    )
    assert "| 1 x P (simulated), 10% | 78 | 30 % (0%) | 60 % (0%) | 0.0 % (100%) | 30 % (33%) | 0.0 % (100%) |" in text
    assert text.endswith("| all | 156 | 30 % (0%) | 60 % (0%) | 0.0 % (100%) | 30 % (33%) | 0.0 % (100%) |")


def test_a_figure_names_machine_pace_commit_and_command(ssb):
    text = page.figure("9", {"9": ssb})
    assert text.startswith("![Figure 9](hpcache-figure-9.svg)\n\n*The paper:* ")
    assert text.endswith(
        "A processor, 2 cores, 8 GiB; ssb: P 1.00 GB/s, 400 MB read; medians of 2 or more processes; 2026-01-02, "
        "commit abc1234; `lab/hpcache/run.py 9 --scale 0.1`."
    )


def test_lines_of_figures_4_and_5_tell_from_where_on_memory_is_of_no_use(recorded):
    def run(medium, share, seconds, read_bytes):
        questions = [recorded.asked(seconds, read_bytes=read_bytes)]
        return recorded.run(questions, workload="2.1", medium=medium, share=share, policy="mru")

    measured = recorded.measured(
        recorded.pace("2.1"),
        run("1 drive", 0, 0.27, 100_000_000),
        run("1 drive", 0.5, 0.104, 40_000_000),
        run("1 drive", AMPLE, 0.1, 0),
        run("the disk", 0, 0.2, 100_000_000),
        run("the disk", AMPLE, 0.1, 0),
    )
    assert page.figure_4({"5": measured}).startswith(
        "1 drive (simulated): 270 ms with 0% in memory, 100 ms with 100%, hardly less from 60% on (equation 1: 59%)."
    )
    assert "the disk: 200 ms with 0% in memory, 100 ms with 100%, hardly less from 100% on." in page.figure_5({"5": measured})
    assert page.figure_3({"3": measured}).endswith("1 drive (simulated): Q2.1 0.39 and 0.37."), "the disk lacks a half"


def test_predictions_are_told_beside_what_was_taken(recorded):
    def run(share, took_s, predicted):
        question = recorded.asked(1, took_s=took_s)
        question["samples"] = [{"took_s": 0.01, "predicted_s": value, "in_memory_s": 0.05} for value in predicted]
        return recorded.run([question], workload="1.1", medium="4 drives", share=share)

    measured = recorded.measured(run(0.25, 0.2, [0.17, 0.18, 0.19]), run(AMPLE, 0.06, []))
    assert page.figure_6({"6": measured}).endswith(
        "4 drives (simulated): 180 ms predicted (median of 3 looks), 200 ms taken; for memory 50 ms predicted, 60 ms taken."
    )
    unseen = recorded.measured(run(0.25, 0.2, []), run(AMPLE, 0.06, []))
    assert page.figure_6({"6": unseen}).endswith("4 drives (simulated): the pipeline was never seen running.")


def test_the_page_has_a_place_for_every_part():
    text = PAGE.read_text()
    for name, part in page.parts({}).items():
        text = with_part(text, name, part)
        assert part in text
    assert set(re.findall(r"<!-- (?!end of )(.+?) -->", text)) == set(page.parts({}))
    with pytest.raises(SystemExit, match="the page has no markers <!-- figure 99 -->"):
        with_part(text, "figure 99", "")
