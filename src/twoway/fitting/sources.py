"""Sources as evidence, one or several: records stay records, tables stay tables, contradictions are reported."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Floats, sums_by
from twoway.category_labels import label_key
from twoway.checks.significance import SIGNIFICANT, holm_corrected, homogeneity_p_value
from twoway.data.binning import needs_bins
from twoway.data.merging import merge_schemas
from twoway.data.records import Records
from twoway.data.stored_records import RecordSource
from twoway.errors import DataError, TwowayError, check_whole_number, errors_at, warn_caller
from twoway.schema import Schema, Variable
from twoway.solvers.evidence import Evidence
from twoway.tables.opening import open_source
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import shortlist

# Beyond so many categories, all pairs are too many to count only to see whether sources agree.
_MOST_CELLS = 3000
_SHOWN = 4
TABLES_AS_RECORDS = (
    "tables were fitted as records that show the variables of one table each, with each answer counted once; "
    "log-likelihood, AIC and BIC refer to these records"
)
"""The warning where tables and records are fitted together."""
CONTRADICTION = "sources contradict each other"
"""How the warning begins where they do."""
# So few records show little but chance.
_FEW_RECORDS = 10.0
# More dates or times than a month has days are hardly categories.
_MANY_DATES = 31
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")

Key = tuple[str, ...]


class United(NamedTuple):
    """Several sources as one."""

    source: RecordSource | Tables | PublishedTables
    warnings: tuple[str, ...]


class _Source(NamedTuple):
    name: str
    content: Records | Tables
    tables: Tables | None
    """Its pairs, where they could be counted."""


def is_several_sources(source: object) -> bool:
    """Return whether something is a list of sources, or a mapping that gives each a name.

    Examples
    --------
    >>> (
    ...     is_several_sources(["monday.csv", "tuesday.csv"]),
    ...     is_several_sources({"age": ["young", "old"], "vote": ["no", "yes"]}),
    ... )
    (True, False)
    """
    if isinstance(source, Mapping):
        return bool(source) and all(isinstance(name, str) and _is_one_source(value) for name, value in source.items())
    return isinstance(source, list | tuple)


def _is_one_source(given: object) -> bool:
    """Return whether something in a mapping can only be a source, not a column."""
    kinds = (Tables, Mapping, str, os.PathLike)
    is_frame = hasattr(given, "columns") or getattr(given, "ndim", 1) == 2
    return isinstance(given, kinds) or is_frame or hasattr(type(given), "map_reduce")


def unite_sources(sources: Sequence[Any] | Mapping[str, Any], threads: int | None = None) -> United:
    """Return several sources as one: tables where all are tables, otherwise records.

    Records with weights weigh as many as they are effective, whatever the scale of their weights.
    The variables are those of all, and so are the categories of each. Where only some sources are tables, their cells
    become records that show two variables, weighted so that a person's answer counts once, however many
    tables count it.
    """
    named = sources if isinstance(sources, Mapping) else {f"sources[{n}]": source for n, source in enumerate(sources)}
    if not named:
        raise DataError("the list of sources is empty; give at least one")
    opened = {}
    for name, given in named.items():
        try:
            opened[name] = open_source(given)
        except TwowayError as error:
            raise type(error)(f"{name}: {error}") from error
    if len(opened) == 1:
        return United(next(iter(opened.values())), ())
    warnings: list[str] = []
    counted = [_counted_source(name, source, threads, warnings) for name, source in opened.items()]
    schema = counted[0].content.schema
    for source in counted[1:]:
        with errors_at(f"{source.name} does not match the sources before it"):
            schema = merge_schemas(schema, source.content.schema)
    _check_sources_connected(counted)
    warnings += _source_contradictions(counted, schema)
    contents = [source.content for source in counted]
    tables = [content for content in contents if isinstance(content, Tables)]
    if len(tables) == len(contents) and len({table.order for table in tables}) == 1:
        return United(reduce(Tables.__add__, tables), tuple(warnings))
    if tables:
        warnings += [note for table in tables for note in table.notes]
        warnings.append(TABLES_AS_RECORDS)
    parts = [
        _cells_of_source(part) if isinstance(part, Tables) else _source_in_effective_records(part) for part in contents
    ]
    joined = Records.joined([_recoded_source(part, schema) for part in parts])
    gone: dict[str, Counter[str]] = {}
    for name, codes in (item for part in contents if isinstance(part, Records) for item in part.set_to_missing.items()):
        gone.setdefault(name, Counter()).update(codes)
    joined.set_to_missing = gone
    columns = contents[0].number_columns
    joined.number_columns = columns if all(part.number_columns == columns for part in contents) else {}
    return United(joined, tuple(warnings))


def _counted_source(name: str, source: RecordSource | Tables, threads: int | None, warnings: list[str]) -> _Source:
    """Return a source with its pairs; of records that are not in memory, these are all that is taken."""
    if isinstance(source, Tables):
        return _Source(name, source, source)
    if not isinstance(source, Records):
        warnings.append(f"{name} is not in memory, so its two-way counts were fitted instead of its records")
        counted = Tables.count(source, threads=threads)
        return _Source(name, counted, counted)
    small = len(source.schema) > 1 and source.schema.n_categories <= _MOST_CELLS
    return _Source(name, source, Tables.count(source, threads=threads) if small else None)


def _cells_of_source(tables: Tables) -> Records:
    """Return the cells of tables as records, weighted so that a person's answer counts once."""
    cells = tables.as_records()
    in_tables = len(np.unique(tables.sets))
    assert cells.weights is not None
    scaled = np.cumsum(cells.weights * (in_tables / max(tables.sets.size, 1)))
    # Whole numbers, off by less than one: cross-validation deals those out one by one, and leaves others whole.
    whole = np.diff(np.rint(scaled), prepend=0.0)
    kept = np.flatnonzero(whole)
    return cells.take(kept).reweighted(whole[kept])


