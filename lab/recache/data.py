#!/usr/bin/env python3
"""Writes the files that the figures need, with `lab generate`: about 1.6 GB at scale 1.

    lab/recache/data.py --data DIR [--lab target/release/lab] [--scale 1] [--seed 1]

At scale 100 spam and TPC-H are as large as in the paper (3 million mails, scale factor 10), at 20 Yelp's data (1 million
users), at 5 the nested orders (TPC-H scale factor 1): in smaller files a query of Yelp's is planning and little else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

ORDERS_SCALE, TPCH_SCALE = 0.2, 0.1
"""TPC-H scale factors at scale 1: of the nested orders, and of the five tables."""
TPCH_TABLES = ["lineitem", "orders", "customer", "partsupp", "part"]
LIST_RECORDS = 50_000
LIST_ELEMENTS = [1, 2, 4, 6, 8, 10, 15, 20]


def commands(folder: Path, scale: float, seed: int) -> list[list[str]]:
    """The arguments of `lab generate` for every file."""

    def drawn(kind: str, name: str, count: float, *options: str) -> list[str]:
        records = str(max(1, round(count * scale)))
        return [kind, *options, "--records", records, "--seed", str(seed), "--out", str(folder / name)]

    tpch = ["tpch", "--scale", str(TPCH_SCALE * scale), "--out", str(folder)]
    return [
        ["nested", "--scale", str(ORDERS_SCALE * scale), "--out", str(folder / "order_lineitems.ndjson")],
        [*tpch, *(option for table in TPCH_TABLES for option in ("--table", table))],
        [*tpch, "--format", "ndjson", "--table", "lineitem"],
        drawn("spam", "mails.ndjson", 30_000),
        drawn("spam-csv", "verdicts.csv", 400_000),
        drawn("yelp-business", "business.ndjson", 7_200),
        drawn("yelp-user", "user.ndjson", 50_000),
        drawn("yelp-review", "review.ndjson", 200_000),
        *(drawn("lists", f"lists_{n}.ndjson", LIST_RECORDS, "--elements", str(n)) for n in LIST_ELEMENTS),
    ]


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder for the files; made if missing")
    parser.add_argument("--lab", type=Path, default=Path("target/release/lab"), help="the lab command")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    for command in commands(arguments.data, arguments.scale, arguments.seed):
        subprocess.run([arguments.lab, "generate", *command], check=True)
    written = {"scale": arguments.scale, "seed": arguments.seed, "tpch_scale": TPCH_SCALE * arguments.scale}
    (arguments.data / "data.json").write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
