"""Published tables, counts or percentages, and how each becomes counts with a total and a weight.

Row or column percentages become joint shares with the overall shares of a variable, which the table itself, given
margins or other tables provide.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.data.flat_counts import NO_TOTAL, NOMINAL_TOTAL, Entry, are_flat_shares
from twoway.errors import DataError, check_known, unknown_name
from twoway.schema import Schema
from twoway.tables.crosstabs.cells import empty_cells_notes, parse_cell, rounded_cells_unit
from twoway.tables.crosstabs.sheet_labels import sheet_label_codes
from twoway.tables.crosstabs.sheet_sums import scale_of_sums
from twoway.tables.crosstabs.sheet_words import MarginRole
from twoway.tables.crosstabs.sheets import Key, Sheet, check_sheet_key, find_sheet_schema, read_sheets
from twoway.text import shortlist

TableKind: TypeAlias = Literal["counts", "joint", "row", "column"]


def read_crosstabs(
    tables: Any, kind: Any, schema: Schema | None, totals: Any, weights: Any, standard_errors: Any, margins: Any
) -> tuple[Schema, list[Entry], list[str]]:
    """Return the schema, the counts of each table, and notes; see `Tables.from_crosstabs`."""
    sheets = read_sheets(tables, schema)
    if not sheets:
        raise DataError("there is no table; at least one is needed")
    if schema is None:
        schema = find_sheet_schema(sheets)
    keys = [sheet.pair for sheet in sheets]
    totals = totals if isinstance(totals, Mapping | None) else dict.fromkeys(keys, totals)
    total_of = _crosstab_option("totals", totals, keys)
    weight_of = _crosstab_option("weights", weights, keys)
    error_of = _crosstab_option("standard_errors", standard_errors, keys)
    published = CrosstabDrafts(schema)
    counted: list[tuple[float, float, str]] = []
    for sheet, table_kind in zip(sheets, _crosstab_kinds(kind, keys), strict=True):
        pair = frozenset(sheet.pair)
        if (table := CrosstabDraft.of_sheet(sheet, table_kind, schema, published.notes)) is None:
            continue
        if pair in total_of:
            table.total = _crosstab_number(total_of[pair][1], f"the total of {table.name}")
        elif table_kind == "counts" and table.total is not None:
            # Rounding changes each cell by half a step at most.
            rounding = 0.5 * rounded_cells_unit(sheet.values, sheet.step) * sheet.values.size
            counted.append((float(table.values.sum()), rounding, table.name))
        if pair in weight_of and pair in error_of:
            raise DataError(f"table {table.name} has a weight and a standard error; give one of them")
        weight = weight_of[pair][1] if pair in weight_of else sheet.weight
        if weight is not None:
            table.weight = _crosstab_number(weight, f"the weight of {table.name}")
        if pair in error_of:
            table.weight = table.records_for_errors(*error_of[pair], schema)
        published.tables.append(table)
    published.find_joints(margins or {})
    if counted:
        (least, rounding, name), (greatest, other_rounding, other_name) = min(counted), max(counted)
        if greatest - least > rounding + other_rounding:
            published.notes.append(f"totals of tables differ: {least:,.0f} in {name}, {greatest:,.0f} in {other_name}")
    return schema, published.entries(), published.notes


def _crosstab_kinds(kind: TableKind | Mapping[Key, TableKind], keys: Sequence[Key]) -> list[TableKind]:
    """Return the kind of each table."""
    kind_of = kind if isinstance(kind, Mapping) else dict.fromkeys(keys, kind)
    check_known("table", keys, *kind_of, where=" for kind (row variable first)")
    check_known("kind of table", get_args(TableKind), *kind_of.values())
    if absent := [key for key in keys if key not in kind_of]:
        raise DataError(f"kind has no entry for the table {absent[0]!r}; each table needs one")
    return [kind_of[key] for key in keys]


def _crosstab_option(option: str, given: Any, keys: Sequence[Key]) -> dict[frozenset[str], tuple[Key, Any]]:
    """Return an option's key and value for each pair; the option may name a pair either way round."""
    if not isinstance(given, Mapping | None):
        raise DataError(f"{option} must be a mapping of (row variable, column variable) to numbers; got {given!r}")
    pairs = [frozenset(key) for key in keys]
    for key in given or {}:
        if frozenset(check_sheet_key(key)) not in pairs:
            raise unknown_name("table", key, keys, where=f" for {option}")
    return {frozenset(key): (key, value) for key, value in (given or {}).items()}


