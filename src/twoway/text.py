"""Text for people: names and labels that are safe to print, short lists, aligned columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

_LONGEST_NAME = 100

MAX_WIDTH = 24
"""Characters of a printed label before it is cut."""
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}(?=[^/]|/[^/])")
"""The start of an address, such as postgres:// or s3://; in a path, one of the slashes is lost."""


def brief(value: object) -> str:
    """Return the ``repr`` of a value, its middle left out where it is long.

    Examples
    --------
    >>> brief("age"), len(brief("a" * 1_000_000))
    ("'age'", 101)
    """
    text = repr(value)
    half = _LONGEST_NAME // 2
    return text if len(text) <= _LONGEST_NAME else f"{text[:half]}…{text[-half:]}"


def escaped(text: str, keep: str = "") -> str:
    """Return text with everything escaped that a terminal could take for a command, except the characters to keep.

    Examples
    --------
    >>> print(escaped("\x1b[31mred"))
    \\x1b[31mred
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii") for char in text
    )


def without_password(text: str) -> str:
    """Return the address of a database or of a remote file without its password; other text as it is.

    Examples
    --------
    >>> without_password("postgres://ann:p@ss/word@host/db?password=secret")
    'postgres://ann:***@host/db?password=***'
    >>> without_password("https://token@host/x.csv?X-Amz-Signature=secret")
    'https://***@host/x.csv?X-Amz-Signature=***'
    """
    if ADDRESS.match(text) is None:
        return text
    # A password may contain an @, so that it ends at the last one.
    hidden = re.sub(r"(:/+[^:]*):.*@", r"\1:***@", text)
    hidden = re.sub(r"^(https?:/+)[^/:@]+@", r"\1***@", hidden)  # a token in place of a name
    words = "password|passwd|pwd|secret|token|key|signature|sig|credential"
    return re.sub(rf"((?:{words})=)[^&;]*", r"\1***", hidden, flags=re.IGNORECASE)


def text_beside(name: object, *, beside: object) -> str:
    """Return ``repr(name)``, with its type where that is all that differs from ``beside``."""
    if type(name) is not type(beside) and str(name) == str(beside):
        return f"the {'text' if isinstance(name, str) else type(name).__name__} {name!r}"
    return repr(name)


def shortlist(names: Iterable[object], limit: int = 12) -> str:
    """Return the names, comma-separated, cut after ``limit`` with a count of the rest."""
    listed = list(names)
    text = ", ".join(brief(name) for name in listed[:limit])
    return text + (f", … ({len(listed) - limit} more)" if len(listed) > limit else "")


def printable(text: object, width: int | None = MAX_WIDTH) -> str:
    """Return a label's text for a terminal: control characters escaped, cut at ``width`` if it is not None.

    Examples
    --------
    >>> printable("two\\nlines"), printable("a" * 30, width=5)
    ('two\\\\nlines', 'aaaa…')
    """
    clean = escaped(str(text))
    return clean if width is None or len(clean) <= width else clean[: width - 1] + "…"


def counted(number: float, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    Examples
    --------
    >>> counted(1, "table"), counted(1200, "record"), counted(2, "pass")
    ('1 table', '1,200 records', '2 passes')
    """
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,.6g} {noun}{ending}" if isinstance(number, float) else f"{number:,} {noun}{ending}"


def markdown_text(text: object) -> str:
    """Return text for Markdown, in which no character means anything else."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|~$&" else char for char in printable(text, None))


def markdown_table(rows: Sequence[Sequence[str]], n_texts: int = 1) -> str:
    """Return rows of Markdown as a table, the first row as its head; columns after the first ``n_texts`` hold numbers.

    Examples
    --------
    >>> print(markdown_table([["method", "error"], ["auto", "0.12"]]))
    | method | error |
    | --- | ---: |
    | auto | 0.12 |
    """
    head, *others = rows
    line = ["---" if place < n_texts else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, line, *others))


def crossed_text(names: Iterable[object], width: int | None = MAX_WIDTH) -> str:
    """Return the variables of a table, such as "age × vote"."""
    return " × ".join(printable(name, width) for name in names)


def plain_data(content: Any) -> Any:
    """Return content as JSON can hold it: dictionaries, lists and plain values, None for numbers that are not finite.

    Of a dataclass, fields that its ``repr`` leaves out are left out.

    Examples
    --------
    >>> plain_data({"x": (1.5, math.inf), 2: "two"})
    {'x': [1.5, None], '2': 'two'}
    """
    if is_dataclass(content):
        return {field.name: plain_data(getattr(content, field.name)) for field in fields(content) if field.repr}
    if isinstance(content, Mapping):
        return {str(key): plain_data(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain_data(value) for value in content]
    if hasattr(content, "tolist"):
        return plain_data(content.tolist())
    if isinstance(content, float):
        return float(content) if math.isfinite(content) else None
    return content


def aligned_text(rows: Sequence[Sequence[str]], more: str = "", align: Callable[[str, int], str] = str.ljust) -> str:
    """Return rows as lines with aligned columns, and a last line ``more``, such as the number of rows left out."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(align(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, more] if more else lines)
