"""What Thermocline raises, by what the caller should do about it."""


class Error(Exception):
    """An error of Thermocline."""


class InputError(Error, ValueError):
    """The SQL, a file or a setting is wrong: fix it."""


class RetryError(Error):
    """Something changed underneath, such as a file during its scan: run the query again."""


class ResourceError(Error, MemoryError):
    """Memory or disk is short: free some, or raise `thermocline.memory`."""


class InternalError(Error):
    """A fault of Thermocline's own: please report it."""
