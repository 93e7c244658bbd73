"""A model as a view of a database, which scores or completes the rows of a table there.

The statement is built of sqlglot's expressions: names and labels are quoted by it, never pasted. It is made of layers,
each a subquery of the next:

1. for each component, the logarithm of its weight times the probabilities of the observed cells;
2. the largest of these, so that nothing underflows, however many variables there are;
3. each component's share, relative to the largest;
4. the log-probability of the row; or for each hole, what its categories have of the shares, and the likeliest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.data.missing import AnyMissing, MissingLabels
from twoway.errors import DataError, unknown
from twoway.model.pmf import JointPMF, check_model
from twoway.schema import Label, Variable, label_key

What: TypeAlias = Literal["score", "impute"]

_NEVER = -1e300
"""In place of the logarithm of zero, which databases write in different ways, or not at all."""
_NEGLIGIBLE = -700.0
"""PostgreSQL raises an error where exp gives less than a number can be."""
_MOST_COLUMNS = 1500
"""PostgreSQL allows 1664 columns in a subquery, SQLite 2000."""


def sql_view(
    pmf: JointPMF,
    table: str,
    *,
    what: What = "score",
    dialect: str = "postgres",
    view: str | None = None,
    keep: Sequence[str] = (),
    missing: AnyMissing = (),
) -> str:
    """Return the statement that makes a view in which a database scores or completes the rows of a table.

    Parameters
    ----------
    pmf
        The model; its variables are columns of the table.
    table
        The table, or ``schema.table``.
    what
        "score": the table's columns, and ``log_prob``, the log-probability of what a row shows. "impute": the columns
        with the most probable category in each hole, given what the row shows.
    dialect
        The database's SQL: "postgres", "duckdb", "sqlite" or another that sqlglot knows.
    view
        The name of the view; the table's with ``_scored`` or ``_imputed`` by default.
    keep
        More columns to take over, such as a key.
    missing
        Labels that mean "not observed", beside NULL and those that the model's variables remember; as for `Records`.

    Notes
    -----
    A view cannot raise an error: a row with a label that the model does not know has no score (NULL), and
    is completed as if that cell were missing, but the cell stays. A row that the model calls impossible scores minus
    infinity, and keeps its holes.

    Examples
    --------
    >>> from twoway import fit
    >>> pmf = fit({"age": ["young", "old", "old"], "vote": ["no", "yes", None]}, rank=1)
    >>> print(sql_view(pmf, "survey", dialect="duckdb")[:30])
    CREATE VIEW "survey_scored" AS
    """
    check_model(pmf)
    if not isinstance(table, str):
        raise DataError(f"the name of a table is a text, not {type(table).__name__}")
    if what not in get_args(What):
        raise unknown("view", what, get_args(What))
    sqlglot = _sqlglot()
    known = sorted(one.value for one in sqlglot.Dialects if one.value)
    if dialect not in known:
        raise unknown("dialect", dialect, known)
    clash = [name for name in keep if name in pmf.schema or name == "log_prob"]
    if clash:
        raise DataError(f"keep names columns that the view does not have yet; it has {clash[0]!r}")
    target = view if view is not None else f"{table}_{'scored' if what == 'score' else 'imputed'}"
    made = sqlglot.exp.Create(
        kind="VIEW", this=_table(target), expression=_Layers(pmf, keep, missing, dialect).build(table, what)
    )
    return str(made.sql(dialect=dialect, pretty=True)) + ";\n"


def _sqlglot() -> Any:
    try:
        import sqlglot
    except ImportError:
        raise DataError('SQL needs sqlglot: pip install "twoway[sql]"') from None
    return sqlglot


def _table(name: str) -> Any:
    from sqlglot import exp

    parts = [exp.to_identifier(part, quoted=True) for part in name.rsplit(".", 1)]
    return exp.Table(this=parts[-1], db=parts[0] if len(parts) > 1 else None)


def _column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(exp.to_identifier(name, quoted=True))


def _number(value: float) -> Any:
    """Return a literal that every database reads as this very double."""
    from sqlglot import exp

    # Without an exponent, DuckDB and PostgreSQL would read a decimal number.
    text = exp.Literal.number(np.format_float_scientific(abs(value), unique=True))
    return exp.Cast(this=exp.Neg(this=text) if value < 0 else text, to=exp.DataType.build("double"))


def _label(label: Label) -> Any:
    from sqlglot import exp

    if isinstance(label, bool):
        return exp.Boolean(this=label)
    if isinstance(label, str):
        return exp.Literal.string(label)
    text = exp.Literal.number(repr(abs(label)))
    return exp.Neg(this=text) if label < 0 else text


def _kind(variable: Variable) -> str:
    kinds = {label_key(label)[0] for label in variable.categories}
    if len(kinds) > 1:
        raise DataError(
            f"the categories of {variable.name!r} are of several kinds ({', '.join(sorted(kinds))}), "
            "which no column of a database is"
        )
    return kinds.pop()


def _log(probability: float) -> float:
    return float(np.log(probability)) if probability > 0 else _NEVER


class _Layers:
    """The subqueries of a model; x0, x1, … are its variables, k0, … the columns to keep, e0, … its components."""

    def __init__(self, pmf: JointPMF, keep: Sequence[str], missing: AnyMissing, dialect: str) -> None:
        self.pmf, self.keep, self.dialect = pmf, tuple(keep), dialect
        self.missing = MissingLabels.of(missing)
        self.missing.check_columns(pmf.schema.names)
        self.kinds = [_kind(variable) for variable in pmf.schema]
        self.carried = [f"k{place}" for place in range(len(self.keep))] + [f"x{n}" for n in range(len(pmf.schema))]
        if len(self.carried) + pmf.rank > _MOST_COLUMNS // 2:
            raise DataError(
                f"{len(pmf.schema)} variables and rank {pmf.rank} make more columns than databases take in a query"
            )

    def build(self, table: str, what: What) -> Any:
        """Return the whole query."""
        from sqlglot import exp

        components = range(self.pmf.rank)
        read = exp.select(*(_column(name).as_(f"k{place}", quoted=True) for place, name in enumerate(self.keep)))
        read = read.select(*(_column(v.name).as_(f"x{n}", quoted=True) for n, v in enumerate(self.pmf.schema)))
        logs = self._over(
            read.from_(_table(table)),
            {f"s{f}": self._log_share(f) for f in components} | {"unseen": self._n_unseen()},
            [],
        )
        names = [f"s{f}" for f in components]
        largest = self._over(logs, {"most": self._greatest([_column(name) for name in names])}, [*names, "unseen"])
        shares = self._over(largest, {f"e{f}": self._share(f) for f in components}, ["most", "unseen"])
        final = self._impute(shares) if what == "impute" else shares
        chosen = [_column(f"k{place}").as_(name, quoted=True) for place, name in enumerate(self.keep)]
        chosen += [_column(f"x{n}").as_(v.name, quoted=True) for n, v in enumerate(self.pmf.schema)]
        if what == "score":
            chosen.append(self._score().as_("log_prob", quoted=True))
        return exp.select(*chosen, copy=False).from_(self._fenced(final), copy=False)

    def _over(self, inner: Any, new: dict[str, Any], passed: Iterable[str]) -> Any:
        """Return a layer over another: new columns, and those that pass through."""
        from sqlglot import exp

        kept = [name for name in [*self.carried, *passed] if name not in new]
        columns = [_column(name) for name in kept]
        columns += [expression.as_(name, quoted=True, copy=False) for name, expression in new.items()]
        return exp.select(*columns, copy=False).from_(self._fenced(inner), copy=False)

    def _fenced(self, inner: Any) -> Any:
        # These two would write an inner column's expression wherever it is used, over and over.
        fenced = inner.offset(0, copy=False) if self.dialect in ("postgres", "sqlite") else inner
        return fenced.subquery("t", copy=False)

    def _case(self, n: int, value: Callable[[int], Any], otherwise: Any) -> Any:
        """Return ``value(code)`` for the category that variable n shows."""
        from sqlglot import exp

        variable = self.pmf.schema.variables[n]
        ifs = [exp.If(this=_label(label), true=value(code)) for code, label in enumerate(variable.categories)]
        return exp.Case(this=self._shown(n), ifs=ifs, default=otherwise)

    def _shown(self, n: int) -> Any:
        """Return what variable n shows, as its labels are written: dates and enumerations as text."""
        from sqlglot import exp

        column = _column(f"x{n}")
        return exp.Cast(this=column, to=exp.DataType.build("text")) if self.kinds[n] == "text" else column

    def _is_hole(self, n: int) -> Any:
        from sqlglot import exp

        is_null = exp.Is(this=_column(f"x{n}"), expression=exp.Null())
        variable = self.pmf.schema.variables[n]
        labels = variable.categories
        known = self.missing.of_column(variable.name, variable)
        markers = [one for one in known if label_key(one)[0] == self.kinds[n] and variable.find(one) is None]
        if not markers:
            return is_null
        is_text = self.kinds[n] == "text"
        # Not IN (…), of which DuckDB would make a join for each variable.
        is_marker = exp.Case(
            this=exp.Trim(this=self._shown(n)) if is_text else self._shown(n),
            ifs=[exp.If(this=_label(one), true=exp.true()) for one in markers],
            default=exp.false(),
        )
        alike = [label for label in labels if str(label).strip() in markers]  # a category all the same
        if alike:
            ifs = [exp.If(this=_label(label), true=exp.false()) for label in alike]
            is_marker = exp.Case(this=self._shown(n), ifs=ifs, default=is_marker)
        return exp.or_(is_null, is_marker)

    def _log_share(self, f: int) -> Any:
        """Return log of the weight of component f times the probabilities of what is observed."""
        terms = [_number(_log(float(self.pmf.weights[f])))]
        for n, factor in enumerate(self.pmf.factors):
            logs = [_log(float(p)) for p in factor[:, f]]
            terms.append(self._case(n, lambda code, logs=logs: _number(logs[code]), _number(0.0)))  # type: ignore[misc]
        return _sum(terms)

    def _n_unseen(self) -> Any:
        from sqlglot import exp

        one, none = exp.Literal.number(1), exp.Literal.number(0)
        return _sum(
            [
                exp.Case(
                    ifs=[exp.If(this=self._is_hole(n), true=none.copy())],
                    default=self._case(n, lambda code: none.copy(), one.copy()),
                )
                for n in range(len(self.pmf.schema))
            ]
        )

    def _greatest(self, columns: Sequence[Any]) -> Any:
        from sqlglot import exp

        # With one argument, SQLite's MAX would be an aggregate.
        return columns[0] if len(columns) == 1 else exp.Anonymous(this=self._greatest_name, expressions=list(columns))

    @property
    def _greatest_name(self) -> str:
        return "MAX" if self.dialect == "sqlite" else "GREATEST"

    def _share(self, f: int) -> Any:
        from sqlglot import exp

        below = exp.Sub(this=_column(f"s{f}"), expression=_column("most"))
        matters = exp.GT(this=below, expression=_number(_NEGLIGIBLE))
        return exp.Case(ifs=[exp.If(this=matters, true=exp.Exp(this=below.copy()))], default=_number(0.0))

    def _score(self) -> Any:
        from sqlglot import exp

        log_sum = exp.Ln(this=_sum([_column(f"e{f}") for f in range(self.pmf.rank)]))
        ifs = [
            exp.If(this=exp.GT(this=_column("unseen"), expression=exp.Literal.number(0)), true=exp.Null()),
            exp.If(this=self._is_impossible(), true=self._minus_infinity()),
        ]
        return exp.Case(ifs=ifs, default=exp.Add(this=_column("most"), expression=log_sum))

    def _is_impossible(self) -> Any:
        from sqlglot import exp

        return exp.LT(this=_column("most"), expression=_number(_NEVER / 10))

    def _minus_infinity(self) -> Any:
        from sqlglot import exp

        if self.dialect == "sqlite":
            return exp.Neg(this=exp.Literal.number("9e999"))
        return exp.Cast(this=exp.Literal.string("-Infinity"), to=exp.DataType.build("double"))

    def _impute(self, shares: Any) -> Any:
        """Return layers that fill the holes, as many variables at a time as there may be columns."""
        passed = ["most", *(f"e{f}" for f in range(self.pmf.rank))]
        room = _MOST_COLUMNS - len(self.carried) - len(passed)
        layer, part, n_columns = shares, list[int](), 0
        for n, size in [*enumerate(self.pmf.schema.sizes), (-1, room + 1)]:
            if part and n_columns + size > room:
                layer = self._fill(layer, part, passed)
                part, n_columns = [], 0
            if n >= 0:
                part.append(n)
                n_columns += size
        return layer

    def _fill(self, inner: Any, part: Sequence[int], passed: Sequence[str]) -> Any:
        from sqlglot import exp

        values: dict[str, Any] = {}
        filled: dict[str, Any] = {}
        for n in part:
            variable, factor = self.pmf.schema.variables[n], self.pmf.factors[n]
            for code in range(len(variable)):
                terms = [
                    exp.Mul(this=_column(f"e{f}"), expression=_number(float(p))) for f, p in enumerate(factor[code])
                ]
                values[f"v{n}_{code}"] = exp.Case(ifs=[exp.If(this=self._is_hole(n), true=_sum(terms))])
            columns = [_column(f"v{n}_{code}") for code in range(len(variable))]
            ifs = [
                exp.If(this=column.copy(), true=_label(label))
                for column, label in zip(columns, variable.categories, strict=True)
            ]
            likeliest = exp.Case(this=self._greatest(columns), ifs=ifs)
            is_open = exp.and_(self._is_hole(n), exp.not_(self._is_impossible()))
            filled[f"x{n}"] = exp.Case(ifs=[exp.If(this=is_open, true=likeliest)], default=self._shown(n))
        return self._over(self._over(inner, values, passed), filled, passed)


def _sum(terms: Sequence[Any]) -> Any:
    """Return a sum as a balanced tree: parsers have a limit of depth."""
    from sqlglot import exp

    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    right = _sum(terms[half:])
    return exp.Add(this=_sum(terms[:half]), expression=exp.Paren(this=right) if len(terms) - half > 1 else right)
