"""The query of a model for a database, built of sqlglot's expressions: it quotes names and labels.

Each layer is a subquery of the next:

1. for each component, the logarithm of its weight times the probabilities of the observed cells;
2. the largest of these, so that nothing underflows, however many variables there are;
3. each component's share, relative to the largest;
4. the log-probability of the row; or for each missing cell, the share of each category, and the likeliest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from twoway.data.missing import AnyMissing, MissingLabels
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.schema import Label, Variable, label_key

_NEVER = -1e300
"""Instead of the logarithm of zero, which databases write in different ways, or not at all."""
_NEGLIGIBLE = -700.0
"""PostgreSQL raises an error where the result of exp is below the smallest double."""
_MOST_COLUMNS = 1500
"""PostgreSQL allows 1664 columns in a subquery, SQLite 2000."""


def create_view(
    pmf: JointPMF, table: str, view: str, what: str, dialect: str, keep: Sequence[str], missing: AnyMissing
) -> str:
    """Return the statement that creates a view; see `sql_view`."""
    query = _Layers(pmf, keep, missing, dialect).build(table, what)
    return exp.Create(kind="VIEW", this=_table(view), expression=query).sql(dialect=dialect, pretty=True) + ";\n"


class _Layers:
    """The subqueries of a model; x0, x1, … are its variables, k0, … the columns to keep, e0, … its components."""

    def __init__(self, pmf: JointPMF, keep: Sequence[str], missing: AnyMissing, dialect: str) -> None:
        self.pmf, self.dialect = pmf, dialect
        self.missing = MissingLabels.of(missing)
        self.missing.check_columns(pmf.schema.names)
        self.kinds = [_kind(variable) for variable in pmf.schema]
        self.columns = {f"k{place}": name for place, name in enumerate(keep)}
        self.columns |= {f"x{n}": name for n, name in enumerate(pmf.schema.names)}
        if len(self.columns) + pmf.rank > _MOST_COLUMNS // 2:
            raise DataError(
                f"{len(pmf.schema)} variables and rank {pmf.rank} need more columns than databases allow in a query"
            )

    def build(self, table: str, what: str) -> Any:
        """Return the whole query."""
        components = range(self.pmf.rank)
        names = [f"s{f}" for f in components]
        read = exp.select(*(_column(name).as_(short, quoted=True) for short, name in self.columns.items()))
        shares = {f"s{f}": self._log_share(f) for f in components} | {"unseen": self._n_unseen()}
        logs = self._over(read.from_(_table(table)), shares)
        largest = self._over(logs, {"most": self._greatest(names)}, [*names, "unseen"])
        layer = self._over(largest, {f"e{f}": self._share(f) for f in components}, ["most", "unseen"])
        chosen = [_column(short).as_(name, quoted=True) for short, name in self.columns.items()]
        if what == "score":
            chosen.append(self._score().as_("log_prob", quoted=True))
        else:
            layer = self._impute(layer)
        return exp.select(*chosen, copy=False).from_(self._fenced(layer), copy=False)

    def _over(self, inner: Any, new: dict[str, Any], passed: Iterable[str] = ()) -> Any:
        """Return a layer over another: new columns, and those that pass through."""
        columns = [_column(name) for name in [*self.columns, *passed] if name not in new]
        columns += [expression.as_(name, quoted=True, copy=False) for name, expression in new.items()]
        return exp.select(*columns, copy=False).from_(self._fenced(inner), copy=False)

    def _fenced(self, inner: Any) -> Any:
        # These two would repeat an inner column's expression wherever it is used.
        fenced = inner.offset(0, copy=False) if self.dialect in ("postgres", "sqlite") else inner
        return fenced.subquery("t", copy=False)

    def _by_category(self, n: int, values: Iterable[Any], otherwise: Any) -> Any:
        """Return the value, of one for each category, for the category in the column of variable n."""
        labels = map(_label, self.pmf.schema.variables[n].categories)
        return _case(zip(labels, values, strict=True), otherwise, of=self._shown(n))

    def _shown(self, n: int) -> Any:
        """Return the column of variable n, as its labels are written: dates and enumerations as text."""
        column = _column(f"x{n}")
        return exp.Cast(this=column, to=exp.DataType.build("text")) if self.kinds[n] == "text" else column

    def _is_missing(self, n: int) -> Any:
        is_null = exp.Is(this=_column(f"x{n}"), expression=exp.Null())
        variable = self.pmf.schema.variables[n]
        known = self.missing.of_column(variable.name, variable)
        markers = [label for label in known if label_key(label)[0] == self.kinds[n] and variable.find(label) is None]
        if not markers:
            return is_null
        shown = exp.Trim(this=self._shown(n)) if self.kinds[n] == "text" else self._shown(n)
        # Not IN (…), which DuckDB turns into a join for each variable.
        is_marker = _case([(_label(label), exp.true()) for label in markers], exp.false(), of=shown)
        alike = [label for label in variable.categories if str(label).strip() in markers]  # categories all the same
        if alike:
            is_marker = _case([(_label(label), exp.false()) for label in alike], is_marker, of=self._shown(n))
        return exp.or_(is_null, is_marker)

    def _log_share(self, f: int) -> Any:
        """Return log of the weight of component f times the probabilities of what is observed."""
        columns = enumerate(factor[:, f] for factor in self.pmf.factors)
        logs = (self._by_category(n, map(_log, column), _number(0.0)) for n, column in columns)
        return _sum([_log(self.pmf.weights[f]), *logs])

    def _n_unseen(self) -> Any:
        count = exp.Literal.number
        is_unseen = [
            _case([(self._is_missing(n), count(0))], self._by_category(n, map(count, [0] * size), count(1)))
            for n, size in enumerate(self.pmf.schema.sizes)
        ]
        return _sum(is_unseen)

    def _greatest(self, names: Sequence[str]) -> Any:
        """Return the largest of some columns."""
        function, columns = "MAX" if self.dialect == "sqlite" else "GREATEST", list(map(_column, names))
        # With one argument, SQLite's MAX would be an aggregate.
        return columns[0] if len(columns) == 1 else exp.Anonymous(this=function, expressions=columns)

    def _share(self, f: int) -> Any:
        below = exp.Sub(this=_column(f"s{f}"), expression=_column("most"))
        matters = exp.GT(this=below, expression=_number(_NEGLIGIBLE))
        return _case([(matters, exp.Exp(this=below.copy()))], _number(0.0))

    def _score(self) -> Any:
        log_sum = exp.Ln(this=_sum([_column(f"e{f}") for f in range(self.pmf.rank)]))
        minus_infinity: Any = exp.Cast(this=exp.Literal.string("-Infinity"), to=exp.DataType.build("double"))
        if self.dialect == "sqlite":
            minus_infinity = exp.Neg(this=exp.Literal.number("9e999"))
        is_unseen = exp.GT(this=_column("unseen"), expression=exp.Literal.number(0))
        score = exp.Add(this=_column("most"), expression=log_sum)
        return _case([(is_unseen, exp.Null()), (self._is_impossible(), minus_infinity)], score)

    def _is_impossible(self) -> Any:
        return exp.LT(this=_column("most"), expression=_number(_NEVER / 10))

    def _impute(self, shares: Any) -> Any:
        """Return layers that fill the missing cells, as many variables at a time as the number of columns allows."""
        passed = ["most", *(f"e{f}" for f in range(self.pmf.rank))]
        room = _MOST_COLUMNS - len(self.columns) - len(passed)
        layer, part, n_columns = shares, list[int](), 0
        for n, size in [*enumerate(self.pmf.schema.sizes), (-1, room + 1)]:
            if part and n_columns + size > room:
                layer = self._fill(layer, part, passed)
                part, n_columns = [], 0
            part.append(n)
            n_columns += size
        return layer

    def _fill(self, inner: Any, part: Sequence[int], passed: Sequence[str]) -> Any:
        values: dict[str, Any] = {}
        filled: dict[str, Any] = {}
        for n in part:
            variable, factor = self.pmf.schema.variables[n], self.pmf.factors[n]
            names = [f"v{n}_{code}" for code in range(len(variable))]
            for name, row in zip(names, factor, strict=True):
                terms = [exp.Mul(this=_column(f"e{f}"), expression=_number(float(p))) for f, p in enumerate(row)]
                values[name] = _case([(self._is_missing(n), _sum(terms))])
            labels = zip(map(_column, names), map(_label, variable.categories), strict=True)
            is_open = exp.and_(self._is_missing(n), exp.not_(self._is_impossible()))
            filled[f"x{n}"] = _case([(is_open, _case(labels, of=self._greatest(names)))], self._shown(n))
        return self._over(self._over(inner, values, passed), filled, passed)


def _case(cases: Iterable[tuple[Any, Any]], default: Any = None, *, of: Any = None) -> Any:
    """Return the result of the first case that holds, or that equals ``of``."""
    return exp.Case(this=of, ifs=[exp.If(this=when, true=then) for when, then in cases], default=default)


def _table(name: str) -> Any:
    parts = [exp.to_identifier(part, quoted=True) for part in name.rsplit(".", 1)]
    return exp.Table(this=parts[-1], db=parts[0] if len(parts) > 1 else None)


def _column(name: str) -> Any:
    return exp.column(exp.to_identifier(name, quoted=True))


def _number(value: float) -> Any:
    """Return a literal that every database reads as exactly this double."""
    # Without an exponent, DuckDB and PostgreSQL would read a decimal number.
    text = exp.Literal.number(np.format_float_scientific(abs(value), unique=True))
    return exp.Cast(this=exp.Neg(this=text) if value < 0 else text, to=exp.DataType.build("double"))


def _log(probability: np.float64) -> Any:
    return _number(float(np.log(probability)) if probability > 0 else _NEVER)


def _label(label: Label) -> Any:
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
            f"the categories of {variable.name!r} are of several types ({', '.join(sorted(kinds))}); a column of a "
            "database has one"
        )
    return kinds.pop()


def _sum(terms: Sequence[Any]) -> Any:
    """Return a sum as a balanced tree, because parsers limit the depth."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    right = _sum(terms[half:])
    return exp.Add(this=_sum(terms[:half]), expression=exp.Paren(this=right) if len(terms) - half > 1 else right)
