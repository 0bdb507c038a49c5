"""Thermocline: ask many questions of files larger than memory, in SQL.

The first answer comes straight from the file; the following ones, merely similar ones too, come from memory, within the
budget you set. Nothing is declared, nothing is loaded, nothing is ever stale.

>>> import thermocline
>>> db = thermocline.connect(memory="4GB")
>>> db.sql("SELECT status, count(*) FROM 'events.ndjson' GROUP BY status").show()
>>> db.sql("EXPLAIN CACHE SELECT * FROM 'events.ndjson' WHERE status = 500").show()
"""

from thermocline._thermocline import Connection, Result, __version__, connect
from thermocline.errors import Error, InputError, InternalError, ResourceError, RetryError
from thermocline.interval import Interval

__all__ = [
    "Connection",
    "Error",
    "InputError",
    "InternalError",
    "Interval",
    "ResourceError",
    "Result",
    "RetryError",
    "__version__",
    "connect",
]
