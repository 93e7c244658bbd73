"""What belongs into the missing cells of records, given the observed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.category_labels import label_array
from twoway.data import frames
from twoway.data.frames import Fill
from twoway.data.records import Records
from twoway.errors import check_known, check_whole_number, warn_caller
from twoway.model.mixture import draw_mixture_codes
from twoway.model.posterior import Posterior
from twoway.model.records import records_for_model
from twoway.schema import Schema
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.model.pmf import JointPMF

How: TypeAlias = Literal["mode", "mean", "sample"]

# A block's cells by its categories are worked off in pieces of about this many numbers.
_CHUNK = 2**20


def imputed_frames(
    frame: Any, schema: Schema, make_fills: Callable[[Records, list[int]], Iterable[Mapping[str, Fill]]]
) -> Iterator[Any]:
    """Yield completed copies of a frame, one for each time that its records are filled.

    Parameters
    ----------
    frame
        A pandas, polars or pyarrow frame, or a 2-D array of the variables in order.
    schema
        The variables by which it is read.
    make_fills
        From its records and the positions of the variables that have a column to what `imputed_codes` returns.
    """
    columns = frames.frame_columns(frame := frames.frame_in_memory(frame), schema.names)
    column_of = schema.columns_among(columns)
    for codes in make_fills(records_for_model(schema, frame), schema.indices(list(column_of))):
        yield frames.fill_frame(frame, imputed_values(frame, schema, codes, column_of), columns)


def imputed_codes(
    pmf: JointPMF, records: Records, indices: Sequence[int], how: How, seed: int | Sequence[int], *, warn: bool = True
) -> dict[str, Fill]:
    """Return the missing rows of some variables, and a category's code or an expected value for each.

    Nothing is known about the missing cells of a record that is impossible under the model: they are left out.

    Parameters
    ----------
    pmf, records
        The model and the records, which are read a block at a time.
    indices
        The positions of the variables to fill.
    how
        "mode", "mean" or "sample".
    seed
        The seed of the draws of "sample".
    warn
        Whether to warn of impossible records.
    """
    check_known("way to impute", get_args(How), how)
    schema = records.schema
    seeds = [check_whole_number("seed", number, 0) for number in (seed if isinstance(seed, Sequence) else [seed])]
    rng = np.random.default_rng(seeds)
    parts: dict[int, list[Fill]] = {index: [] for index in indices}
    impossible: list[NDArray[np.int64]] = []
    for first, codes, posterior in _blocks_to_impute(pmf, records):
        missing, is_impossible = codes < 0, posterior.is_impossible
        impossible.append(np.flatnonzero(is_impossible & missing[:, indices].any(axis=1)) + first)
        missing[is_impossible] = False
        components = posterior.draw(codes, rng) if how == "sample" else None
        for index in indices:
            holes = np.flatnonzero(missing[:, index])
            if len(holes) == 0:
                continue
            values: NDArray[Any]
            if components is not None:
                values = draw_mixture_codes(pmf.factors[index], components(index)[holes], rng)
            elif how == "mean" and (numbers := schema.variables[index].values) is not None:
                values = posterior.memberships(index)[holes] @ (pmf.factors[index].T @ np.array(numbers))
            else:
                values = _imputed_modes(posterior.memberships(index), holes, pmf.factors[index])
            parts[index].append((holes + first, values))
    if warn:
        warn_of_impossible(np.concatenate(impossible) if impossible else np.empty(0, dtype=np.int64))
    filled = {schema.names[index]: zip(*some, strict=True) for index, some in parts.items() if some}
    return {name: (np.concatenate(rows), np.concatenate(values)) for name, (rows, values) in filled.items()}


def imputed_values(
    frame: Any,
    schema: Schema,
    codes: Mapping[str, Fill],
    column_of: Mapping[str, str],
    numbers: Callable[[str, NDArray[Any]], Floats] | None = None,
) -> dict[str, Fill]:
    """Return what fills the columns of a frame: labels or expected values, and numbers where numbers are in bins.

    Parameters
    ----------
    frame
        Whose columns are to be filled.
    schema, codes
        The variables, and what `imputed_codes` returned.
    column_of
        The column of each variable.
    numbers
        From the name of a variable and bins, by code, to numbers; the means of the bins, rounded in a column of whole
        numbers, by default.
    """
    values_of = {}
    for name, (rows, values) in codes.items():
        variable, column = schema[name], column_of[name]
        kind = frames.frame_number_kind(frame, column)
        is_code = values.dtype.kind in "iu"
        if is_code and numbers is not None and variable.edges is not None:
            values, is_code = numbers(name, values), False
        elif is_code and kind is not None and variable.edges is not None and variable.values is not None:
            means = np.array(variable.values)[values]
            values, is_code = np.rint(means).astype(np.int64) if kind == "integer" else means, False
        if is_code:
            labels = dict(zip(variable.categories, variable.categories, strict=True))
            if kind is not None:  # a column of codes is filled with codes
                labels |= {label: code for code, label in reversed(variable.codes) if not isinstance(code, str)}
            values = label_array(list(labels.values()))[values]
        elif kind == "single":  # a mean or a draw is as good with fewer digits
            values = values.astype(np.float32)
        values_of[column] = rows, values
    return values_of


def impute_proba_frame(pmf: JointPMF, records: Records, indices: Sequence[int], library: str) -> Any:
    """Return the frame of `JointPMF.impute_proba`.

    Examples
    --------
    >>> import twoway as tw
    >>> schema = tw.Schema((tw.Variable("age", ("young", "old")), tw.Variable("vote", ("no", "yes"))))
    >>> pmf = tw.JointPMF([0.5, 0.5], [[[1, 0.2], [0, 0.8]], [[0.9, 0.4], [0.1, 0.6]]], schema)
    >>> pmf.impute_proba([{"age": "old", "vote": None}]).round(6)
       record variable category  probability
    0       0     vote       no          0.4
    1       0     vote      yes          0.6
    """
    rows, variables, codes, shares = impute_probabilities(pmf, records, indices)
    labels = np.array([label for v in pmf.schema for label in v.categories], dtype=object)
    categories = labels[pmf.schema.offsets[variables] + codes]
    if library != "pandas":
        categories = np.array([str(label) for label in categories], dtype=object)
    names = label_array(pmf.schema.names)[variables]
    columns = {"record": rows, "variable": names, "category": categories, "probability": shares}
    return frames.make_frame(columns, library)


def impute_probabilities(
    pmf: JointPMF, records: Records, indices: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return what could be in the missing cells of some variables: four arrays with an entry for each category.

    They are the record, the position of the variable, the category's code and its probability given the record, in the
    order of the records. Probabilities are NaN where a record is impossible under the model, with a warning.
    """
    parts = [(np.empty(0, dtype=np.int64),) * 3 + (np.empty(0),)]
    for first, block_codes, posterior in _blocks_to_impute(pmf, records):
        for index in indices:
            holes = np.flatnonzero(block_codes[:, index] < 0)
            shares = posterior.memberships(index)[holes] @ pmf.factors[index].T
            n_holes, n_categories = shares.shape
            places = np.repeat(holes + first, n_categories), np.full(shares.size, index)
            parts.append((*places, np.tile(np.arange(n_categories), n_holes), shares.ravel()))
    rows, variables, codes, shares = map(np.concatenate, zip(*parts, strict=True))
    warn_of_impossible(np.unique(rows[np.isnan(shares)]), "probabilities are NaN")
    order = np.argsort(rows, kind="stable")
    return rows[order], variables[order], codes[order], shares[order]


