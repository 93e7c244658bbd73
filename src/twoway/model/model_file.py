"""The file of a model: its schema, its report, its weights and factors or its hidden trees, and what was counted."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.model.counts import Counts
from twoway.model.hidden_tree import HiddenTree
from twoway.model.parameters import check_parameter_columns
from twoway.model.trees import Trees
from twoway.report import Report
from twoway.schema import Schema
from twoway.storage.container import checked_content, write_container

if TYPE_CHECKING:
    from twoway.model.pmf import JointPMF

# The sums of written probabilities differ from 1 by rounding only.
_TOLERANCE = 1e-9


def write_model(
    path: str | os.PathLike[str],
    pmf: JointPMF,
    more: Mapping[str, NDArray[Any]],
    *,
    counts: bool,
    described: Mapping[str, Any] | None = None,
) -> None:
    """Write a model whole or not at all, with its counts where these are wanted.

    ``more`` are arrays that go with it, such as replicates, and ``described`` is what else the header says, as JSON can
    hold it.
    """
    report, trees = pmf.report, pmf.trees
    header = {"schema": pmf.schema.to_dict(), "report": None if report is None else report.to_dict()}
    single = trees.single is not None
    arrays = {"weights": pmf.weights, "stacked": pmf.stacked} if single else _model_tree_arrays(trees)
    if counts and pmf.counts is not None:
        arrays |= pmf.counts.arrays()
    if report is not None and report.support is not None:
        arrays["support"] = report.support
    write_container(path, "model", {**header, **(described or {})}, {**arrays, **more})


def parse_model(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[Schema, Trees, Report | None, Counts | None]:
    """Return schema, hidden trees, report and counts from the contents of a model file.

    An invalid one raises `FileFormatError`. The arrays are as they were written: rescaled, they would not be saved to
    the same bytes again.
    """
    with checked_content(path, "model file"):
        schema = Schema.from_dict(header["schema"])
        report = None if header["report"] is None else Report.from_dict(header["report"])
        trees = _parse_model_trees(schema, _as_tree_arrays(schema, arrays))
        if report is not None and "support" in arrays:
            support = arrays["support"].astype(np.float64)
            shape = (1, len(trees.trees)) if len(trees.trees) > 1 else (trees.n_hidden + len(schema), trees.rank)
            if support.shape != shape or not (np.isfinite(support) & (support >= 0)).all():
                raise DataError("its array of support must hold nonnegative numbers, with a row for each variable")
            report = replace(report, support=support)
        counts = Counts.from_arrays(schema, arrays)
    return schema, trees, report, counts


def replicated_model_arrays(replicates: Sequence[Trees]) -> dict[str, NDArray[Any]]:
    """Return the parameters of models of the same form, such as replicates, as arrays that go with one of them."""
    if replicates[0].single is not None:
        weights, stacked = zip(*((trees.trees[0].weights, trees.stacked) for trees in replicates), strict=True)
        return {"replicate_weights": np.array(weights), "replicate_stacked": np.array(stacked)}
    arrays = {"replicate_numbers": np.array([_model_tree_arrays(trees)["tree_numbers"] for trees in replicates])}
    shares = np.array([trees.shares for trees in replicates])
    return arrays | ({"replicate_shares": shares} if shares.shape[1] > 1 else {})


def count_replicates(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return the number of replicates in a model file, which has their center in front of them."""
    stored = arrays.get("replicate_numbers", arrays.get("replicate_weights", np.empty(0)))
    return max(len(stored) - 1, 0)


