"""What the data, the stores and the memory of a measurement must be."""

import argparse

import pytest
from ssb import clickhouse_tables, memory_group, run


def test_files_of_another_scale_are_refused(tmp_path):
    run.check_scale(tmp_path, 60_012_345, 10)
    with pytest.raises(SystemExit, match="has 60012345 lines, expected about 6000000 at --scale 1"):
        run.check_scale(tmp_path, 60_012_345, 1)


def test_a_store_of_other_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "line_count", lambda data: 600)
    arguments = argparse.Namespace(ask="clickhouse", data=tmp_path)
    run.check_store(arguments, lambda sql: [("600",)])
    with pytest.raises(SystemExit, match="clickhouse has 60 lines in .*, its files 600"):
        run.check_store(arguments, lambda sql: [(60,)])


def test_a_store_that_was_interrupted_is_made_again(tmp_path):
    store = tmp_path / "ssb.duckdb"

    def fails(partial):
        partial.write_text("half")
        partial.with_name(f"{partial.name}.wal").write_text("half")
        raise KeyboardInterrupt

    def makes(partial):
        assert [path.name for path in tmp_path.iterdir()] == []
        partial.mkdir()
        (partial / "table").write_text("whole")

    with pytest.raises(KeyboardInterrupt):
        run.make_whole(store, fails)
    assert not store.exists()
    run.make_whole(store, makes)
    run.make_whole(store, fails)
    assert [path.name for path in tmp_path.iterdir()] == ["ssb.duckdb"] and (store / "table").read_text() == "whole"


def test_sizes_are_decimal_unless_they_say_otherwise():
    sizes = {"1000M": 10**9, "1000MB": 10**9, "1000MiB": 1000 << 20, "1.5GB": 1_500_000_000, "64KiB": 1 << 16, "7": 7, "7B": 7}
    assert {text: memory_group.size_bytes(text) for text in sizes} == sizes
    for text in ("1000 MBs", "M", "7iB", "-1MB", "1000m"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no size"):
            memory_group.size_bytes(text)


def test_clickhouse_makes_dates_of_the_files_numbers():
    create, insert, _ = clickhouse_tables.statements("lineorder", "file('x')")
    assert create.endswith("ENGINE = MergeTree PARTITION BY toYear(lo_orderdate) ORDER BY (lo_orderdate, lo_orderkey)")
    assert "lo_orderkey UInt32" in create and "lo_discount UInt8" in create and "lo_orderdate Date" in create
    assert insert.startswith("INSERT INTO `lineorder` SELECT lo_orderkey, lo_linenumber, ")
    assert insert.count("YYYYMMDDToDate") == 2 and insert.endswith("lo_shipmode FROM file('x')")
