"""Blocks of records, as the kernels take them, and what every source of records has in common."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from twoway.arrays import Array, Floats, Ints
from twoway.data.weights import WeightTotals, is_unit_weight, record_people, record_weights, squared_weights
from twoway.schema import Schema

if TYPE_CHECKING:
    from twoway.data.reader import Reader
    from twoway.data.records import Records
    from twoway.data.scan import Scan

T = TypeVar("T")
PerBlock: TypeAlias = "Callable[[Block], T]"
"""Gives a sum for a block of records."""
Combine: TypeAlias = Callable[[T, T], T]
"""Adds two sums."""

RecordSource: TypeAlias = "Records | StoredRecords | FittedRecords"
"""What a solver knows of its records: their sizes, sums over blocks, and a sample."""

NO_NUMBERS = np.empty(0)
"""Weights and people where there are none, for kernels and files."""


class Block(NamedTuple):
    """Some records, as the kernels take them."""

    pointers: Ints
    """(n_records + 1,): record s owns ``cells[pointers[s]:pointers[s + 1]]``."""
    cells: Array
    """Observed cells in the schema's numbering, ascending within a record; the smallest unsigned type."""
    weights: Floats | None = None
    """(n_records,): what all people that a record stands for weigh together; None where every record weighs one."""
    people: Array | None = None
    """(n_records,): how many people a record stands for; None where each of them weighs one."""
    heads: Array | None = None
    """(n_records,): as in `Records`; None where they are the people."""

    @property
    def n_records(self) -> int:
        """The number of records."""
        return len(self.pointers) - 1

    @property
    def compressed(self) -> tuple[Ints, Array, Floats]:
        """The arrays that the E-step takes; weights are empty where every record weighs one."""
        return self.pointers, self.cells, NO_NUMBERS if self.weights is None else self.weights

    @property
    def n_people(self) -> Array:
        """How many people each record stands for, by head; those without weight are not counted."""
        if self.weights is None:
            return np.ones(self.n_records)
        people = next(array for array in (self.heads, self.people, self.weights) if array is not None)
        return np.where(self.weights > 0, people, 0.0)

    @property
    def squares(self) -> Floats:
        """The sum of the squared weights of each record's people, (n_records,)."""
        weights = record_weights(self)
        return weights if self.people is None else squared_weights(weights, self.people)

    def scaled(self, factor: float) -> Block:
        """Return the block with weights times a factor; where its people weighed one, they do so no longer."""
        if is_unit_weight(factor):
            return self
        return self._replace(weights=record_weights(self) * factor, people=record_people(self))


class Totals(NamedTuple):
    """The sizes of some records, as read and as fitted; these add."""

    n_records: int = 0
    n_observed: int = 0
    n_silent: int = 0
    weight_totals: WeightTotals = WeightTotals()
    n_fitted: int = 0
    n_fitted_observed: int = 0
    fitted_weights: WeightTotals = WeightTotals()
    """Of the records that have a say."""

    def __add__(self, other: Totals) -> Totals:  # type: ignore[override]
        return Totals(*map(operator.add, self, other))

    @classmethod
    def of_fitted(cls, records: Records) -> tuple[Records, Totals]:
        """Return the records that have a say in canonical order, and the sizes of all."""
        heard = records.with_say()
        fitted = heard.canonical()
        sizes = records.n_records, records.n_observed, records.n_silent, records.weight_totals
        return fitted, cls(*sizes, fitted.n_records, fitted.n_observed, heard.weight_totals)


class StoredRecords(ABC):
    """Records that stay where they are; what a pass over them shows is kept."""

    notes: Sequence[str] = ()
    set_to_missing: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    _reader: Reader
    schema: Schema
    _sizes: Scan | Totals
    """The sizes of all records, from any pass over them."""

    @property
    @abstractmethod
    def _prepared(self) -> tuple[RecordSource, Totals]:
        """The records that have a say, coded for a fit, and the sizes of all."""

    @property
    def number_columns(self) -> Mapping[str, str]:
        """The columns of counts and weights, if there are some."""
        return self._reader.number_columns

    @property
    def n_records(self) -> int:
        """The number of records, those that stand for several counted once."""
        return self._sizes.n_records

    @property
    def weight_totals(self) -> WeightTotals:
        """What the records' weights add up to."""
        return self._sizes.weight_totals

    @property
    def total_weight(self) -> float:
        """The sum of the records' weights."""
        return self.weight_totals.total

    @property
    def n_observed(self) -> int:
        """The number of observed cells."""
        return self._prepared[1].n_observed

    @property
    def n_silent(self) -> int:
        """The number of records that show nothing or weigh nothing."""
        return self._prepared[1].n_silent

    @abstractmethod
    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order.

        Where blocks are somewhere else, ``per_block`` and its result travel there and back.
        """

    def for_fit(self) -> RecordSource:
        """Return the records that have a say, coded once and kept: in memory, in a scratch file or on the workers.

        The order depends on the rows' as little as the source can help. Weights are scaled so that they add up to the
        effective number of records: whatever is made of these records does not depend on the scale of weights.
        """
        return self._prepared[0]

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records that have a say, with about so many observed cells, in memory."""
        return self.for_fit().sample(n_observed, seed=seed)


class FittedRecords(ABC):
    """Records of which each shows something and weighs something, in units of an effective record."""

    n_silent = 0
    notes: Sequence[str] = ()

    def __init__(self, schema: Schema, totals: Totals) -> None:
        self.schema, self.n_records, self.n_observed = schema, totals.n_fitted, totals.n_fitted_observed
        self.unit = totals.fitted_weights.unit
        self.weight_totals = totals.fitted_weights.scaled(1.0 / self.unit)
        self.total_weight = self.weight_totals.total

    @abstractmethod
    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

    @abstractmethod
    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records with about so many observed cells, in memory; all if there are fewer."""

    def for_fit(self) -> Self:
        """Return the records themselves."""
        return self
