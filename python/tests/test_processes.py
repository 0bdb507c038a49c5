"""Ctrl-C, fork, threads and the end of the interpreter. Each test runs in a process of its own where signals matter."""

import threading
import time
import weakref

import numpy
import pyarrow
import pytest

import thermocline
from random_files import write_ndjson

# Work that takes minutes, so that only an interrupt ends it.
LONG_QUERIES = {
    "one row after minutes": "SELECT sum(value * 7 % 5) FROM range(0, 1000000000000)",
    "groups after minutes": "SELECT value % 1000 AS k, count(DISTINCT value % 7) FROM range(0, 1000000000000) GROUP BY k",
    "rows at once": "SELECT value, value + 1 FROM range(0, 1000000000000)",
}

# Until a query has ended after Ctrl-C. The aim is 0.1 s; the bound is generous because the machine may be busy.
BOUND_S = 30

# Imports come first, so that it is queries that are interrupted.
INTERRUPTED = """
    import os, signal, sys, threading, time
    import polars, pyarrow
    import thermocline
    db = thermocline.connect(threads=2)
    interrupted_at = []

    def interrupt():
        time.sleep(0.5)
        interrupted_at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=interrupt).start()
        {work}
    except KeyboardInterrupt:
        print("waited", time.monotonic() - interrupted_at[0])
    else:
        sys.exit("not interrupted")
    assert db.sql("SELECT 1").fetchall() == [(1,)]
"""


@pytest.mark.parametrize("kind", LONG_QUERIES)
@pytest.mark.parametrize(
    "ask",
    [
        "db.sql({!r}).fetchall()",
        "sum(1 for _ in db.sql({!r}))",
        "db.sql('CREATE TABLE t AS ' + {!r})",
        "db.sql({!r}).pl()",
        "db.sql({!r}).arrow_reader().read_all()",
        "db.register('t', db.sql({!r}))",
    ],
)
def test_ctrl_c_cancels_and_leaves_the_session_usable(in_process, kind, ask):
    query = LONG_QUERIES[kind]
    printed = in_process(INTERRUPTED.format(work=ask.format(query)))
    assert float(printed.split()[1]) < BOUND_S


def test_ctrl_c_while_another_library_reads_a_result(in_process):
    """The library raises an error of its own; Python raises KeyboardInterrupt at the next line that it runs."""
    source = """
        import os, signal, threading, time
        import pyarrow
        import thermocline
        db = thermocline.connect()
        try:
            threading.Thread(target=lambda: (time.sleep(0.5), os.kill(os.getpid(), signal.SIGINT))).start()
            try:
                pyarrow.table(db.sql("SELECT sum(value * 7 % 5) FROM range(0, 1000000000000)"))
            finally:
                for _ in range(100):
                    time.sleep(0.001)
        except KeyboardInterrupt:
            print("interrupted")
        assert db.sql("SELECT 1").fetchall() == [(1,)]
    """
    assert in_process(source) == "interrupted\n"


def test_ctrl_c_while_another_thread_asks_the_same_result(in_process):
    work = (
        f"result = db.sql({LONG_QUERIES['one row after minutes']!r}); "
        "threading.Thread(target=result.fetchone, daemon=True).start(); time.sleep(0.2); result.fetchone()"
    )
    assert float(in_process(INTERRUPTED.format(work=work)).split()[1]) < BOUND_S


def test_ctrl_c_while_the_source_of_a_registered_stream_computes(in_process):
    source = """
        import os, signal, threading, time
        import pyarrow
        import thermocline
        db = thermocline.connect()

        def batches():
            yield pyarrow.RecordBatch.from_pydict({"n": [1]})
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)

        class Another:
            def __init__(self, result):
                self.result = result

            def __arrow_c_stream__(self, requested_schema=None):
                return self.result.__arrow_c_stream__()

        reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("n", pyarrow.int64())]), batches())
        another = Another(db.sql("SELECT sum(value * 7 % 5) FROM range(0, 1000000000000)"))
        for stream in [reader, another]:
            try:
                if stream is another:
                    threading.Thread(target=lambda: (time.sleep(0.5), os.kill(os.getpid(), signal.SIGINT))).start()
                db.register("t", stream)
            except KeyboardInterrupt:
                print("interrupted")
    """
    assert in_process(source) == "interrupted\ninterrupted\n"


def test_a_result_is_not_asked_within_itself(in_process):
    """Who waited for its own thread would wait for ever."""
    source = """
        import signal
        import thermocline
        db = thermocline.connect(threads=2)
        query = "SELECT sum(value * 7 % 5) FROM range(0, 1000000000000)"
        result, rows = db.sql(query), iter(db.sql(query))

        for outer, inner in [
            (result.fetchone, result.fetchall),
            (result.fetchmany, lambda: result.columns),
            (lambda: next(rows), lambda: next(rows)),
        ]:
            def handler(number, frame):
                try:
                    inner()
                except thermocline.InputError as error:
                    print(error)
                raise TimeoutError

            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                outer()
            except TimeoutError:
                pass
    """
    printed = in_process(source).splitlines()
    assert len(printed) == 3 and all("by the same thread already" in line for line in printed)


