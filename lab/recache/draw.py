#!/usr/bin/env python3
"""Draws the figures that were measured, and writes their paragraphs into the page.

    pip install -r lab/requirements.txt
    lab/recache/draw.py results --out docs/results

Reads every `FIGURE.json` in the folder that `run.py` wrote. Figures without results stay out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import matplotlib.pyplot as plt
from charts import CHARTS
from experiment.drawing import STYLE, save
from experiment.page import with_part
from page import paragraph
from results import Results


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("--out", type=Path, required=True, help="folder with recache.md, for the drawings")
    arguments = parser.parse_args()
    results = {path.stem: Results(path) for path in sorted(arguments.results.glob("*.json")) if path.stem in CHARTS}
    page_path = arguments.out / "recache.md"
    page = page_path.read_text()
    plt.rcParams.update(STYLE)
    for number, chart in CHARTS.items():
        figure = chart(results)
        if figure is None:
            print(f"figure {number}: no results")
            continue
        save(figure, arguments.out, f"figure-{number}")
        page = with_part(page, f"figure {number}", paragraph(number, results))
        print(f"figure {number}: drawn")
    page_path.write_text(page)


if __name__ == "__main__":
    main()
