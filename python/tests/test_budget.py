"""The memory budget, seen from outside: what the kernel says about the process while it asks many questions."""

ASKING = """
    import pathlib, sys, threading
    import thermocline

    path, budget_bytes = sys.argv[1], 64_000_000
    highest_bytes, stop = 0, threading.Event()

    def private_bytes():
        status = pathlib.Path("/proc/self/status").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in status)
        return 1024 * sum(int(sizes[name].split()[0]) for name in ("RssAnon", "RssShmem"))

    def watch():
        global highest_bytes
        while not stop.wait(0.005):
            highest_bytes = max(highest_bytes, private_bytes())

    db = thermocline.connect(memory="64MB", threads=2)
    watcher = threading.Thread(target=watch)
    watcher.start()
    cold = db.cursor()
    cold.sql("SET thermocline.cache = 'off'")
    held_bytes, row_total = [], 0
    for number in range({selections}):
        # Each keeps a fifth of the rows with all three columns: some 11 MB as Arrow arrays.
        low = number * 7_919 % {rows} * 4 // 5
        query = f"SELECT count(*), sum(b), max(c) FROM '{{path}}' WHERE a BETWEEN {{low}} AND {{low + {rows} // 5}}"
        answer = db.sql(query).fetchall()
        row_total += answer[0][0]
        if number % 10 == 0:
            assert answer == cold.sql(query).fetchall(), query
            [(held,)] = db.sql("SELECT coalesce(sum(size_bytes), 0) FROM thermocline.cache_items").fetchall()
            held_bytes.append(held)
    [(items, uses)] = db.sql("SELECT count(*), sum(use_count) FROM thermocline.cache_items").fetchall()
    stop.set()
    watcher.join()
    print(highest_bytes, max(held_bytes), items, row_total)
"""

ROWS = 600_000
SELECTIONS = 40


def test_private_memory_stays_within_the_budget_while_items_come_and_go(in_process, tmp_path):
    path = tmp_path / "large.ndjson"
    with open(path, "w") as file:
        for row in range(ROWS):
            file.write(f'{{"a": {row}, "b": {row * 37 % 1000 / 4}, "c": "text {row:060d}", "d": [{row}, "{row:020d}"]}}\n')
    assert 60e6 < path.stat().st_size < 120e6
    printed = in_process(ASKING.format(rows=ROWS, selections=SELECTIONS), path, timeout_s=150)
    highest_bytes, held_bytes, items, row_total = map(int, printed.split())
    assert row_total == SELECTIONS * (ROWS // 5 + 1)
    # The items together would take several times the budget: 80 bytes a row and more.
    assert row_total * 80 > 5 * 64_000_000
    assert highest_bytes <= 64_000_000 + 128_000_000, f"{highest_bytes / 1e6:.0f} MB of private memory"
    assert 0 < held_bytes <= 64_000_000
    assert items > 0, "nothing stayed cached"
