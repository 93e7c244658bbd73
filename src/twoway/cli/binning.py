"""The option ``--bins``: what it asks for, and the bins of the columns of a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from twoway.data.binning import column_numbers, make_bins, parse_number
from twoway.errors import DataError, unknown
from twoway.text import shortlist

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from twoway.data.missing import MissingLabels
    from twoway.schema import Variable

_DEFAULT_BINS = 5


def find_bins(
    table: Any, requests: Iterable[str], missing: MissingLabels, weights: NDArray[np.float64] | None
) -> dict[str, Variable]:
    """Return the bins of columns of an Arrow table: of about equally many records each, or with the cuts given."""
    variables = {}
    for request in requests:
        name, wanted = parse_request(request, table.column_names)
        column = table.column(name)
        numbers = column_numbers(column, missing.markers(name))
        if numbers is None:
            raise DataError(f"column {name!r} does not hold numbers, which --bins needs{_explained(column)}")
        is_count = isinstance(wanted, int)
        options: dict[str, Any] = {"n_bins": wanted} if is_count else {"cuts": wanted}
        variables[name] = make_bins(name, numbers, weights, **options).variable
        if len(variables[name]) == 1:
            raise DataError(f"column {name!r} has too few different numbers for {wanted} bins")
    return variables


def parse_request(text: str, known: Sequence[str]) -> tuple[str, int | list[float]]:
    """Return the column of "name", "name=n_bins" or "name=cut,cut,…", and the number of bins or the cuts.

    Examples
    --------
    >>> [parse_request(text, ["age"]) for text in ("age=4", "age=18,40,65", "age=40,")]
    [('age', 4), ('age', [18.0, 40.0, 65.0]), ('age', [40.0])]
    """
    if text in known:
        return text, _DEFAULT_BINS
    name, _, wanted = text.rpartition("=")
    if name not in known:
        raise unknown("column", name or text, known, where=" to put into bins")
    if "," in wanted:
        cuts = [parse_number(cut) for cut in wanted.removesuffix(",").split(",")]
        numbers = [cut for cut in cuts if cut is not None]
        if len(numbers) < len(cuts) or any(low >= high for low, high in itertools.pairwise(numbers)):
            raise DataError(f"--bins {text}: the numbers between bins must be finite and ascend, as in {name}=18,40,65")
        return name, numbers
    if not wanted.isdigit() or int(wanted) < 2:
        raise DataError(
            f"--bins {text}: the number of bins must be a whole number of at least 2; the numbers between bins are "
            f"separated by commas, as in {name}=18,40,65"
        )
    return name, int(wanted)


def odd_labels(labels: Iterable[object]) -> list[str]:
    """Return the few labels that are not numbers among many that are: most likely codes for missing cells.

    Examples
    --------
    >>> odd_labels(["1", "2", "3", "4", "no answer"]), odd_labels(["18-39", "40+", "2"]), odd_labels([1, 2])
    (['no answer'], [], [])
    """
    texts = [label for label in labels if isinstance(label, str)]
    odd = [text for text in texts if parse_number(text) is None]
    return odd if len(odd) <= 0.25 * len(texts) else []


def _explained(column: Any) -> str:
    """Return which labels keep a column from holding numbers, for an error; "" where most are not numbers."""
    odd = odd_labels(column.unique().to_pylist())
    if not odd:
        return ""
    shown = " ".join(f"--missing {label!r}" for label in odd[:3])
    return f": it also holds {shortlist(odd, 3)}; {shown} reads that as missing"
