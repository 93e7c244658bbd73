"""A model as a view of a database, which scores or completes the rows of a table there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from twoway.data.missing import AnyMissing
from twoway.errors import DataError, check_known
from twoway.model.pmf import JointPMF, model_of

ViewKind: TypeAlias = Literal["score", "impute"]


def sql_view(
    pmf: JointPMF,
    table: str,
    *,
    what: ViewKind = "score",
    dialect: str = "postgres",
    view: str | None = None,
    keep: Sequence[str] = (),
    missing: AnyMissing = (),
) -> str:
    """Return the statement that creates a view in which a database scores or completes the rows of a table.

    Parameters
    ----------
    pmf
        The model; its variables are columns of the table.
    table
        The table, or ``schema.table``.
    what
        "score": the table's columns, and ``log_prob``, the log-probability of a row's observed cells. "impute": the
        columns with the most probable category in each missing cell, given the observed ones.
    dialect
        The database's SQL: "postgres", "duckdb", "sqlite" or another that sqlglot knows.
    view
        The name of the view; the table's with ``_scored`` or ``_imputed`` by default.
    keep
        More columns to include, such as a key.
    missing
        Labels that mean "not observed", beside NULL and those that the model's variables remember; as for `Records`.

    Notes
    -----
    A view cannot raise an error: a row with a label that the model does not know has no score (NULL), and
    is completed as if that cell were missing, but the cell keeps its label. A row that is impossible under the model
    scores minus infinity, and its missing cells stay missing.

    Examples
    --------
    >>> from twoway import fit
    >>> pmf = fit({"age": ["young", "old", "old"], "vote": ["no", "yes", None]}, rank=1)
    >>> print(sql_view(pmf, "survey", dialect="duckdb")[:30])
    CREATE VIEW "survey_scored" AS
    """
    pmf = model_of(pmf)
    if not isinstance(table, str):
        raise DataError(f"the name of a table must be text, not {type(table).__name__}")
    check_known("view", get_args(ViewKind), what)
    try:
        from sqlglot import Dialects

        from twoway.model.sql_layers import create_view
    except ImportError:
        raise DataError('SQL needs sqlglot: pip install "twoway[sql]"') from None
    dialects = sorted(one.value for one in Dialects if one.value)
    check_known("dialect", dialects, dialect)
    clash = [name for name in keep if name in pmf.schema or name == "log_prob"]
    if clash:
        raise DataError(f"keep must name columns other than those of the view; it has {clash[0]!r} already")
    ending = "scored" if what == "score" else "imputed"
    return create_view(pmf, table, f"{table}_{ending}" if view is None else view, what, dialect, keep, missing)
