"""``population``: from a model and published tables to whole persons."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.errors import DataError, check_whole_number
from twoway.fitting.fit import fit
from twoway.model.events import Event, Names
from twoway.model.pmf import JointPMF
from twoway.report import Monitor, StopReason
from twoway.schema import Schema
from twoway.solvers.loop import Watch
from twoway.synthesis.exact import settle_exact
from twoway.synthesis.people import Population, PopulationReport, TableDifference
from twoway.synthesis.persons import Rule, check_rules, draw_persons, parse_rules, published_rules
from twoway.synthesis.raking import Cells, rake_weights
from twoway.synthesis.rounding import round_weights
from twoway.synthesis.targets import Target, published_targets, table_targets
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables

_MOST_PERSONS = 10**8
# Tables cannot all hold if a cell is off by more than this share of all persons before anything is rounded.
_CONTRADICTING = 1e-3


def population(
    source: Any,
    n: int,
    *,
    tables: Tables | PublishedTables | None = None,
    exact: Iterable[Names] = (),
    impossible: Sequence[Event] = (),
    seed: int = 0,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Population:
    """Return n whole persons whose tables agree with published ones.

    Persons are drawn from the model, and weighted so that their tables have the published numbers (raking). Weights are
    then rounded to whole persons so that the tables keep their sums. In cells where a table has nobody there is nobody.

    Parameters
    ----------
    source
        A model, or anything that `fit` takes, which is then fitted with default options: mostly `Tables` or
        `PublishedTables`, whose rules and exact margins hold, too.
    n
        The number of persons, up to 10⁸. Tables are scaled to it.
    tables
        The tables to agree with; by default the source, or the two-way tables that a model keeps of its own.
    exact
        Margins that must hold exactly: a name, or several for a margin of several variables, each. Where a number is
        not whole when scaled to ``n``, it is rounded up or down. Margins that contradict each other are an error.
    impossible
        Combinations that no person has: ``[{"age": "0-14", "marital": {"married", "widowed"}}]``.
    seed
        The same seed gives the same persons.
    threads
        For the fit, where there is one; all cores by default.
    monitor
        True shows a progress bar; a function gets each `Progress`.

    Returns
    -------
    Population
        ``population.report`` says how far each table is off, and names those that contradict others.

    Examples
    --------
    >>> import pandas as pd
    >>> vote = pd.DataFrame({"no": [301, 402], "yes": [199, 98]}, index=["young", "old"])
    >>> trust = pd.DataFrame({"low": [120, 380], "high": [380, 120]}, index=["young", "old"])
    >>> pmf = fit(Tables.from_crosstabs({("age", "vote"): vote, ("age", "trust"): trust}), rank=2)
    >>> people = population(pmf, 1000, exact=[("age", "vote")])
    >>> people.to_frame().value_counts(["age", "vote"]).to_dict()
    {('old', 'no'): 402, ('young', 'no'): 301, ('young', 'yes'): 199, ('old', 'yes'): 98}
    """
    began = time.monotonic()
    n = check_whole_number("n, the number of persons,", n, 1, _MOST_PERSONS)
    seed = check_whole_number("seed", seed, 0)
    margins: list[Names] = [exact] if isinstance(exact, str) else [*exact]
    if isinstance(source, PublishedTables):
        # The model itself is then fitted to them.
        source = source.subject_to(impossible=impossible, exact=margins)
        margins, impossible = [], []
    with Watch.showing(monitor) as watch:
        pmf = _model_to_draw(source, seed, threads, watch)
        targets, known_rules = _all_to_meet(source, pmf, tables, n, margins)
        rules = parse_rules(pmf.schema, impossible)
        check_rules(pmf.schema, rules, impossible, targets)
        rules += known_rules
        rng = np.random.default_rng([seed, 0])
        watch.counting("drawing", 1)(0)
        persons = draw_persons(pmf, targets, rules, n, rng)
        cells = Cells.of(targets, persons.codes)
        weights = rake_weights(cells, persons.draws, targets, n, watch)
        cells = cells.settled(weights)
        counts = round_weights(cells, weights, targets, n, rng, watch)
        counts = settle_exact(pmf.schema, targets, cells, weights, counts, rng)
    report = _report(pmf.schema, targets, cells, weights, counts, began)
    kept = counts > 0
    return Population(pmf.schema, persons.codes[:, kept], counts[kept], report, pmf.library, seed=seed)


def _model_to_draw(source: Any, seed: int, threads: int | None, watch: Watch) -> JointPMF:
    """Return the model that was given, or that of the records or tables that were."""
    model = getattr(source, "pmf", source)  # of a Bootstrap
    if isinstance(model, JointPMF):
        return model
    pmf = fit(source, seed=seed, threads=threads, monitor=watch.show)
    if pmf.report is not None and pmf.report.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt  # of a model that is half fitted nobody wants a population
    return pmf


def _all_to_meet(
    source: Any, pmf: JointPMF, tables: Tables | PublishedTables | None, n: int, exact: list[Names]
) -> tuple[list[Target], list[Rule]]:
    """Return what the population must agree with, and the combinations that tables say nobody has."""
    if tables is None and isinstance(source, Tables | PublishedTables):
        tables = source
    if tables is None and pmf.counts is not None:
        tables = pmf.counts.published
    if isinstance(tables, PublishedTables):
        if difference := pmf.schema.difference(tables.schema):
            raise DataError(f"the tables must have the same variables and categories as the model: {difference}")
        return published_targets(tables, n, [*tables.exact, *exact]), published_rules(tables)
    return table_targets(_tables_to_meet(pmf, tables), n, exact), []


def _tables_to_meet(pmf: JointPMF, tables: Tables | None) -> Tables:
    """Return the tables that the population must agree with, coded as the model is."""
    if tables is None:
        if pmf.counts is None:
            raise DataError(
                "this model does not keep the tables that it was fitted to; give them as tables=…, or use sample, "
                "which draws records that agree with the model alone"
            )
        return pmf.counts.tables
    for variable in tables.schema:
        of_model = pmf.schema[variable.name]
        for label in variable.categories:
            of_model.code(label)
    return tables.recoded(pmf.schema)


def _report(
    schema: Schema, targets: Sequence[Target], cells: Cells, weights: Floats, counts: Ints, began: float
) -> PopulationReport:
    n, sums = int(counts.sum()), cells.sums(counts)
    off, places = cells.worst(sums)
    tables = [
        _difference(schema, target, int(cell), int(start), cells, sums, n)
        for target, start, cell in zip(targets, cells.starts, places, strict=False)
    ]
    # Already before rounding, and still after it: that of few persons may be off by more, and by less.
    is_off = (cells.worst(cells.sums(weights))[0] > _CONTRADICTING * n) & (off > max(_CONTRADICTING * n, 1.0))
    warnings = []
    if is_off.any():
        worst = tables[int(np.where(is_off, off, 0.0).argmax())]
        warnings.append(
            f"the tables contradict each other, or the model lacks persons that they need: {np.count_nonzero(is_off)} "
            f"of {len(targets)} are off by more than {_CONTRADICTING:.1%} of all persons, the best compromise found; "
            f"worst {worst}"
        )
    exact = (tuple(schema.names[place] for place in target.variables) for target in targets if target.is_exact)
    ordered = tuple(sorted(tables, key=lambda table: -table.off))
    n_different = int(np.count_nonzero(counts))
    return PopulationReport(n, n_different, ordered, tuple(exact), tuple(warnings), time.monotonic() - began)


def _difference(
    schema: Schema, target: Target, cell: int, start: int, cells: Cells, sums: Floats, n: int
) -> TableDifference:
    """Return how far a cell of a target is off, whose first cell is at ``start`` among all."""
    variables = [schema.variables[position] for position in target.variables]
    codes = [np.unique(own).tolist() for own in target.combinations(cell).T]
    labels = tuple(
        own.categories[some[0]] if len(some) == 1 else " or ".join(str(own.categories[code]) for code in some)
        for own, some in zip(variables, codes, strict=True)
    )
    persons = round(float(sums[start + cell]))
    published = float(np.clip(persons, cells.low[start + cell], cells.high[start + cell]))
    names = tuple(variable.name for variable in variables)
    return TableDifference(names, labels, published, persons, abs(persons - published) / n, target.is_exact)
