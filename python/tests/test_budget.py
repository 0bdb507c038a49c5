"""The memory budget, seen from outside: what the kernel says about the process while it asks and loads."""

import thermocline

WATCHING = """
    import pathlib, sys, threading
    import thermocline

    highest_bytes, stop = 0, threading.Event()

    def private_bytes():
        status = pathlib.Path("/proc/self/status").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in status)
        return 1024 * sum(int(sizes[name].split()[0]) for name in ("RssAnon", "RssShmem"))

    def watch():
        global highest_bytes
        while not stop.wait(0.005):
            highest_bytes = max(highest_bytes, private_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
"""

ASKING = """
    path = sys.argv[1]
    db = thermocline.connect(memory="64MB", threads=2)
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
    printed = in_process(WATCHING + ASKING.format(rows=ROWS, selections=SELECTIONS), path, timeout_s=150)
    highest_bytes, held_bytes, items, row_total = map(int, printed.split())
    assert row_total == SELECTIONS * (ROWS // 5 + 1)
    # The items together would take several times the budget: 80 bytes a row and more.
    assert row_total * 80 > 5 * 64_000_000
    assert highest_bytes <= 64_000_000 + 128_000_000, f"{highest_bytes / 1e6:.0f} MB of private memory"
    assert 0 < held_bytes <= 64_000_000
    assert items > 0, "nothing stayed cached"


LOADING = """
    import time

    def thread_count():
        count = 0
        for task in pathlib.Path("/proc/self/task").iterdir():
            try:
                count += (task / "comm").read_text().strip() == "thermocline"
            except OSError:
                pass  # it has just ended
        return count

    path, folder = sys.argv[1:]
    with thermocline.connect(folder, memory="150MB", threads=2) as db:
        # A thread gives itself its name when it first runs.
        named_by = time.monotonic() + 60
        while thread_count() < 2 and time.monotonic() < named_by:
            time.sleep(0.001)
        before = thread_count()
        db.sql(f"CREATE TABLE t AS SELECT * FROM '{path}'")
        assert before >= 2, "workers have another name"
        # What a thread has allocated and others freed stays with it until it ends.
        ends = time.monotonic() + 60
        while thread_count() > before and time.monotonic() < ends:
            time.sleep(0.01)
        left_over = thread_count() - before
        [(row_count,)] = db.sql("SELECT count(*) FROM t").fetchall()
    stop.set()
    watcher.join()
    print(highest_bytes, left_over, row_count)
"""

LOADED_ROWS = 6_000_000


def test_private_memory_stays_within_the_budget_while_a_table_is_loaded(in_process, tmp_path):
    path = tmp_path / "wide.parquet"
    primes = [7_919, 104_729, 1_299_709, 15_485_863, 32_452_843, 49_979_687, 67_867_967, 86_028_121]
    columns = ", ".join(f"value * {prime} % 1000003 AS c{number}" for number, prime in enumerate(primes))
    with thermocline.connect() as db:
        db.sql(f"COPY (SELECT value AS id, {columns} FROM generate_series(1, {LOADED_ROWS})) TO '{path}'")
    printed = in_process(WATCHING + LOADING, path, tmp_path / "db", timeout_s=600)
    highest_bytes, left_over, row_count = map(int, printed.split())
    assert row_count == LOADED_ROWS
    assert left_over <= 0, f"{left_over} threads that have nothing to do"
    assert highest_bytes <= 150_000_000 + 128_000_000, f"{highest_bytes / 1e6:.0f} MB of private memory"