def _source_in_effective_records(records: Records) -> Records:
    """Return records with weights that add up to the effective number of them: sources may have scales of their own."""
    return Records.from_block(records.schema, records.as_block().scaled(1.0 / records.weight_totals.unit))


def _recoded_source(records: Records, schema: Schema) -> Records:
    """Return records in the numbering of a schema that has all their variables and categories."""
    if records.schema == schema:
        return records
    cell_of = records.schema.cells_in(schema)
    first, last = int(records.pointers[0]), int(records.pointers[-1])
    pointers, cells = records.pointers - first, cell_of[records.cells[first:last]]
    if (np.diff(cell_of) < 0).any():
        record = np.repeat(np.arange(records.n_records), np.diff(pointers))
        cells = cells[np.lexsort((cells, record))]
    return records.with_cells(schema, pointers, cells.astype(np.min_scalar_type(schema.n_categories - 1)))


def _check_sources_connected(sources: Sequence[_Source]) -> None:
    """Raise where no chain of shared variables leads from some sources, or variables, to the others."""
    groups: list[set[str]] = []
    for source in sources:
        for linked in [source.content.schema.names] if source.tables is None else source.tables.components():
            touching = [group for group in groups if not group.isdisjoint(linked)]
            groups = [group for group in groups if group not in touching] + [set(linked).union(*touching)]
    if len(groups) > 1:
        shown = []
        for group in groups[:3]:
            names = ", ".join(source.name for source in sources if not group.isdisjoint(source.content.schema.names))
            shown.append(f"{shortlist(sorted(group), 4)} (in {names})")
        raise DataError(
            f"no source connects these variables: {'; '.join(shown)}; add one that shows variables of both, "
            "or fit them separately"
        )


def _source_contradictions(sources: Sequence[_Source], schema: Schema) -> list[str]:
    """Return a warning where what several sources show differs by more than chance, all comparisons considered."""
    samples: dict[Key, list[tuple[str, Floats]]] = {}
    for source in sources:
        for key, counts in _source_counts(source, schema):
            samples.setdefault(key, []).append((source.name, counts))
    shared = {key: several for key, several in samples.items() if len(several) > 1}
    if not shared:
        return []
    p_values = [homogeneity_p_value(np.array([counts for _, counts in several])) for several in shared.values()]
    corrected = holm_corrected(p_values)
    off = {key: p for key, p in zip(shared, corrected, strict=True) if p < SIGNIFICANT}
    if not off:
        return []
    distances = {key: _furthest_sources(shared[key]) for key in off}
    ranked = sorted(off, key=lambda key: (off[key], -distances[key][2]))
    left, right, distance = distances[ranked[0]]
    others = shortlist((" × ".join(key) for key in ranked[1:]), _SHOWN)
    return [
        f"{CONTRADICTION} by more than chance in {len(off)} of the {len(shared)} variables and tables "
        f"they share, most in {' × '.join(map(repr, ranked[0]))}, where {left} and {right} differ by {distance:.3g} in "
        f"total variation (p = {off[ranked[0]]:.2g}, corrected for the number)"
        + (f"; also in {others}" if others else "")
    ]


def _source_counts(source: _Source, schema: Schema) -> Iterable[tuple[Key, Floats]]:
    """Yield the effective counts of each variable, and of each table, with the names of the schema's variables."""
    content, tables = source.content, source.tables
    recoded = None if tables is None else tables.recoded(schema)
    if isinstance(content, Records):
        totals = _recoded_source(content, schema).cell_totals() / content.weight_totals.unit
        margins = {name: totals[schema.cells(index)] for index, name in enumerate(schema.names)}
    else:
        assert recoded is not None
        margins = {}
        for index in np.argsort(recoded.weights, kind="stable").tolist():  # the largest table comes last
            for axis, name in enumerate(recoded.names[index]):
                scale = recoded.weights[index] / recoded.totals[index]
                margins[name] = sums_by(recoded.array(index), [axis]) * scale
    yield from (((name,), counts) for name, counts in margins.items() if counts.any())
    if recoded is not None:
        scales = recoded.weights / recoded.totals
        yield from ((names, recoded.array(i).ravel() * scales[i]) for i, names in enumerate(recoded.names))


