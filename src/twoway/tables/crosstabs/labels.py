"""Labels: which category the label of a published table means, and the categories found in many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twoway.errors import DataError, unknown
from twoway.schema import Label, Schema, label_key, plain_label
from twoway.tables.crosstabs.sheets import Numbers

_NUMERIC = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


@dataclass(frozen=True)
class Labels:
    """A schema, and the category that a label of a table stands for.

    A frame's headers are often text where its rows are numbers, so ``"1"`` may mean the category ``1``
    (and ``1`` the category ``"1"``, ``"True"`` the truth value), unless it is a category itself.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("stars", (1, 2)), Variable("sure", (False, True))))
    >>> Labels.known(schema).codes("stars", ["2", 1], "table stars × sure")
    [1, 0]
    """

    schema: Schema

    @classmethod
    def known(cls, schema: Schema) -> Labels:
        """Return the labels of a schema that was given."""
        return cls(schema)

    @classmethod
    def found(cls, tables: Iterable[Numbers]) -> Labels:
        """Return the labels that tables show, variables and categories in the order in which they come.

        The labels of a variable are numbers if all of them, in all tables, can be read as numbers.
        """
        shown: dict[str, list[tuple[Label, str]]] = {}
        for table in tables:
            for name, labels in zip(table.key, (table.rows, table.columns), strict=True):
                shown.setdefault(name, []).extend((label, table.name) for label in labels)
        return cls(Schema.found({name: _categories(name, labels) for name, labels in shown.items()}))

    def codes(self, name: str, labels: Sequence[Label], where: str) -> list[int]:
        """Return the category codes of labels, each there once; ``where`` says in errors whose they are."""
        variable = self.schema[name]
        codes: list[int] = []
        for label in labels:
            found = [variable.find(one) for one in _readings(label) if variable.find(one) is not None]
            if not found:
                error = unknown("category", label, variable.categories, where=f" of {name!r}")
                raise DataError(f"{where}: {error}")
            code = found[0]
            assert code is not None
            if code in codes:
                raise DataError(f"{where} has {variable.categories[code]!r} of {name!r} twice; it may be there once")
            codes.append(code)
        return codes


def _readings(label: Label) -> list[Label]:
    """Return what a label may mean, itself first."""
    if not isinstance(label, str):
        return [label, str(label)]
    text = label.strip()
    numbers = [plain_label(float(text))] if _NUMERIC.fullmatch(text) else []
    truths = [text.casefold() == "true"] if text.casefold() in ("true", "false") else []
    return [text, *numbers, *truths]


def _categories(name: str, shown: Sequence[tuple[Label, str]]) -> tuple[Label, ...]:
    """Return the categories that all labels of a variable stand for."""
    kind_of = {label_key(label)[0] for label, _ in shown}
    readings = [_readings(label) for label, _ in shown]
    as_numbers = [next((one for one in some if label_key(one)[0] == "number"), None) for some in readings]
    as_truths = [next((one for one in some if label_key(one)[0] == "truth"), None) for some in readings]
    if all(one is not None for one in as_numbers):
        chosen = [one for one in as_numbers if one is not None]
    elif "truth" in kind_of and all(one is not None for one in as_truths):
        chosen = [one for one in as_truths if one is not None]
    else:
        # Where 1 stands beside "3+", the "1" of another table is the same category.
        texts = {label for label, _ in shown if isinstance(label, str)}
        chosen = [str(label) if str(label) in texts else label for label, _ in shown]
    first: dict[tuple[str, object], Label] = {}
    place: dict[str, tuple[Label, str]] = {}
    for label, (_, table) in zip(chosen, shown, strict=True):
        first.setdefault(label_key(label), label)
        other, other_table = place.setdefault(str(label).casefold(), (label, table))
        if label_key(other) != label_key(label) and other_table != table:
            raise DataError(
                f"{name!r} has the category {other!r} in table {other_table} and {label!r} in table {table}; write "
                "them alike, or give a schema that lists both"
            )
    return tuple(first.values())
