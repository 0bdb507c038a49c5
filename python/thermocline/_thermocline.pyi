from collections.abc import Iterator
from os import PathLike
from types import TracebackType
from typing import Any, Protocol, TypeAlias, final

import pandas
import polars
import pyarrow

__all__ = ["Connection", "Result", "__version__", "connect"]

__version__: str

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

# What statements without rows return is None. Which they are only their text tells, which a type checker does not read:
# Any spares those who ask a query the check for None.
_MaybeNone: TypeAlias = Any

def connect(
    database: str | PathLike[str] | None = None,
    memory: str | int | None = None,
    cache_memory: str | int | None = None,
    threads: int | None = None,
    eviction: str | None = None,
    read_only: bool = False,
) -> Connection:
    """Opens a database in this process and returns a connection to it.

    `memory` is the one number to think about: what caches and running queries may use together, such as "4GB",
    "512MiB", "25%" or a number of bytes; half of this machine's memory when absent, or of the control group's limit if
    that is less, and a percentage is one of the same. `cache_memory` caps the caches alone. `threads` is how many parts
    a query runs in, at most 1024, one per core when absent. `eviction` names the policy by which cached results make
    room for others: "recache" when absent, "recache-as-printed", "lru", "proteus", "vectorwise" or "monetdb".
    `database` is the folder in which it keeps tables, views and what spares work the next time, made if its parent is
    there, and open once at a time (`cursor()` gives further connections), unless all open it with `read_only`: then it
    must be there, and nothing in it is changed. Nothing is kept on disk where `database` is None or ":memory:".
    """

@final
class Connection:
    """One user's conversation with a database. Connections of one database share its tables, caches and memory
    budget."""

    def sql(self, text: str) -> Result | _MaybeNone:
        """Runs SQL: a query when the rows of its `Result` are asked for, any other statement at once.

        None for statements without rows. Of several statements, divided by semicolons, all but the last run at once.
        """

    def execute(self, text: str) -> Result | _MaybeNone:
        """The same as `sql`."""

    def register(self, name: str, object: _ArrowStream | _ArrowArray | pandas.DataFrame) -> None:
        """Makes a table of `object` under `name`, for all connections of this database."""

    def unregister(self, name: str) -> None:
        """Removes the table `name`."""

    def cache(self) -> Result:
        """What the cache holds now: a `Result` over the table `thermocline.cache_items`."""

    def cursor(self) -> Connection:
        """Another connection to the same database, with settings of its own."""

    def session(self) -> Connection:
        """The same as `cursor`."""

    def close(self) -> None:
        """Closes this connection; its results can't be asked any more, and `fetchone` and `fetchmany` don't go on.

        Iterations, readers and streams that have begun go on to their end. The database goes when its last connection is
        closed and none of them is left.
        """

    def __enter__(self) -> Connection: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

@final
class Result:
    """The answer of a query, computed when it is asked for, anew each time. Only `fetchone` and `fetchmany` go on where the
    one before them ended."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns: planned anew, or those of the rows that `fetchone` and `fetchmany` are giving."""

    @property
    def types(self) -> list[str]:
        """The Arrow types of the columns, as text."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples, of a run of its own; while `fetchone` or `fetchmany` are on their way, the rows that are
        left."""

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last one, as often as it is asked. To begin again, ask `db.sql(…)` again."""

    def fetchmany(self, count: int = 1) -> list[tuple[Any, ...]]:
        """The next `count` rows, fewer at the end; none after the last one, as often as it is asked."""

    def df(self) -> pandas.DataFrame:
        """The answer as a pandas DataFrame. Needs pandas and pyarrow.

        Integers of a column with NULLs become floats, as pandas has it; where one of them would change by that, it is
        refused.
        """

    def pl(self) -> polars.DataFrame:
        """The answer as a polars DataFrame. Needs polars."""

    def arrow(self) -> pyarrow.Table:
        """The answer as a `pyarrow.Table`. Needs pyarrow."""

    def arrow_reader(self) -> pyarrow.RecordBatchReader:
        """The answer as a stream of batches, computed while they are read. Needs pyarrow."""

    def show(self, max_rows: int = 20) -> None:
        """Prints the first rows as a table."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface: a stream of batches, computed while they are read."""