def parse_replicated_models(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> list[Trees]:
    """Return the hidden trees of the replicates in a model file, none where it has none."""
    if "replicate_numbers" in arrays:
        rows = arrays["replicate_numbers"]
    elif "replicate_weights" in arrays:
        weights, stacked = arrays["replicate_weights"], arrays["replicate_stacked"]
        rows = np.hstack([weights, stacked.reshape(len(weights), -1)])
    else:
        return []
    if rows.ndim != 2 or len(rows) < 2:
        raise DataError(f"there must be at least two; their array has the shape {rows.shape}")
    form = _as_tree_arrays(schema, arrays)
    parts = zip(rows, arrays.get("replicate_shares", np.ones((len(rows), 1))), strict=True)
    return [_parse_model_trees(schema, {**form, "tree_numbers": row, "tree_shares": own}) for row, own in parts]


def _model_tree_arrays(trees: Trees) -> dict[str, NDArray[Any]]:
    """Return the arrays of trees, those of one tree behind those of the other."""
    return {
        "tree_shares": trees.shares,
        "tree_sizes": np.array([tree.n_hidden for tree in trees.trees]),
        "tree_parents": np.array([parent for tree in trees.trees for parent in tree.parents]),
        "tree_states": np.array([states for tree in trees.trees for states in tree.n_states]),
        "tree_homes": np.array([tree.homes for tree in trees.trees]),
        "tree_numbers": np.concatenate([matrix.ravel() for matrix in trees.matrices[1:]]),
    }


def _as_tree_arrays(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a file; those of a model with one hidden variable as if that were a tree."""
    if "tree_shares" in arrays:
        return arrays
    weights, stacked = arrays["weights"], arrays["stacked"]
    if weights.dtype != np.float64 or stacked.dtype != np.float64:
        raise DataError(f"its arrays are of {weights.dtype} and {stacked.dtype}, not float64")
    if weights.ndim != 1 or len(weights) == 0 or stacked.shape != (schema.n_categories, len(weights)):
        raise DataError(f"its arrays have the shapes {weights.shape} and {stacked.shape}")
    form = {"sizes": [1], "parents": [-1], "states": [len(weights)], "homes": [[0] * len(schema)]}
    numbers = np.concatenate([weights, stacked.ravel()])
    return {"tree_shares": np.ones(1), "tree_numbers": numbers} | {f"tree_{k}": np.array(v) for k, v in form.items()}


def _parse_model_trees(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Trees:
    """Return the trees in the arrays of a file, or raise where they are invalid."""
    shares, numbers = arrays["tree_shares"], arrays["tree_numbers"]
    if shares.dtype != np.float64 or numbers.dtype != np.float64:
        raise DataError(f"its arrays are of {shares.dtype} and {numbers.dtype}, not float64")
    sizes, parents, states, homes = (arrays[f"tree_{name}"] for name in ("sizes", "parents", "states", "homes"))
    for integers in (sizes, parents, states, homes):
        if integers.dtype.kind != "i":
            raise DataError(f"its hidden variables are numbered by {integers.dtype}, not by integers")
    n_trees, given = shares.size, (shares.shape, numbers.shape, sizes.shape, homes.shape)
    if given != ((n_trees,), (numbers.size,), (n_trees,), (n_trees, len(schema))) or (sizes < 1).any():
        raise DataError(f"its arrays have the shapes {', '.join(map(str, given))}")
    if parents.shape != (sum(sizes.tolist()),) or states.shape != parents.shape or (states < 1).any():
        raise DataError(f"its arrays have the shapes {parents.shape} and {states.shape}")
    check_parameter_columns("the shares of trees", shares[:, None], None, _TOLERANCE)
    trees, first, place = [], 0, 0
    for number, size in enumerate(sizes.tolist()):
        above, n_states = parents[first : first + size].tolist(), states[first : first + size].tolist()
        first += size
        is_ordered = above[0] == -1 and all(0 <= parent < child for child, parent in enumerate(above[1:], start=1))
        if not is_ordered or not ((homes[number] >= 0) & (homes[number] < size)).all():
            raise DataError("its hidden variables are not a tree")
        shapes = [(n_states[0], 1)]
        shapes += [(n_states[child], n_states[parent]) for child, parent in enumerate(above[1:], start=1)]
        shapes += [(len(v), n_states[home]) for v, home in zip(schema, homes[number].tolist(), strict=True)]
        names = ["the weights", *["a transition"] * (size - 1), *(f"the factor of {v.name!r}" for v in schema)]
        labels = [None, *map(range, n_states[1:]), *(variable.categories for variable in schema)]
        matrices = []
        for name, shape, of_rows in zip(names, shapes, labels, strict=True):
            matrix = numbers[place : place + math.prod(shape)].reshape(shape)
            check_parameter_columns(name, matrix, of_rows, _TOLERANCE)
            matrices.append(matrix)
            place += matrix.size
        weights, transitions, factors = matrices[0][:, 0], matrices[1:size], matrices[size:]
        trees.append(HiddenTree(tuple(above), tuple(homes[number].tolist()), weights, (*transitions,), (*factors,)))
    if place != len(numbers):
        raise DataError(f"its trees need {place} numbers, and there are {len(numbers)}")
    return Trees(shares, tuple(trees))
