"""Where records come from: memory, or an engine that keeps them elsewhere and gives sums over blocks."""

from __future__ import annotations

from typing import Any

from twoway.engines.file_set import is_path
from twoway.records import RecordSource, as_records
from twoway.tables import Tables


def open_records(source: Any) -> RecordSource:
    """Return a source of records as the solvers take it, which may stay where they are: large files, partitions."""
    if hasattr(type(source), "map_reduce"):  # isinstance would ask for each property, which may cost a pass over files
        found: RecordSource = source
        return found
    if is_path(source):
        from twoway.engines.file_records import FileRecords, is_large

        if is_large(source):
            return FileRecords(source)
    if type(source).__module__.partition(".")[0] == "dask":
        from twoway.engines.cluster import DaskRecords

        return DaskRecords(source)
    return as_records(source)


def tables_counted_there(source: Any, order: int) -> Tables | None:
    """Return the tables of a source that is counted where it is, such as a table of a database; None for others."""
    from twoway.engines.sql import count_inside, is_database_table

    return count_inside(source, order)[0] if is_database_table(source) else None