def _crosstab_number(value: Any, what: str) -> float:
    try:
        number = parse_cell(value).value
    except ValueError as problem:
        raise DataError(f"{what} must be a positive number; {value!r} {problem}") from None
    if number == 0:
        raise DataError(f"{what} must be a positive number; got {value!r}")
    return number


@dataclass
class CrosstabDraft:
    """A table on its way to counts; the rows of a conditional one are distributions given its first variable."""

    name: str
    positions: tuple[int, int]
    values: Floats
    """Counts, or shares: of the whole, or of each row where the joint is not known."""
    noise: float = 0.0
    """The standard deviation of the rounding error of a share of a row."""
    total: float | None = None
    weight: float | None = None
    shares: Floats | None = None
    """The overall distribution of the first variable, where the table itself gives it."""
    overall: Floats | None = None
    """The overall distribution of the second variable, where the table itself gives it."""
    joint: Floats | None = None

    @classmethod
    def of_sheet(cls, sheet: Sheet, kind: TableKind, schema: Schema, notes: list[str]) -> CrosstabDraft | None:
        """Return a table with its categories in schema order; None where it has no counts."""
        name = sheet.name
        printed = sheet.transposed() if kind == "column" else sheet
        sheet, absent = printed.arranged(schema, f"table {name}")
        if kind == "counts":
            cls._check_counts(printed)
        for variable, labels in absent.items():
            if kind != "counts":
                raise DataError(
                    f"table {name} lacks {shortlist(labels)} of {variable!r}; percentages must cover every category, "
                    f"with 0 for none: {shortlist(schema[variable].categories)}"
                )
            notes.append(f"{name} lacks {shortlist(labels)} of {variable!r}; counted as 0")
        if sheet.values.any():
            notes += empty_cells_notes(name, printed.variables, printed.categories, printed.values)
        positions = schema.index(sheet.variables[0]), schema.index(sheet.variables[1])
        if kind in ("row", "column"):
            return cls._of_conditional(sheet, positions)
        values, total = sheet.values, float(sheet.values.sum())
        unweighted = cls._n_people(sheet, "unweighted")
        if kind == "joint":
            cls._scale(sheet, values.sum()[None], values.size, ["all cells"])
            values, n_people = values / total, cls._n_people(sheet, "base") or unweighted
        elif total == 0:
            notes.append(f"{name} has no counts; left out")
            return None
        else:
            is_shares = are_flat_shares(values.ravel(), np.array([0, values.size]))[0]
            n_people = None if is_shares else total
        return cls(name, positions, values, total=n_people, weight=unweighted, joint=sheet.values / total)

    @staticmethod
    def _check_counts(sheet: Sheet) -> None:
        """Raise where counts are percentages or shares of rows or columns, or do not add up to their totals."""
        if sheet.is_percent:
            kinds = shortlist(get_args(TableKind))
            raise DataError(f"table {sheet.name} has percentages but its kind is 'counts'; the kinds are {kinds}")
        advice = "drop it if some categories are not shown, or list it in a schema if it is a category"
        sheet.check_totals(advice)
        if (sheet.values == np.rint(sheet.values)).all():
            return
        for axis, kind in ((1, "row"), (0, "column")):
            sums = sheet.values.sum(axis=axis)
            rounding = sheet.step * sheet.values.shape[axis] / 2
            for whole in (1.0, 100.0):
                if len(sums) > 1 and np.allclose(sums, whole, rtol=1e-9, atol=min(rounding, 0.02 * whole)):
                    raise DataError(
                        f"table {sheet.name}: each {kind} adds up to {whole:g}, so these are shares of {kind}s and not "
                        f"counts; give kind={kind!r}"
                    )

    @classmethod
    def _of_conditional(cls, sheet: Sheet, positions: tuple[int, int]) -> CrosstabDraft:
        sums = sheet.values.sum(axis=1)
        # A total of 100% at each row does not weigh the rows.
        beside, below = ([margin for margin in sheet.margins if margin.axes == (axis,)] for axis in (0, 1))
        bases = [base for base in beside if base.role != "total" or not np.allclose(base.values, sums, rtol=0.02)]
        # Shares rest on weighted bases; unweighted ones are the number of people asked.
        base = min(bases, key=lambda base: ("base", "total", "unweighted").index(base.role), default=None)
        is_empty = np.zeros(len(sums), dtype=bool) if base is None else (base.values == 0) & (sums == 0)
        scale = cls._scale(sheet, np.where(is_empty, np.nan, sums), sheet.values.shape[1], sheet.categories[0])
        values = sheet.values / np.where(sums > 0, sums, 1.0)[:, None]
        table = cls(sheet.name, positions, values, sheet.step / np.sqrt(12) / scale)
        table.total, table.weight = cls._n_people(sheet, "base", "unweighted"), cls._n_people(sheet, "unweighted")
        if base is not None:
            if base.values.sum() == 0:
                raise DataError(
                    f"table {sheet.name}: the bases {base.label!r} are all zero; at least one must be positive"
                )
            table.shares = base.values / base.values.sum()
            if table.total is None and not base.is_percent and base.values.sum() > 1.1 * scale:
                table.total = float(base.values.sum())
        for margin in below:
            if margin.role != "unweighted" and margin.values.sum() > 0:
                table.overall = margin.values / margin.values.sum()
        return table

    @staticmethod
    def _n_people(sheet: Sheet, *roles: MarginRole) -> float | None:
        """Return the number of people in bases of rows, or else of columns, of the first of some roles."""
        base = sheet.base((0,), *roles) or sheet.base((1,), *roles)
        return None if base is None else float(base.values.sum())

    @staticmethod
    def _scale(sheet: Sheet, sums: Floats, n_terms: int, places: Sequence[object]) -> float:
        """Return what shares add up to, 1 or 100; sums (NaN to ignore) farther off than by rounding are an error."""
        scale, tolerance = scale_of_sums(sums, n_terms, sheet.step, is_percent=sheet.is_percent)
        wrong = np.flatnonzero(np.abs(sums - scale) > tolerance)
        if wrong.size:
            place, got = places[wrong[0]], sums[wrong[0]]
            margins = shortlist(margin.label for margin in sheet.margins)
            hint = f" without {margins}, which a schema can list as categories" if margins and got < scale else ""
            raise DataError(
                f"table {sheet.name}: {place if place == 'all cells' else repr(place)} should add up to 1 or to 100, "
                f"within {tolerance / scale:.1%} for rounding; got {got:g}{hint}"
            )
        return scale

    def records_for_errors(self, key: Key, given: Any, schema: Schema) -> float:
        """Return the number of records for which published proportions have these standard errors."""
        p = self.values if self.joint is None else self.values / self.values.sum()
        what = f"the standard error of {self.name}"
        if hasattr(given, "columns"):
            sheet = Sheet.of_pair(key, given, schema)
            # The frame has a key of its own, which may be the other way round.
            sheet = sheet if schema.index(key[0]) == self.positions[0] else sheet.transposed()
            errors = sheet.arranged(schema, what)[0].values / (100.0 if sheet.is_percent else 1.0)
        else:
            errors = np.full_like(p, _crosstab_number(given, what) / (100.0 if "%" in str(given) else 1.0))
        variance = p * (1 - p)
        wrong = errors[(errors >= 1) | ((errors == 0) & (variance > 0))]
        if wrong.size:
            raise DataError(f"{what} must be between 0 and 1, because it is one of a proportion; got {wrong.max():g}")
        per_cell = np.divide(variance, errors**2, out=np.full_like(p, np.nan), where=errors > 0)
        # Each conditional distribution rests on records of its own.
        effective = float(np.nanmean(per_cell, axis=1).sum() if self.joint is None else np.nanmean(per_cell))
        if effective == 0:
            raise DataError(f"table {self.name} has no proportion between 0 and 1, so {what} is not about its records")
        return effective


