"""Records as `run.py` writes them, with numbers that tests choose."""

import pytest
from measured import Measured

HEADER = {
    "kind": "header",
    "figure": "9",
    "command": "lab/hpcache/run.py 9 --scale 0.1",
    "commit": "abc1234",
    "machine": {"cpu": "A processor", "core_count": 2, "memory_bytes": 8 << 30, "system": "Linux 6", "python": "3.12"},
    "began": "2026-01-02T03:04:05+00:00",
    "scale": 0.1,
    "memory": "8GB",
    "quick": False,
    "database": {"tables": [["lineorder", 600_000, 30_000_000]]},
}


def pipeline(took_s=0.1, predicted_s=0.1, read_bytes=0, columns=((100_000_000, 0),), throughput=1e9):
    """A question's largest pipeline; `columns` have sizes and what is held of them."""
    named = {f"public.lineorder.c{index}": list(sizes) for index, sizes in enumerate(columns)}
    return {
        "pipeline": f"public.lineorder ({', '.join(name.split('.')[-1] for name in named)})",
        "is_running": False,
        "size_bytes": sum(size_bytes for size_bytes, _ in columns),
        "read_bytes": read_bytes,
        "throughput_bytes_per_s": throughput,
        "predicted_s": predicted_s,
        "in_memory_s": 0.1,
        "took_s": took_s,
        "columns": named,
    }


def asked(seconds, query="1.1", **of_pipeline):
    """A question that took so long."""
    return {"query": query, "seconds": seconds, "answer": "d", "row_count": 1, "pipeline": pipeline(**of_pipeline)}


def run(questions, workload="ssb", medium="1 x P", share=0.1, policy="proportional", repetition=0):
    """A run's record."""
    return {
        "kind": "run",
        "workload": workload,
        "medium": medium,
        "share": share,
        "policy": policy,
        "repetition": repetition,
        "began": HEADER["began"],
        "asked": questions,
    }


def pace(workload="ssb", bytes_per_s=1e9):
    """A workload's P."""
    return {"kind": "pace", "workload": workload, "bytes_per_s": bytes_per_s, "used_bytes": 400_000_000, "answers": ["d"]}


class Recorded:
    """What tests make records with."""

    header, pipeline, asked, run, pace = HEADER, *map(staticmethod, (pipeline, asked, run, pace))

    @staticmethod
    def measured(*records):
        """All of a file."""
        return Measured(HEADER, list(records))


@pytest.fixture
def recorded():
    """As a fixture, since test modules are not imported by each other."""
    return Recorded
