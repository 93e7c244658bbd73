"""Kinds of persons that a population can consist of, drawn from a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Bools, Floats
from twoway.data.coding import compressed_codes
from twoway.data.records import Records
from twoway.errors import DataError
from twoway.model.events import Event, describe_event, parse_event
from twoway.model.imputation import imputed_codes
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.synthesis.targets import Codes, Target
from twoway.tables.published.rules import Rule, contradicted_cell, listed_rules

# Draws from the model: as many as persons, within these limits; and in all tables together, for the memory they take.
_FEWEST_DRAWS, _MOST_DRAWS = 200_000, 2_000_000
_MOST_CELLS = 6 * 10**7
# A cell with persons has at least this number of draws, or its share of all draws: with fewer different ones, its
# number could be reached only at the cost of other tables.
_LEAST_PER_CELL = 30


@dataclass(frozen=True, eq=False)
class Persons:
    """Different persons, each with the number of draws that showed it."""

    codes: Codes
    draws: Floats
    """How many draws each stands for, shape (n_persons,)."""

    @classmethod
    def merged(cls, schema: Schema, codes: Codes, draws: Floats) -> Persons:
        """Return the different ones of some persons, in an order that does not depend on theirs."""
        if math.prod(schema.sizes) < 2**62:
            keys = np.zeros(codes.shape[1], dtype=np.int64)
            for row, size in zip(codes, schema.sizes, strict=True):
                keys = keys * size + row
            _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        else:
            _, first, place = np.unique(codes, axis=1, return_index=True, return_inverse=True)
        return cls(np.ascontiguousarray(codes[:, first]), np.bincount(place.ravel(), draws).astype(np.float64))


def parse_person_rules(schema: Schema, impossible: Iterable[Event], targets: Sequence[Target]) -> list[Rule]:
    """Return rules about combinations of categories that no person has; raise where a table has persons with one."""
    rules: list[Rule] = []
    for event in listed_rules(impossible):
        rule = {position: frozenset(codes.tolist()) for position, codes in parse_event(schema, event).items()}
        if not rule:
            raise DataError("an impossible combination names no category, so that nobody would be possible")
        for target in targets:
            if (cell := contradicted_cell(rule, target.variables, target.cell_of, target.low)) is not None:
                raise DataError(
                    f"the rule {describe_event(event)} contradicts the table {target.name(schema)}, which has "
                    f"{target.low[cell]:,.1f} persons with {target.describe(schema, cell)}"
                )
        rules.append(rule)
    return rules


def draw_persons(
    pmf: JointPMF, targets: Sequence[Target], rules: Sequence[Rule], n: int, rng: np.random.Generator
) -> Persons:
    """Return different persons drawn from a model, some in every cell that has persons, and none that is excluded."""
    n_draws = max(min(max(n, _FEWEST_DRAWS), _MOST_DRAWS, _MOST_CELLS // max(len(targets), 1)), 1)
    dtype = np.min_scalar_type(max(pmf.schema.sizes))
    codes = np.stack([column.astype(dtype) for column in pmf.trees.draw(n_draws, rng)])
    persons = Persons.merged(pmf.schema, codes, np.ones(n_draws))
    is_possible = ~_excluded_persons(persons.codes, targets, rules)
    persons = Persons(np.ascontiguousarray(persons.codes[:, is_possible]), persons.draws[is_possible])
    more = _draw_missing_persons(pmf, targets, rules, persons, n, rng).astype(dtype)
    if more.shape[1]:
        both = np.concatenate([persons.codes, more], axis=1)
        persons = Persons.merged(pmf.schema, both, np.concatenate([persons.draws, np.ones(more.shape[1])]))
    if not persons.draws.size:
        raise DataError("no person is possible under the model, the tables and the rules together")
    return persons


def _excluded_persons(codes: Codes, targets: Sequence[Target], rules: Sequence[Rule]) -> Bools:
    """Return which persons are excluded, by a rule or because a table has nobody in their cell; (n_persons,)."""
    excluded = np.zeros(codes.shape[1], dtype=bool)
    for rule in rules:
        excluded |= np.all([np.isin(codes[position], [*categories]) for position, categories in rule.items()], axis=0)
    for target in targets:
        empty = np.append(target.high <= 0, False)  # -1, outside of the table, finds the last
        excluded |= empty[target.cells(codes)]
    return excluded


def _draw_missing_persons(
    pmf: JointPMF, targets: Sequence[Target], rules: Sequence[Rule], persons: Persons, n: int, rng: np.random.Generator
) -> Codes:
    """Return more persons for cells that have too few, drawn given that they are in them; (n_variables, n_persons).

    Where the model has nobody in a cell, the other variables are drawn as if nothing were known.
    """
    missing, per_person = [], max(persons.draws.sum() / n, 1.0)
    for target in targets:
        drawn = np.bincount(target.cells(persons.codes) + 1, persons.draws, len(target.low) + 1)[1:]
        least = np.minimum(np.ceil(target.low * per_person), _LEAST_PER_CELL)
        for cell in np.flatnonzero((target.low > 0) & (drawn < least)).tolist():
            options = target.combinations(cell)
            codes = np.full((len(pmf.schema), int(least[cell] - drawn[cell])), -1, dtype=np.int64)
            codes[list(target.variables)] = options[rng.integers(len(options), size=codes.shape[1])].T
            missing.append(codes)
    if not missing:
        return np.zeros((len(pmf.schema), 0), dtype=np.int64)
    codes = np.concatenate(missing, axis=1)
    records = Records.from_cells(pmf.schema, *compressed_codes(codes.T, pmf.schema.offsets, pmf.schema))
    fills = imputed_codes(pmf, records, range(len(codes)), "sample", int(rng.integers(2**32)), warn=False)
    for name, (rows, values) in fills.items():
        codes[pmf.schema.index(name), rows] = values
    codes = np.where(codes < 0, np.stack(pmf.trees.draw(codes.shape[1], rng)), codes)
    return codes[:, ~_excluded_persons(codes, targets, rules)]
