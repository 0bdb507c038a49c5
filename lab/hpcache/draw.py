#!/usr/bin/env python3
"""Draws the figures that were measured, and writes what came out into the page.

    pip install -r lab/requirements.txt
    lab/hpcache/draw.py results --out docs/results

Reads every `FIGURE.jsonl` in the folder that `run.py` wrote, finished or not. What was not measured says so on the
page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import matplotlib.pyplot as plt
import page
from charts import CHARTS, chart
from experiment.drawing import STYLE, save
from experiment.page import with_part
from experiments import EXPERIMENTS
from measured import Measured


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("--out", type=Path, required=True, help="folder with hpcache.md, for the drawings")
    arguments = parser.parse_args()
    paths = {figure: arguments.results / f"{figure}.jsonl" for figure in EXPERIMENTS}
    results = {figure: Measured.read(path) for figure, path in paths.items() if path.exists()}
    results = {figure: measured for figure, measured in results.items() if measured.runs}
    plt.rcParams.update(STYLE)
    for number in CHARTS:
        drawing = chart(number, results)
        if drawing is None:
            print(f"figure {number}: no results")
            continue
        save(drawing, arguments.out, f"hpcache-figure-{number}")
        print(f"figure {number}: drawn")
    page_path = arguments.out / "hpcache.md"
    text = page_path.read_text()
    for name, part in page.parts(results).items():
        text = with_part(text, name, part)
    page_path.write_text(text)


if __name__ == "__main__":
    main()
