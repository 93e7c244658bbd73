"""What columns are declared to be, as TOML that people can read and edit."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from twoway.data.columns import Columns


def columns_toml(columns: Columns, notes: Mapping[str, Iterable[str]]) -> str:
    """Return declarations as TOML, with notes as comments."""
    lines = [
        f"{what} = {toml_value(getattr(columns, what))}" for what in ("weights", "counts") if getattr(columns, what)
    ]
    for name, members in columns.sets.items():
        lines += ["", f"[sets.{toml_key(name)}]", *(f"{key} = {toml_value(value)}" for key, value in members.items())]
    for name, column in columns.columns.items():
        lines += ["", f"[columns.{toml_key(name)}]", *(f"# {note}" for note in notes.get(name, ()))]
        defaults = vars(type(column)())
        for key, value in vars(column).items():
            if key not in ("categories", "choices", "value_labels") and value != defaults[key]:
                lines.append(f"{key} = {toml_value(value)}")
        if column.categories and not column.choices:
            by_category: dict[Any, list[Any]] = {}
            for code, category in column.categories.items():
                by_category.setdefault(category, []).append(code)
            lines += [f"[columns.{toml_key(name)}.categories]"]
            lines += [
                f"{toml_key(_codes_text(codes))} = {toml_value(category)}" for category, codes in by_category.items()
            ]
    return "\n".join(lines).lstrip("\n") + "\n"


def _codes_text(codes: Sequence[Any]) -> str:
    """Return codes as the key of a category: separated by commas, in quotes where they hold one.

    Examples
    --------
    >>> _codes_text([1, "a,b"])
    '1, "a,b"'
    """

    def quoted(code: Any) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([code])
        return text.getvalue()

    return ", ".join(map(quoted, codes))


def toml_key(name: str) -> str:
    """Return a key as TOML writes it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Return text, numbers, truth values, and lists and mappings of them as TOML writes them in one line."""
    if isinstance(value, np.generic):
        return toml_value(value.item())
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(str(name))} = {toml_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else json.dumps(value)
    shown = (char if char.isprintable() else f"\\U{ord(char):08X}" for char in value)
    return '"' + "".join(f"\\{char}" if char in '\\"' else char for char in shown) + '"'
