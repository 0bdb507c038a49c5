"""Fixtures for all tests. Set THERMOCLINE_TEST_SEED to replay a run on random data; each test's name shows its seed."""

import os
import subprocess
import sys
import textwrap

import pytest

import thermocline

SEEDS = [int(os.environ["THERMOCLINE_TEST_SEED"])] if "THERMOCLINE_TEST_SEED" in os.environ else [1, 2, 3]


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", SEEDS)


@pytest.fixture
def db():
    """A connection to a database of its own."""
    with thermocline.connect() as connection:
        yield connection


@pytest.fixture
def in_process():
    """Runs Python source in a process of its own and returns what it printed; fails with its output if it does not end
    well."""

    def run(source, *arguments, timeout_s=60):
        outcome = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert outcome.returncode == 0, f"exit code {outcome.returncode}\n{outcome.stdout}\n{outcome.stderr}"
        return outcome.stdout

    return run