@dataclass
class CrosstabDrafts:
    """All tables on their way to counts, and what a reader should know about how they got there."""

    schema: Schema
    tables: list[CrosstabDraft] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def nominal_total(self) -> float:
        """The number of records to assume for a table that does not give it."""
        known = [table.total for table in self.tables if table.total is not None]
        return float(statistics.median(known)) if known else NOMINAL_TOTAL

    def find_joints(self, margins: Mapping[str, Mapping[Label, Any]]) -> None:
        """Set the joint of every conditional table: rows times the overall shares of its first variable."""
        shares = {self.schema.index(name): self._read_shares(name, share_of) for name, share_of in margins.items()}
        while pending := [table for table in self.tables if table.joint is None]:
            # A round uses what the round before knew, so that the order of the tables does not matter.
            known = {**self._pooled_shares(), **shares}
            for table in pending:
                own = known.get(table.positions[0]) if table.shares is None else table.shares
                if own is not None:
                    table.values = table.joint = table.values * own[:, None]
            if any(table.joint is not None for table in pending):
                continue
            name = self.schema.names[pending[0].positions[0]]
            problem = DataError(
                f"table {pending[0].name} gives percentages for each {name!r}, but the overall shares of {name!r} are "
                f"not known; {self._how_to_give_shares(name)}"
            )
            for position in dict.fromkeys(table.positions[0] for table in pending):
                useful = [table for table in pending if table.positions[0] == position and table.overall is not None]
                try:
                    if useful:
                        shares[position] = self._solve_shares(useful, self.schema.names[position])
                except DataError as error:
                    # They may still follow from another variable's shares.
                    problem = error
            if not any(table.positions[0] in shares for table in pending):
                raise problem

    def _read_shares(self, name: str, share_of: Mapping[Label, Any]) -> Floats:
        """Return the distribution of a variable that is given as margins."""
        where = f"margins of {name!r}"
        sheet_label_codes(self.schema, name, list(share_of), where)  # all are categories, "Total" too
        numbers = [((label,), share) for label, share in share_of.items()]
        sheet = Sheet.of_numbers(where, (name,), numbers, parse_cell, self.schema)
        sheet, absent = sheet.arranged(self.schema, where)
        if absent:
            raise DataError(f"{where} lack {shortlist(absent[name])}; each category needs a share, even if it is 0")
        if sheet.values.sum() == 0:
            raise DataError(f"{where} are all zero; at least one must be positive")
        return np.asarray(sheet.values / sheet.values.sum())

    def _pooled_shares(self) -> dict[int, Floats]:
        """Return the distributions of the variables of tables whose joint is known, by their positions."""
        sums: dict[int, Any] = {}
        nominal = self.nominal_total
        for table in self.tables:
            if table.joint is not None:
                for axis, position in enumerate(table.positions):
                    counts = table.joint.sum(axis=1 - axis) * (table.total or nominal)
                    sums[position] = sums.get(position, 0.0) + counts
        return {position: counts / counts.sum() for position, counts in sums.items()}

    def _solve_shares(self, tables: Sequence[CrosstabDraft], name: str) -> Floats:
        """Return the shares of a variable that mix its conditional distributions into the overall ones."""
        from scipy.optimize import nnls

        mixed = np.concatenate([table.values.T for table in tables])
        overall = np.concatenate([table.overall for table in tables if table.overall is not None])
        noise = max(table.noise for table in tables)
        values = np.linalg.svd(mixed, compute_uv=False)
        rank = int(np.count_nonzero(values > max(noise * np.sqrt(len(mixed)), 1e-10)))
        shown = shortlist((table.name for table in tables), 3)
        if rank < mixed.shape[1]:
            raise DataError(
                f"the overall shares of {name!r} do not follow from the totals of {shown}: the distributions given its "
                f"{mixed.shape[1]} categories span only {rank} dimensions there; {self._how_to_give_shares(name)}"
            )
        # Shares add up to one: a row heavy enough to hold, light enough not to drown the others.
        heavy = 100.0
        solved = nnls(np.vstack([mixed, np.full((1, mixed.shape[1]), heavy)]), np.append(overall, heavy))[0]
        spread = float(noise * np.sqrt(2 * np.diag(np.linalg.inv(mixed.T @ mixed))).max())
        self.notes.append(
            f"the overall shares of {name!r} were solved from the totals of {shown}; rounding makes them uncertain by "
            f"about {spread:.2g}"
        )
        return np.asarray(solved / solved.sum())

    @staticmethod
    def _how_to_give_shares(name: str) -> str:
        return (
            f"give a row or column 'Base' of counts, a table of counts or joint shares that has {name!r}, or the "
            f"shares of {name!r} as margins"
        )

    def entries(self) -> list[Entry]:
        """Return the counts of the tables, with their positions and weights."""
        nominal = self.nominal_total
        entries: list[Entry] = []
        for table in self.tables:
            assert table.joint is not None
            total = table.total if table.total is not None else table.weight
            if total is None:
                total = nominal
                self.notes.append(f"{table.name} has {NO_TOTAL} {total:g} records")
            # Counts that were given stay what they are, to the last bit.
            counts = table.values if table.values.sum() == total else table.joint * total
            entries.append((table.positions, counts, total if table.weight is None else table.weight))
        return entries