def warn_of_impossible(rows: NDArray[np.int64], consequence: str = "missing cells stay missing") -> None:
    """Warn of records, by number from 0, that have probability 0 under a model."""
    if len(rows):
        warn_caller(
            f"{len(rows)} {'record is' if len(rows) == 1 else 'records are'} impossible under the model, which gives "
            f"probability 0 to what is observed; {consequence}: {shortlist(rows.tolist(), 5)}, counted from 0"
        )


def _blocks_to_impute(pmf: JointPMF, records: Records) -> Iterator[tuple[int, NDArray[Any], Posterior]]:
    """Yield blocks of records: the first one's number, their codes, -1 where missing, and their posterior."""
    first = 0
    for block in records.blocks():
        codes = Records.from_cells(records.schema, block.pointers, block.cells).codes()
        yield first, codes, Posterior.of(pmf.trees, block)
        first += len(codes)


def _imputed_modes(memberships: Floats, holes: NDArray[np.int64], factor: Floats) -> NDArray[Any]:
    codes = np.empty(len(holes), dtype=np.int64)
    step = max(1, _CHUNK // len(factor))
    for start in range(0, len(holes), step):
        part = slice(start, start + step)
        codes[part] = (memberships[holes[part]] @ factor.T).argmax(axis=1)
    return codes
