"""Options that several commands share, and what their text asks for."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import twoway as tw
from twoway.errors import DataError, check_known, unknown_name
from twoway.questions.conditions import condition_labels
from twoway.questions.language import groups_to_parse, parse_terms

Json = Annotated[bool, Option("--json", help="Print the result as one line of JSON.")]
Force = Annotated[bool, Option("--force", help="Replace an existing output file.")]
Seed = Annotated[int, Option(help="Seed of the random numbers.")]
Model = Annotated[Path, Argument(help="A model written by `twoway fit`.")]
Out = Annotated[
    Path | None,
    Option(
        "-o", "--out", help="A CSV, TSV, Parquet, Arrow, JSON lines, SPSS or Stata file (default: standard output)."
    ),
]
Threads = Annotated[int | None, Option(help="The number of threads (default: all cores).")]

Data = Annotated[
    list[Path] | None,
    Argument(
        metavar="[DATA]...",
        help="Records: CSV, TSV, Parquet, Arrow, JSON lines, SPSS, Stata, SAS or Excel files, a glob pattern or a "
        "folder; or tables from `twoway count`; or several of these.",
    ),
]
DataFile = Annotated[
    Path,
    Argument(
        metavar="DATA",
        help="Records: a CSV, TSV, Parquet, Arrow, JSON lines, SPSS, Stata, SAS or Excel file, a glob pattern or a "
        "folder.",
    ),
]

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DEFAULT_BINS = 5


def missing_option(given: Sequence[str] | None, only: Sequence[str] | None = None) -> tw.MissingLabels:
    """Return the values that mean missing, in every column or in one (``income=-9,98``).

    A code that can be parsed as a number matches the text and the number. Codes for one column are separated by commas;
    codes for every column only if all of them are numbers. ``=a=b`` is the code ``a=b``.

    Examples
    --------
    >>> missing_option(["-9", "income=98,refused"])
    MissingLabels(labels=('-9', -9), columns={'income': ('98', 98, 'refused')}, only=False)
    """
    labels: list[object] = [""] if only else []
    columns: dict[str, list[object]] = {}
    for text in (*(given or ()), *(only or ())):
        name, sign, codes = ("", "", text[1:]) if text.startswith("=") else text.rpartition("=")
        parts = [part.strip() for part in codes.split(",")]
        if not sign and not all(map(_NUMBER.fullmatch, parts)):
            parts = [codes]
        for part in parts:
            readings: list[object] = [part]
            if _NUMBER.fullmatch(part):
                readings.append(int(part) if part.lstrip("+-").isdigit() else float(part))
            (columns.setdefault(name, []) if sign else labels).extend(readings)
    return tw.MissingLabels(labels, columns, bool(only))


def where_option(conditions: Sequence[str] | None) -> str | None:
    """Return one condition that holds where all of the given conditions hold.

    Examples
    --------
    >>> where_option(["year >= 2020"]), where_option(["a = 1 OR b = 1", "c = 1"]), where_option(None)
    ('year >= 2020', '(a = 1 OR b = 1\\n) AND (c = 1\\n)', None)
    """
    if not conditions:
        return None
    # The parenthesis goes on a new line because a condition may end in a comment.
    return conditions[0] if len(conditions) == 1 else " AND ".join(f"({condition}\n)" for condition in conditions)


def names_option(given: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    """Split names at commas; a known name that contains a comma is kept whole. A pattern stands for all that match it.

    Examples
    --------
    >>> names_option(["age,vote", "a, b", "q*"], ["age", "vote", "a, b", "q1", "q2"])
    ['age', 'vote', 'a, b', 'q1', 'q2']
    """
    names: list[str] = []
    for text in given or ():
        parts = [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
        for part in parts:
            names += [part] if part in known else fnmatch.filter(known, part) or [part]
    check_known("column", known, *names)
    return list(dict.fromkeys(names))


def bins_option(text: str, known: Sequence[str]) -> tuple[str, int | list[float]]:
    """Return the column of "name", "name=n_bins" or "name=cut,cut,…", and the number of bins or the cuts.

    Examples
    --------
    >>> [bins_option(text, ["age"]) for text in ("age=4", "age=18,40,65", "age=40,")]
    [('age', 4), ('age', [18.0, 40.0, 65.0]), ('age', [40.0])]
    """
    from twoway.data.binning import number_to_bin

    if text in known:
        return text, _DEFAULT_BINS
    name, _, wanted = text.rpartition("=")
    if name not in known:
        raise unknown_name("column", name or text, known, where=" to put into bins")
    if "," in wanted:
        cuts = [number_to_bin(cut) for cut in wanted.removesuffix(",").split(",")]
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


def missing_option_hint(labels: Iterable[object]) -> list[str]:
    """Return the few labels that are not numbers among many that are: most likely codes for missing cells.

    Examples
    --------
    >>> missing_option_hint(["1", "2", "3", "4", "no answer"]), missing_option_hint(["18-39", "40+", "2"])
    (['no answer'], [])
    >>> missing_option_hint([1, 2])
    []
    """
    from twoway.data.binning import number_to_bin

    texts = [label for label in labels if isinstance(label, str)]
    odd = [text for text in texts if number_to_bin(text) is None]
    return odd if len(odd) <= 0.25 * len(texts) else []


def replicate_kind_option(text: str | None) -> dict[str, Any]:
    """Return the kind of replicate weights, with Fay's coefficient or a scale, as options of `Design`.

    Examples
    --------
    >>> replicate_kind_option("fay:0.3"), replicate_kind_option("jackknife"), replicate_kind_option(None)
    ({'kind': 'fay', 'fay': 0.3}, {'kind': 'jackknife'}, {})
    """
    if text is None:
        return {}
    kind, colon, number = text.partition(":")
    try:
        return {"kind": kind} | ({"fay" if kind == "fay" else "scale": float(number)} if colon else {})
    except ValueError:
        raise DataError(
            f"--replicate-kind must be a kind, or one with a number, such as fay:0.3; got {text!r}"
        ) from None


def rules_option(source: Any, impossible: Iterable[str] | None, exact: Iterable[str] | None) -> dict[str, Any]:
    """Return what nobody is, and the variables of the tables that must hold exactly, of a model's or tables' schema."""
    schema, groups = source.schema, groups_to_parse(source)
    return {
        "impossible": [condition_labels(schema, parse_terms(text, schema, groups)) for text in impossible or ()],
        "exact": [names_option([names], schema.names) for names in exact or ()],
    }
