"""What the text of options asks of records and models."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import twoway as tw
from twoway.data.binning import make_bins, number_to_bin, numbers_to_bin
from twoway.data.missing import Markers
from twoway.errors import DataError, check_known, unknown_name
from twoway.questions.conditions import condition_labels
from twoway.questions.language import groups_to_parse, parse_terms
from twoway.text import counted, shortlist

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DEFAULT_BINS = 5
_MOST_NAMED = 6


def missing_option(values: Sequence[str] | None, only: Sequence[str] | None = None) -> tw.MissingLabels:
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
    for text in (*(values or ()), *(only or ())):
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


def names_option(texts: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    """Split names at commas, except known names that contain one, and replace patterns by the names they match.

    Examples
    --------
    >>> names_option(["age,vote", "a, b", "q*"], ["age", "vote", "a, b", "q1", "q2"])
    ['age', 'vote', 'a, b', 'q1', 'q2']
    """
    names: list[str] = []
    for text in texts or ():
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
    if text in known:
        return text, _DEFAULT_BINS
    name, _, bins = text.rpartition("=")
    if name not in known:
        raise unknown_name("column", name or text, known, where=" to put into bins")
    if "," not in bins and bins.isdigit() and int(bins) >= 2:
        return name, int(bins)
    cuts = [number_to_bin(cut) for cut in bins.removesuffix(",").split(",")]
    numbers = [cut for cut in cuts if cut is not None]
    if "," in bins and len(numbers) == len(cuts) and all(low < high for low, high in itertools.pairwise(numbers)):
        return name, numbers
    raise DataError(
        f"--bins {text}: there must be a whole number of bins, at least 2, or the numbers between them, finite, "
        f"ascending and separated by commas, as in {name}=18,40,65"
    )


def missing_option_hint(labels: Iterable[object]) -> list[str]:
    """Return the labels that are not numbers if most of the others are: these are probably codes for missing cells.

    Examples
    --------
    >>> missing_option_hint(["1", "2", "3", "4", "no answer"]), missing_option_hint(["18-39", "40+", "2"])
    (['no answer'], [])
    >>> missing_option_hint([1, 2])
    []
    """
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
    """Return impossible combinations, and the variables of tables that must hold exactly, as the library takes them."""
    schema, groups = source.schema, groups_to_parse(source)
    return {
        "impossible": [condition_labels(schema, parse_terms(text, schema, groups)) for text in impossible or ()],
        "exact": [names_option([names], schema.names) for names in exact or ()],
    }


def bins_option_columns(
    table: Any, requests: Sequence[str], missing: tw.MissingLabels, weighed: Mapping[str, Any]
) -> tw.Columns:
    """Return the columns that --bins names, cut into bins of about equally many records, or as given.

    Counts and weights are taken into account.
    """
    columns = [table.column(name) for name in weighed.values() if name is not None and requests]
    weights = [numbers_to_bin(column, Markers()) for column in columns]
    # Invalid ones are reported when the records are read.
    known = [np.where(np.isfinite(numbers), numbers, 0.0) for numbers in weights if numbers is not None]
    declared: dict[str, Any] = {}
    for request in requests:
        name, wanted = bins_option(request, table.column_names)
        column = table.column(name)
        numbers = numbers_to_bin(column, missing.markers(name))
        if numbers is None:
            odd = missing_option_hint(column.unique().to_pylist())
            options = " ".join(f"--missing {label!r}" for label in odd[:3])
            also = f": it also holds {shortlist(odd, 3)}; {options} reads that as missing" if odd else ""
            raise DataError(f"column {name!r} does not hold numbers, which --bins needs{also}")
        how: dict[str, Any] = {"n_bins": wanted} if isinstance(wanted, int) else {"cuts": wanted}
        bins = make_bins(name, numbers, np.prod(known, axis=0) if known else None, **how).variable
        if len(bins) == 1:
            raise DataError(f"column {name!r} has too few different numbers for {wanted} bins")
        declared[name] = {"cuts": bins.edges}
    return tw.Columns(declared)


def check_max_categories_option(table: Any, names: Sequence[str], most: int) -> None:
    """Reject columns that are not categorical, all of them in one error: free text, identifiers, measurements."""
    import pyarrow as pa

    from twoway.data.column_finding import WEIGHT_NAME

    many: dict[str, int] = {}
    numbers = []
    for name in names:
        column = table.column(name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_nested(kind):
            raise DataError(f"column {name!r} has type {kind}, which is not categorical; --drop {name!r} leaves it out")
        n_distinct = len(column.cast(kind).unique().drop_null())
        if n_distinct > most:
            many[name] = n_distinct
            # A whole number for each record is an identifier.
            is_identifier = pa.types.is_integer(kind) and n_distinct == table.num_rows
            if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not is_identifier):
                numbers.append(name)
    if not many:
        return
    more = len(many) - _MOST_NAMED
    problems = [f"column {name!r} has {n:,} distinct values in {table.num_rows:,} records" for name, n in many.items()]
    problems[_MOST_NAMED:] = [f"{counted(more, 'more column')} with too many"] if more > 0 else []
    by_kind = {"free text": [name for name in many if name not in numbers], "measurements": numbers}
    groups = {kind: group for kind, group in by_kind.items() if group}
    ways = []
    for group in groups.values():
        pronoun = "it" if len(group) == 1 else "them"
        first = [*group[:_MOST_NAMED], *(["…"] if len(group) > _MOST_NAMED else [])]
        bins = f"{' '.join(f'--bins {name!r}' for name in first)} bins {pronoun}, " if group is numbers else ""
        ways.append(f"{bins}--drop {','.join(first)!r} leaves {pronoun} out")
    ways += [f"--weights {name!r} uses it as survey weights" for name in numbers if WEIGHT_NAME.fullmatch(name)][:1]
    raise DataError(
        f"{'; '.join(problems)}: {', '.join(groups)} or an identifier? {'; '.join(ways)}; "
        f"--max-categories {max(many.values())} keeps every value as a category"
        f"{'; `twoway columns` writes a file that bins them or leaves them out' if more > 0 else ''}"
    )
