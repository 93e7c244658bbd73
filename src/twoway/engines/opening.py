"""Where data come from: memory, or an engine that keeps them elsewhere and gives sums over blocks, or counts."""

from __future__ import annotations

from typing import Any

from twoway.engines.file_set import is_path
from twoway.record_source import RecordSource
from twoway.records import as_records
from twoway.tables import Tables


def open_source(source: Any, order: int = 2) -> RecordSource | Tables:
    """Return a source as the solvers take it.

    Records may stay where they are: large files, partitions. A table of a database whose rows may not leave it is
    counted there, in tables of ``order`` variables.
    """
    if isinstance(source, Tables):
        return source
    if hasattr(type(source), "map_reduce"):
        found: RecordSource = source
        return found
    if is_path(source):
        from twoway.engines.file_records import FileRecords, is_large

        if is_large(source):
            return FileRecords(source)
    if type(source).__module__.partition(".")[0] == "dask":
        from twoway.engines.cluster import DaskRecords

        return DaskRecords(source)
    from twoway.engines.sql import is_database_table, open_table

    return open_table(source, order) if is_database_table(source) else as_records(source)