def test_what_a_signal_handler_raises_costs_no_rows(in_process):
    source = """
        import functools, itertools, signal
        import pyarrow
        import thermocline

        class Stop(Exception):
            pass

        def handler(number, frame):
            raise Stop

        signal.signal(signal.SIGALRM, handler)
        db = thermocline.connect(threads=2)
        # Once made by Python code, in which handlers run.
        column = pyarrow.array([(0, day, 0) for day in range(100_000)], pyarrow.month_day_nano_interval())
        db.register("t", pyarrow.Table.from_batches(pyarrow.table({"x": column}).to_batches(max_chunksize=5_000)))
        rows = iter(db.sql("SELECT x FROM t"))
        many = functools.partial(db.sql("SELECT x FROM t").fetchmany, 7_000)
        for again in [lambda: rows, lambda: itertools.chain.from_iterable(iter(many, []))]:
            taken, stops, seconds = [], 0, 0.002
            for _ in range(2_000):
                before = len(taken)
                try:
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    # In C: no line of this program is between a row and its place in the list.
                    taken.extend(again())
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    break
                except Stop:
                    stops += 1
                    # A machine that is busy gets to the end at last.
                    if len(taken) < before + 500:
                        seconds *= 2
            assert sorted(interval.days for (interval,) in taken) == list(range(100_000)), len(taken)
            assert {type(interval) for (interval,) in taken} == {thermocline.Interval}
            print(stops > 0)
    """
    assert in_process(source) == "True\nTrue\n"


def test_ctrl_c_during_the_scan_of_a_file(in_process, tmp_path):
    path = tmp_path / "large.ndjson"
    with open(path, "w") as file:
        for part in range(50):
            file.write("".join(f'{{"id": {part * 10_000 + row}, "text": "{"x" * 100}"}}\n' for row in range(10_000)))
    query = " UNION ALL ".join([f"SELECT count(text) FROM '{path}' WHERE id <> {n}" for n in range(200)])
    printed = in_process(INTERRUPTED.format(work=f'db.sql("SET thermocline.cache = off"); db.sql({query!r}).fetchall()'))
    assert float(printed.split()[1]) < BOUND_S


def test_a_signal_handler_of_the_program_runs_during_a_query(in_process):
    source = """
        import os, signal, threading, time
        import thermocline

        def handler(number, frame):
            raise TimeoutError("it takes too long")

        signal.signal(signal.SIGUSR1, handler)
        db = thermocline.connect()
        try:
            threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGUSR1))).start()
            db.sql("SELECT sum(value * 7 % 5) FROM range(0, 1000000000000)").fetchall()
        except TimeoutError as error:
            print(error)
    """
    assert in_process(source) == "it takes too long\n"


def test_after_fork_the_child_gets_an_error_and_can_open_its_own(in_process, tmp_path):
    path = tmp_path / "t.ndjson"
    write_ndjson(path, 1, 2_000)
    source = """
        import gc, os, sys, threading, warnings
        import thermocline
        warnings.simplefilter("ignore")  # newer Pythons warn of fork with threads, rightly
        query = f"SELECT count(*), sum(k) FROM '{sys.argv[1]}' WHERE id > 100"
        db = thermocline.connect()
        result = db.sql(query)
        answer = result.fetchall()
        rows = iter(db.sql("SELECT a.value FROM range(0, 1000000) a, range(0, 1000000) b"))
        next(rows)
        busy = db.sql("SELECT sum(a.value * b.value) FROM range(0, 30000) a, range(0, 30000) b")
        other = threading.Thread(target=busy.fetchall)
        other.start()
        child = os.fork()
        if child == 0:
            refused = 0
            uses = [lambda: db.sql(query), result.fetchall, result.fetchone, lambda: iter(result), db.cursor, db.cache,
                    lambda: db.unregister("t"), lambda: [next(rows) for _ in range(10**6)], lambda: repr(busy)]
            for use in uses:
                try:
                    use()
                except thermocline.Error as error:
                    refused += "fork" in str(error)
            assert refused == len(uses), refused
            own = thermocline.connect()
            assert own.sql(query).fetchall() == answer
            db.close()
            del rows, busy, result, db
            gc.collect()
            sys.exit(7)
        assert os.waitpid(child, 0)[1] == 7 << 8
        other.join()
        assert result.fetchall() == answer
        print("parent done")
    """
    assert in_process(source, path).endswith("parent done\n")


