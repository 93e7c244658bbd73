"""What the solvers of three-way tables have in common."""

from __future__ import annotations

from twoway.errors import DataError
from twoway.solvers.base import Evidence
from twoway.solvers.coupled_nmf import check_connected
from twoway.tables.tables import Tables
from twoway.text import shortlist


def three_way_tables(evidence: Evidence, solver: str) -> Tables:
    """Return all three-way tables, or raise where they cannot say how all variables go together."""
    names = evidence.schema.names
    if len(names) < 3:
        raise DataError(
            f"solver {solver!r} fits three-way tables, which needs at least 3 variables; got {shortlist(names)}"
        )
    tables = evidence.tables(3)
    check_connected(tables)
    return tables