def _furthest_sources(samples: Sequence[tuple[str, Floats]]) -> tuple[str, str, float]:
    """Return the sample that differs most surely from the rest, another from which it does, and their distance."""
    counts = np.array([sample for _, sample in samples])
    rest = counts.sum(axis=0) - counts
    odd = min(range(len(samples)), key=lambda place: homogeneity_p_value(np.array([counts[place], rest[place]])))
    apart = [place for place in range(len(samples)) if place != odd]
    other = min(apart, key=lambda place: homogeneity_p_value(counts[[odd, place]]))
    shares = counts[[odd, other]] / counts[[odd, other]].sum(axis=1, keepdims=True)
    first, second = sorted((odd, other))
    return samples[first][0], samples[second][0], 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def evidence_of_source(source: Any, threads: int | None) -> tuple[Evidence, list[str], dict[str, Any]]:
    """Return a source as the solvers take it, warnings about it, and what else a report says of it."""
    threads = None if threads is None else check_whole_number("threads", threads, 1)
    from_sources: tuple[str, ...] = ()
    if is_several_sources(source):
        source, from_sources = source if isinstance(source, United) else unite_sources(source, threads)
    opened = open_source(source)
    if isinstance(opened, Tables):
        opened.check_connected()
        known: dict[str, Any] = {"columns": dict(opened.number_columns)}
        return Evidence(opened.schema, tables=opened, threads=threads), [*from_sources, *opened.notes], known
    records, n_observed = opened, opened.n_observed
    if n_observed == 0:
        raise DataError(f"none of the {records.n_records} records has an observed cell; there is nothing to fit")
    constant = [variable.name for variable in records.schema if len(variable) == 1]
    warnings = list(from_sources)
    if constant:
        warnings.append(f"variables with only one category, which have no effect: {shortlist(constant)}")
    continuous = [v.name for v in records.schema if _is_continuous_source(v)]
    if continuous:
        warnings.append(
            f"numbers that look continuous, each of which is a category now: {shortlist(continuous)}; "
            "put them into bins (--bins, or twoway.Discretizer)"
        )
        warn_caller(warnings[-1])
    moments = [v.name for v in records.schema if len(v) > _MANY_DATES and all(map(_DATE.match, map(str, v.categories)))]
    if moments:
        warnings.append(
            f"dates or times, each of which is a category now: {shortlist(moments)}; "
            "use parts of them, such as the year, the month or the hour"
        )
        warn_caller(warnings[-1])
    named = {*continuous, *moments}
    many = [v.name for v in records.schema if len(v) > max(50, 0.2 * records.n_records) and v.name not in named]
    if many:
        warnings.append(
            f"nearly as many categories as records: {shortlist(many)}; an identifier or a continuous column? "
            "leave it out, or put it into bins (--bins, or twoway.Discretizer)"
        )
    if records.n_silent:
        warnings.append(
            f"{records.n_silent} of {records.n_records} records have no observed cell or have weight 0, "
            "so they have no effect"
        )
    fitted = records.for_fit()
    warnings += fitted.notes
    if 0 < fitted.total_weight < _FEW_RECORDS:
        warnings.append(f"too few records, {fitted.total_weight:.3g}, to tell how variables depend on each other")
    if records.n_silent == records.n_records:
        raise DataError("every record with an observed cell has weight 0; there is nothing to fit")
    known = {"n_observed": n_observed, "set_to_missing": _codes_in_source(getattr(records, "set_to_missing", {}))}
    known["columns"] = dict(getattr(records, "number_columns", {}))  # not of records as solvers have them
    return Evidence(fitted.schema, records=fitted, threads=threads), warnings, known


def _codes_in_source(codes_by_column: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """Return a line of text for each variable that had codes for missing cells."""
    return tuple(
        f"{name} {', '.join(f'{code} {n:,}' for code, n in sorted(codes.items(), key=lambda item: -item[1]))}"
        for name, codes in codes_by_column.items()
    )


def _is_continuous_source(variable: Variable) -> bool:
    """Return whether a variable's categories are numbers, some of them with fractions, and too many for categories."""
    kinds = {label_key(label)[0] for label in variable.categories}
    has_fractions = any(isinstance(label, float) for label in variable.categories)
    return kinds == {"number"} and has_fractions and needs_bins(np.array(variable.values))
