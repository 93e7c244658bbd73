"""Where data come from: memory, or an engine that keeps them elsewhere and gives sums over blocks, or counts."""

from __future__ import annotations

from typing import Any

from twoway.data.files.file_set import find_files, is_file_path
from twoway.data.records import Records
from twoway.data.stored_records import RecordSource
from twoway.tables.tables import Tables


def open_source(source: Any, order: int = 2) -> RecordSource | Tables:
    """Return a source as the solvers take it.

    Records may stay where they are: large files, partitions. A table of a database whose rows may not leave it is
    counted there, in tables of ``order`` variables.
    """
    if isinstance(source, Tables) or hasattr(type(source), "map_reduce"):
        return source  # type: ignore[no-any-return]
    if is_file_path(source):
        from twoway.data.files.file_records import FileRecords

        files = find_files(source)
        return FileRecords(files) if files.is_large() else Records(files)
    if type(source).__module__.partition(".")[0] == "dask":
        from twoway.data.dask_records import DaskRecords

        return DaskRecords(source)
    from twoway.data.sql.database_table import DatabaseTable, is_database_table, read_database_table

    if not is_database_table(source):
        return Records(source)
    table = source if isinstance(source, DatabaseTable) else DatabaseTable(source)
    if not table.is_counted_inside:
        return read_database_table(table)
    from twoway.tables.counting_inside import count_inside

    return count_inside(table, order)[0]
