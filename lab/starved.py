#!/usr/bin/env python3
"""Many selections whose items together are far more than the memory budget: is it kept, and does caching still pay?

    lab generate nested --scale 0.25 --out orders.ndjson
    .venv/bin/python lab/starved.py orders.ndjson [--memory 256MB] [--selections 200] [--json OUT]

Each selection sums two of the lineitems' numeric fields over a range of the orders' total price; no selection's range
holds another one's over the same fields. They are asked in order, then once more from the last to the first, each with
the cache off and on right after each other (which goes first alternates). Answers must be equal. Sampled every 5 ms:
the process's private memory. Reported: how much all items would need as plain 64-bit columns (they are narrowed, and take
less), times with and without the cache by pass, hits and their speed-up, what stayed cached.
"""
import argparse, itertools, json, pathlib, statistics, sys, threading, time

import thermocline

FIELDS = ["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_tax"]
# Bytes of a row of such an item as plain 64-bit columns, before they are narrowed: two fields and the filtered one.
PLAIN_ROW_BYTES = 3 * 8


def selections(path, count):
    """Pairs of fields in turn; each time round another, overlapping range of about a third of the orders."""
    pairs = list(itertools.combinations(FIELDS, 2))
    for number in range(count):
        left, right = pairs[number % len(pairs)]
        low = 60_000 + 9_000 * (number // len(pairs))
        yield (
            f"SELECT count(*), sum(l['{left}']), sum(l['{right}']) FROM "
            f"(SELECT o_totalprice, unnest(lineitems) AS l FROM '{path}') "
            f"WHERE o_totalprice BETWEEN {low} AND {low + 80_000}"
        )


def private_bytes():
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return 1024 * sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem"))


class Watch(threading.Thread):
    """Keeps the highest figure of `private_bytes`."""

    def __init__(self):
        super().__init__(daemon=True)
        self.highest_bytes, self.stopped = 0, threading.Event()

    def run(self):
        while not self.stopped.wait(0.005):
            self.highest_bytes = max(self.highest_bytes, private_bytes())


def same(left, right):
    """Counts are equal; sums of doubles may be added in another order."""
    return left[0] == right[0] and all(abs(a - b) <= 1e-9 * max(abs(a), abs(b)) for a, b in zip(left[1:], right[1:]))


def timed(cursor, query):
    began = time.perf_counter()
    [answer] = cursor.sql(query).fetchall()
    return time.perf_counter() - began, answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="nested orders, one JSON object a line")
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--selections", type=int, default=200)
    parser.add_argument("--json", type=pathlib.Path, help="where to write every time")
    arguments = parser.parse_args()
    caching = thermocline.connect(memory=arguments.memory)
    plain = caching.cursor()
    plain.sql("SET thermocline.cache = 'off'")
    queries = list(selections(arguments.data.resolve(), arguments.selections))
    timed(plain, queries[0])  # infers the schema, fills the page cache
    watch = Watch()
    watch.start()
    runs = []
    row_count = 0
    for number, (again, query) in enumerate([(0, q) for q in queries] + [(1, q) for q in reversed(queries)]):
        decision = caching.sql("EXPLAIN CACHE " + query).fetchall()[0][1]
        if number % 2:
            (off_s, expected), (on_s, answer) = timed(plain, query), timed(caching, query)
        else:
            (on_s, answer), (off_s, expected) = timed(caching, query), timed(plain, query)
        assert same(answer, expected), f"{query}\n{answer}\n{expected}"
        row_count += 0 if again else answer[0]
        runs.append({"again": again, "decision": decision, "off_s": off_s, "on_s": on_s})
    watch.stopped.set()
    watch.join()
    [(items, kept_bytes)] = caching.sql("SELECT count(*), sum(size_bytes) FROM thermocline.cache_items").fetchall()
    plain_gb = row_count * PLAIN_ROW_BYTES / 1e9
    print(f"{arguments.selections} selections are {plain_gb:.2f} GB as plain 64-bit columns; the budget is {arguments.memory}")
    print(f"private memory: at most {watch.highest_bytes / 1e6:.0f} MB; kept at the end: {items} items, {kept_bytes / 1e6:.0f} MB")
    for name, part in [("first time", runs[: len(queries)]), ("again", runs[len(queries) :]), ("whole", runs)]:
        off_s, on_s = sum(run["off_s"] for run in part), sum(run["on_s"] for run in part)
        hits = [run["off_s"] / run["on_s"] for run in part if run["decision"] == "hit"]
        faster = f"hits {statistics.median(hits):.1f} x faster (least {min(hits):.1f} x)" if hits else "no hits"
        print(f"{name:10}  off {off_s:7.2f} s  on {on_s:7.2f} s  ratio {on_s / off_s:.3f}  {len(hits)} of {len(part)} {faster}")
    if arguments.json:
        arguments.json.write_text(json.dumps(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
