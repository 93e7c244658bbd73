"""Where records come from: memory, or an engine that keeps them elsewhere and gives sums over blocks."""

from __future__ import annotations

from typing import Any

from twoway.records import RecordSource, as_records


def open_records(source: Any) -> RecordSource:
    """Return a source of records as the solvers take it."""
    return source if isinstance(source, RecordSource) else as_records(source)