def test_eight_threads_with_a_connection_each_get_the_same_answers(db, tmp_path, seed):
    path = tmp_path / "t.ndjson"
    write_ndjson(path, seed, 5_000)
    asked = [
        f"SELECT count(*), sum(k), min(price) FROM '{path}' WHERE id BETWEEN {low} AND {low + 1_500}"
        for low in range(0, 4_000, 250)
    ]
    off = thermocline.connect()
    off.sql("SET thermocline.cache = 'off'")
    expected = [off.sql(query).fetchall() for query in asked]
    start = threading.Barrier(8)
    answers = {}

    def ask(number):
        own = db.cursor()
        order = asked[number:] + asked[:number]
        start.wait()
        got = {query: own.sql(query).fetchall() for query in order + order}
        answers[number] = [got[query] for query in asked]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == dict.fromkeys(range(8), expected)


def test_threads_share_one_connection_and_one_result(db):
    result = db.sql("SELECT value FROM range(0, 50000) ORDER BY value")
    shared = db.sql("SELECT value FROM range(0, 50000) ORDER BY value")
    start, sums, taken = threading.Barrier(8), [], []

    def ask():
        start.wait()
        sums.append(sum(n for (n,) in result))
        for _ in range(25):
            taken.extend(shared.fetchmany(250))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [1_249_975_000] * 8
    assert sorted(taken) == [(n,) for n in range(50_000)]


def test_other_threads_run_while_a_query_runs(in_process):
    source = """
        import threading
        import thermocline
        db = thermocline.connect(threads=1)
        done = threading.Event()

        def ask():
            db.sql("SELECT sum(a.value * b.value) FROM range(0, 20000) a, range(0, 20000) b").fetchall()
            done.set()

        threading.Thread(target=ask).start()
        steps = 0
        while not done.wait(0.001):
            steps += 1
        print(steps)
    """
    # Without the lock given up, the waiting thread would wake once, at the end.
    assert int(in_process(source)) > 5


def test_other_threads_run_while_a_collected_database_goes(in_process):
    source = """
        import sys, threading, time
        import thermocline
        # Nobody is made to give the lock up.
        sys.setswitchinterval(1_000)
        steps, is_over = 0, False

        def step():
            global steps
            while not is_over:
                steps += 1
                time.sleep(0)

        stepping = threading.Thread(target=step)
        stepping.start()
        for _ in range(1_000):
            db = thermocline.connect(threads=1)
            before = steps
            del db
            has_run = steps > before
            if has_run:
                break
        is_over = True
        stepping.join()
        print(has_run)
    """
    assert in_process(source) == "True\n"


def test_the_interpreter_ends_while_queries_run(in_process):
    source = """
        import threading
        import thermocline
        db = thermocline.connect()
        rows = iter(db.sql("SELECT a.value FROM range(0, 1000000) a, range(0, 1000000) b"))
        next(rows)
        sql = "SELECT sum(value * 7 % 5) FROM range(0, 1000000000000)"
        threading.Thread(target=lambda: db.sql(sql).fetchall(), daemon=True).start()
        print("end")
    """
    assert in_process(source) == "end\n"


def test_the_interpreter_ends_while_a_query_reads_the_memory_of_another_library(in_process):
    """Giving the memory of NumPy back takes the interpreter lock, which a thread must not ask for any more."""
    source = """
        import time
        import numpy, pandas
        import thermocline

        class Slow:
            # Goes last, and gives the workers the time to drop what they have.
            def __del__(self, sleep=time.sleep):
                sleep(1)

        db = thermocline.connect(threads=2)
        db.register("t", pandas.DataFrame({"n": numpy.arange(100_000)}))
        rows = iter(db.sql("SELECT a.n * b.n AS n FROM t a, t b"))
        next(rows)
        slow = Slow()
        print("end")
    """
    assert in_process(source) == "end\n"


def test_arrays_are_given_back_while_python_runs():
    array = numpy.arange(100_000)
    held = weakref.ref(array)
    with thermocline.connect() as db:
        db.register("t", pyarrow.table({"n": pyarrow.array(array)}))
        del array
        assert db.sql("SELECT sum(n) FROM t").fetchall() == [(4_999_950_000,)]
        assert held() is not None
    while held() is not None:  # a worker may have them some moments longer
        time.sleep(0.01)


def test_a_database_gives_its_threads_back(in_process):
    source = """
        import pathlib, time
        import thermocline

        def is_ours(task):
            try:
                return "thermocline" in (task / "comm").read_text()
            except OSError:  # it ended meanwhile
                return False

        def count():
            return sum(is_ours(task) for task in pathlib.Path("/proc/self/task").iterdir())

        for _ in range(5):
            with thermocline.connect(threads=4) as db:
                db.sql("SELECT 1").fetchall()
                while count() < 4:  # a thread names itself when it starts to run
                    time.sleep(0.01)
            del db
        while count():
            time.sleep(0.01)
        print("none left")
    """
    assert in_process(source) == "none left\n"
