"""Labels of published tables: what each may mean, and the categories of a variable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from twoway.category_labels import Label, label_key, plain_label
from twoway.errors import DataError, unknown_name
from twoway.schema import Schema
from twoway.tables.crosstabs.cells import is_missing_cell
from twoway.tables.crosstabs.sheet_words import MarginRole, margin_in_words

_NUMERIC = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


def read_sheet_side(
    name: str, variable: str, raw_labels: Sequence[Any], schema: Schema | None
) -> tuple[tuple[Label, ...], list[tuple[Label, int, MarginRole | None]]]:
    """Return the categories of a variable of a table, and the label, the code and the role of each raw label.

    A label of a margin has the code -1.
    """
    plain: dict[int, Label] = {}
    for raw in raw_labels:
        if id(raw) in plain:
            continue  # the labels of rows and columns stand with each of their cells
        if is_missing_cell(raw):
            raise DataError(f"table {name} has a category of {variable!r} without a label")
        try:
            plain[id(raw)] = plain_label(raw.strip() if isinstance(raw, str) else raw)
        except DataError as error:
            raise DataError(f"table {name}, a label of {variable!r}: {error}") from None
    known = schema[variable] if schema is not None and variable in schema else None
    categories: list[Label] = []
    meant: dict[tuple[str, object], tuple[Label, int, MarginRole | None]] = {}
    for label in plain.values():
        if label_key(label) not in meant:
            is_category = known is not None and known.find(label) is not None
            role = None if is_category else margin_in_words(label, plain.values())
            meant[label_key(label)] = label, -1 if role else len(categories), role
            categories += [] if role else [label]
    if not categories:
        raise DataError(f"table {name} has no category of {variable!r} except totals")
    meaning = {place: meant[label_key(label)] for place, label in plain.items()}
    return tuple(categories), [meaning[id(raw)] for raw in raw_labels]


def sheet_label_codes(schema: Schema, name: str, labels: Sequence[Label], where: str) -> list[int]:
    """Return the category codes of different labels of a variable; ``where`` is their place, for errors.

    A frame's headers are often text where its rows are numbers, so ``"1"`` may mean the category ``1``
    (and ``1`` the category ``"1"``, ``"True"`` the truth value), unless it is a category itself.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("stars", (1, 2)), Variable("sure", (False, True))))
    >>> sheet_label_codes(schema, "stars", ["2", 1], "table stars × sure")
    [1, 0]
    """
    variable = schema[name]
    codes: list[int] = []
    for label in labels:
        code = next((code for key in _sheet_label_meanings(label) if (code := variable.find(key)) is not None), None)
        if code is None:
            error = unknown_name("category", label, variable.categories, where=f" of {name!r}")
            raise DataError(f"{where}: {error}")
        if code in codes:
            raise DataError(f"{where}: duplicate category {variable.categories[code]!r} of {name!r}")
        codes.append(code)
    return codes


def _sheet_label_meanings(label: Label) -> list[Label]:
    """Return what a label may mean, itself first."""
    if not isinstance(label, str):
        return [label, str(label)]
    text = label.strip()
    numbers = [plain_label(float(text))] if _NUMERIC.fullmatch(text) else []
    truths = [text.casefold() == "true"] if text.casefold() in ("true", "false") else []
    return [text, *numbers, *truths]


def sheet_categories(name: str, shown: Sequence[tuple[Label, str]], *, is_typed: bool = False) -> tuple[Label, ...]:
    """Return the categories of a variable from its labels, each with the name of its table.

    Text that looks like a number is one, unless labels are typed and all of the variable's are text.
    """
    labels = [label for label, _ in shown]
    is_text = is_typed and all(isinstance(label, str) for label in labels)
    chosen = None if is_text else _sheet_labels_of_kind("number", labels)
    if chosen is None and any(isinstance(label, bool) for label in labels):
        chosen = _sheet_labels_of_kind("truth", labels)
    if chosen is None:
        # Where 1 is beside "3+", the "1" of another table is the same category.
        texts = {label for label in labels if isinstance(label, str)}
        chosen = [str(label) if str(label) in texts else label for label in labels]
    first: dict[tuple[str, object], Label] = {}
    first_of_text: dict[str, tuple[Label, str]] = {}
    for label, (_, table) in zip(chosen, shown, strict=True):
        first.setdefault(label_key(label), label)
        other, other_table = first_of_text.setdefault(str(label).casefold(), (label, table))
        if label_key(other) != label_key(label) and other_table != table:
            raise DataError(
                f"{name!r} has the category {other!r} in table {other_table} and {label!r} in table {table}; write "
                "both the same way, or list both in a schema"
            )
    return tuple(first.values())


def _sheet_labels_of_kind(kind: str, labels: Sequence[Label]) -> list[Label] | None:
    """Return labels read as numbers, or as truth values, if all of them can be."""
    read = [next((key for key in _sheet_label_meanings(label) if label_key(key)[0] == kind), None) for label in labels]
    known = [key for key in read if key is not None]
    return known if len(known) == len(read) else None
