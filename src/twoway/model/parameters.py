"""Checks of weights and factors: they are numbers, they fit the schema, they sum to one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from twoway.arrays import Floats, first_true
from twoway.category_labels import Label
from twoway.errors import DataError, check_whole_number
from twoway.model.mixture import MAX_CELLS
from twoway.schema import Schema
from twoway.text import brief

# How far sums may differ from one before they are an error.
_TOLERANCE = 1e-6


def parameter_numbers(given: ArrayLike, what: str) -> Floats:
    """Return a new array of floats; ``what`` is its name in the error."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be an array of numbers; got a {type(given).__name__}: {brief(given)}") from None


def stack_parameters(schema: Schema, weights: ArrayLike, factors: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
    """Return weights (rank,) and stacked factors (schema.n_categories, rank), checked and rescaled to sum to one."""
    if not isinstance(schema, Schema):
        got = type(schema).__name__
        raise DataError(f"the schema must be a Schema, not a {got}: JointPMF(weights, factors, schema)")
    checked = parameter_numbers(weights, "the weights")
    if checked.ndim != 1 or len(checked) == 0:
        raise DataError(f"the weights must be one number for each component; got the shape {checked.shape}")
    if not isinstance(factors, Sequence | np.ndarray):
        raise DataError(f"the factors must be a list of arrays, one for each variable, not a {type(factors).__name__}")
    if len(factors) != len(schema):
        raise DataError(f"the schema has {len(schema)} variables but there are {len(factors)} factors")
    check_parameter_columns("the weights", checked[:, np.newaxis], None, _TOLERANCE)
    stacked = []
    for variable, factor in zip(schema, factors, strict=True):
        array = parameter_numbers(factor, f"the factor of {variable.name!r}")
        if array.shape != (len(variable), len(checked)):
            raise DataError(
                f"the factor of {variable.name!r} must have the shape {(len(variable), len(checked))}, "
                f"categories by components; got {array.shape}"
            )
        check_parameter_columns(f"the factor of {variable.name!r}", array, variable.categories, _TOLERANCE)
        stacked.append(array / array.sum(axis=0))
    return checked / checked.sum(), np.vstack(stacked)


def exact_parameters(schema: Schema, joint: ArrayLike) -> tuple[Floats, Floats]:
    """Return weights (rank,) and stacked factors (schema.n_categories, rank) whose mixture is a joint.

    Given all variables but one, that one has a PMF of its own and the others are certain: a component for each cell
    of the others. Leaving out the largest variable makes them fewest (the paper's Theorem 1).
    """
    probabilities = parameter_numbers(joint, "the joint")
    if probabilities.shape != schema.sizes:
        raise DataError(
            f"the joint must have the shape {schema.sizes}, one axis per variable; got {probabilities.shape}"
        )
    if (wrong := first_true(~(np.isfinite(probabilities) & (probabilities >= 0)))) is not None:
        cell = ", ".join(f"{v.name!r} = {v.categories[code]!r}" for v, code in zip(schema, wrong, strict=True))
        raise DataError(f"probabilities must be finite and not negative; at {cell} it is {probabilities[wrong]!r}")
    total = float(probabilities.sum())
    if abs(total - 1) > _TOLERANCE:
        raise DataError(f"the probabilities of a joint must sum to one; they sum to {total!r}")
    largest = int(np.argmax(schema.sizes))
    columns = np.moveaxis(probabilities / total, largest, 0).reshape(schema.sizes[largest], -1)
    weights = columns.sum(axis=0)
    components = np.flatnonzero(weights)
    if components.size * schema.n_categories > MAX_CELLS:
        raise DataError(
            f"this joint needs {components.size:,} components of {schema.n_categories} categories each; "
            f"at most {MAX_CELLS:,} numbers are allowed: fit it instead, with a lower rank"
        )
    # As if the largest variable had one category.
    sizes = [1 if index == largest else size for index, size in enumerate(schema.sizes)]
    stacked = np.zeros((schema.n_categories, components.size))
    for offset, code in zip(schema.offsets[:-1], np.unravel_index(components, sizes), strict=True):
        stacked[offset + code, np.arange(components.size)] = 1.0
    stacked[schema.cells(largest)] = columns[:, components] / weights[components]
    return weights[components], stacked


def check_parameter_columns(what: str, columns: Floats, labels: Sequence[Label] | None, tolerance: float) -> None:
    """Raise where a column is not a PMF; ``labels`` are those of the rows of a factor, None for weights."""
    if (wrong := first_true(~(np.isfinite(columns) & (columns >= 0)))) is not None:
        row, component = wrong
        where = f"component {row}" if labels is None else f"category {labels[row]!r} in component {component}"
        raise DataError(f"{what} must be finite and not negative; {where} has {float(columns[row, component])!r}")
    sums = columns.sum(axis=0)
    if (wrong := first_true(abs(sums - 1) > tolerance)) is not None:
        where = "they sum" if labels is None else f"component {wrong[0]} sums"
        raise DataError(f"{what} must sum to one; {where} to {float(sums[wrong[0]])!r}")


def sufficient_rank(sizes: Schema | Sequence[int]) -> int:
    """Return the rank with which every joint distribution can be written (Theorem 1).

    It is the number of cells of all variables but the largest: min over k of Π_{n≠k} I_n.
    `JointPMF.from_joint` writes any small joint that way.

    Examples
    --------
    >>> sufficient_rank([2, 3, 4])
    6
    """
    counts = [check_whole_number("a size", size, 1) for size in (sizes.sizes if isinstance(sizes, Schema) else sizes)]
    if not counts:
        raise DataError("there must be at least one variable; got none")
    return math.prod(counts) // max(counts)


def normalized_factors(schema: Schema, stacked: Floats) -> Floats:
    """Return stacked factors (n_categories, rank) whose columns sum to one over each variable."""
    sums = np.add.reduceat(stacked, schema.offsets[:-1], axis=0)
    return np.asarray(stacked / np.repeat(sums, schema.sizes, axis=0))
