"""A model as a view of a database, which scores or completes the rows of a table there.

The query is built of sqlglot's expressions, which quote names and labels. Each layer is a subquery of the next:

1. for each component, the logarithm of its weight times the probabilities of the observed cells;
2. the largest of these, so that nothing underflows, however many variables there are;
3. each component's share, relative to the largest;
4. the log-probability of the row; or for each missing cell, the share of each category, and the likeliest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.category_labels import label_key
from twoway.data.missing import AnyMissing, MissingLabels
from twoway.errors import DataError, check_known
from twoway.model.pmf import JointPMF, single_pmf
from twoway.schema import Variable

try:
    from sqlglot import Dialects, exp
except ImportError:  # the extra is not installed, and `sql_view` says so
    exp = None  # type: ignore[assignment]

ViewKind: TypeAlias = Literal["score", "impute"]

_NEVER = -1e300
"""Instead of the logarithm of zero, which databases write in different ways, or not at all."""
_NEGLIGIBLE = -700.0
"""PostgreSQL raises an error where the result of exp is below the smallest double."""
_MOST_COLUMNS = 1500
"""PostgreSQL allows 1664 columns in a subquery, SQLite 2000."""


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
    pmf = single_pmf(pmf, "the export to SQL", "score and fill rows outside of it by log_prob and impute, or ")
    if not isinstance(table, str):
        raise DataError(f"the name of a table must be text, not {type(table).__name__}")
    check_known("view", get_args(ViewKind), what)
    if exp is None:
        raise DataError('SQL needs sqlglot: pip install "twoway[sql]"')
    dialects = sorted(dialect.value for dialect in Dialects if dialect.value)
    check_known("dialect", dialects, dialect)
    if clash := [name for name in keep if name in pmf.schema or name == "log_prob"]:
        raise DataError(f"keep must name columns other than those of the view; it has {clash[0]!r} already")
    ending = "scored" if what == "score" else "imputed"
    query = _SqlLayers(pmf, keep, missing, dialect).build(table, what)
    created = exp.Create(kind="VIEW", this=_sql_table(f"{table}_{ending}" if view is None else view), expression=query)
    return created.sql(dialect=dialect, pretty=True) + ";\n"


class _SqlLayers:
    """The subqueries of a model; x0, x1, … are its variables, k0, … the columns to keep, e0, … its components."""

    def __init__(self, pmf: JointPMF, keep: Sequence[str], missing: AnyMissing, dialect: str) -> None:
        self.pmf, self.dialect = pmf, dialect
        self.missing = MissingLabels.of(missing)
        self.missing.check_columns(pmf.schema.names)
        self.kinds = [_sql_kind(variable) for variable in pmf.schema]
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
        read = exp.select(*(_sql_column(name).as_(short, quoted=True) for short, name in self.columns.items()))
        shares = {f"s{f}": self._log_share(f) for f in components} | {"unseen": self._n_unseen()}
        logs = self._over(read.from_(_sql_table(table)), shares)
        largest = self._over(logs, {"most": self._greatest(names)}, [*names, "unseen"])
        layer = self._over(largest, {f"e{f}": self._share(f) for f in components}, ["most", "unseen"])
        chosen = [_sql_column(short).as_(name, quoted=True) for short, name in self.columns.items()]
        if what == "score":
            chosen.append(self._score().as_("log_prob", quoted=True))
        else:
            layer = self._impute(layer)
        return exp.select(*chosen, copy=False).from_(self._fenced(layer), copy=False)

    def _over(self, inner: Any, new: dict[str, Any], passed: Iterable[str] = ()) -> Any:
        """Return a layer over another: new columns, and those that pass through."""
        columns = [_sql_column(name) for name in [*self.columns, *passed] if name not in new]
        columns += [expression.as_(name, quoted=True, copy=False) for name, expression in new.items()]
        return exp.select(*columns, copy=False).from_(self._fenced(inner), copy=False)

    def _fenced(self, inner: Any) -> Any:
        # These two would repeat an inner column's expression wherever it is used.
        fenced = inner.offset(0, copy=False) if self.dialect in ("postgres", "sqlite") else inner
        return fenced.subquery("t", copy=False)

    def _by_category(self, n: int, values: Iterable[Any], otherwise: Any) -> Any:
        """Return the value, of one for each category, for the category in the column of variable n."""
        labels = map(exp.convert, self.pmf.schema.variables[n].categories)
        return _sql_case(zip(labels, values, strict=True), otherwise, of=self._shown(n))

    def _shown(self, n: int) -> Any:
        """Return the column of variable n, as its labels are written: dates and enumerations as text."""
        column = _sql_column(f"x{n}")
        return exp.Cast(this=column, to=exp.DataType.build("text")) if self.kinds[n] == "text" else column

    def _is_missing(self, n: int) -> Any:
        is_null = exp.Is(this=_sql_column(f"x{n}"), expression=exp.Null())
        variable = self.pmf.schema.variables[n]
        known = self.missing.of_column(variable.name, variable)
        markers = [label for label in known if label_key(label)[0] == self.kinds[n] and variable.find(label) is None]
        if not markers:
            return is_null
        shown = exp.Trim(this=self._shown(n)) if self.kinds[n] == "text" else self._shown(n)
        # Not IN (…), which DuckDB turns into a join for each variable.
        is_marker = _sql_case([(exp.convert(label), exp.true()) for label in markers], exp.false(), of=shown)
        alike = [label for label in variable.categories if str(label).strip() in markers]  # categories all the same
        if alike:
            is_marker = _sql_case([(exp.convert(label), exp.false()) for label in alike], is_marker, of=self._shown(n))
        return exp.or_(is_null, is_marker)

    def _log_share(self, f: int) -> Any:
        """Return log of the weight of component f times the probabilities of what is observed."""
        columns = enumerate(factor[:, f] for factor in self.pmf.factors)
        logs = (self._by_category(n, map(_sql_log, column), _sql_number(0.0)) for n, column in columns)
        return _sql_sum([_sql_log(self.pmf.weights[f]), *logs])

    def _n_unseen(self) -> Any:
        count = exp.Literal.number
        is_unseen = [
            _sql_case([(self._is_missing(n), count(0))], self._by_category(n, map(count, [0] * size), count(1)))
            for n, size in enumerate(self.pmf.schema.sizes)
        ]
        return _sql_sum(is_unseen)

    def _greatest(self, names: Sequence[str]) -> Any:
        """Return the largest of some columns."""
        function, columns = "MAX" if self.dialect == "sqlite" else "GREATEST", list(map(_sql_column, names))
        # With one argument, SQLite's MAX would be an aggregate.
        return columns[0] if len(columns) == 1 else exp.Anonymous(this=function, expressions=columns)

    def _share(self, f: int) -> Any:
        below = exp.Sub(this=_sql_column(f"s{f}"), expression=_sql_column("most"))
        matters = exp.GT(this=below, expression=_sql_number(_NEGLIGIBLE))
        return _sql_case([(matters, exp.Exp(this=below.copy()))], _sql_number(0.0))

    def _score(self) -> Any:
        log_sum = exp.Ln(this=_sql_sum([_sql_column(f"e{f}") for f in range(self.pmf.rank)]))
        minus_infinity: Any = exp.Cast(this=exp.Literal.string("-Infinity"), to=exp.DataType.build("double"))
        if self.dialect == "sqlite":
            minus_infinity = exp.Neg(this=exp.Literal.number("9e999"))
        is_unseen = exp.GT(this=_sql_column("unseen"), expression=exp.Literal.number(0))
        score = exp.Add(this=_sql_column("most"), expression=log_sum)
        return _sql_case([(is_unseen, exp.Null()), (self._is_impossible(), minus_infinity)], score)

    def _is_impossible(self) -> Any:
        return exp.LT(this=_sql_column("most"), expression=_sql_number(_NEVER / 10))

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
            for name, row in zip(names, factor.tolist(), strict=True):
                terms = [exp.Mul(this=_sql_column(f"e{f}"), expression=_sql_number(p)) for f, p in enumerate(row)]
                values[name] = _sql_case([(self._is_missing(n), _sql_sum(terms))])
            labels = zip(map(_sql_column, names), map(exp.convert, variable.categories), strict=True)
            is_open = exp.and_(self._is_missing(n), exp.not_(self._is_impossible()))
            filled[f"x{n}"] = _sql_case([(is_open, _sql_case(labels, of=self._greatest(names)))], self._shown(n))
        return self._over(self._over(inner, values, passed), filled, passed)


def _sql_case(cases: Iterable[tuple[Any, Any]], default: Any = None, *, of: Any = None) -> Any:
    """Return the result of the first case that holds, or that equals ``of``."""
    return exp.Case(this=of, ifs=[exp.If(this=when, true=then) for when, then in cases], default=default)


def _sql_table(name: str) -> Any:
    schema, _, table = name.rpartition(".")
    return exp.table_(table, db=schema or None, quoted=True)


def _sql_column(name: str) -> Any:
    return exp.column(name, quoted=True)


def _sql_number(value: float) -> Any:
    """Return a literal that every database reads as exactly this double."""
    # Without an exponent, DuckDB and PostgreSQL would read a decimal number.
    text = exp.Literal.number(np.format_float_scientific(abs(value), unique=True))
    return exp.Cast(this=exp.Neg(this=text) if value < 0 else text, to=exp.DataType.build("double"))


def _sql_log(probability: np.float64) -> Any:
    return _sql_number(float(np.log(probability)) if probability > 0 else _NEVER)


def _sql_kind(variable: Variable) -> str:
    kinds = {label_key(label)[0] for label in variable.categories}
    if len(kinds) > 1:
        raise DataError(
            f"the categories of {variable.name!r} are of several types ({', '.join(sorted(kinds))}); a column of a "
            "database has one"
        )
    return kinds.pop()


def _sql_sum(terms: Sequence[Any]) -> Any:
    """Return a sum as a balanced tree, because parsers limit the depth."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    right = _sql_sum(terms[half:])
    return exp.Add(this=_sql_sum(terms[:half]), expression=exp.Paren(this=right) if len(terms) - half > 1 else right)
