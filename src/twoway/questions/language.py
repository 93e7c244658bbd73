"""Questions as data, and as text that parses to the same question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from twoway.schema import Label

Kind: TypeAlias = Literal["P", "E", "mode", "H", "I"]

KINDS: tuple[Kind, ...] = ("P", "E", "mode", "H", "I")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in")
STOPS = ",|;(){}=<>"
"""Characters that end a word; names and labels that contain one need quotes. So does "!" before "="."""

TRUTHS = {"true": True, "false": False}
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Term:
    """A variable, or a condition on one: ``age``, ``age = 30-39``, ``region in {north, east}``."""

    name: str
    operator: str = ""
    """One of `OPERATORS`, or nothing for the variable itself."""
    labels: tuple[Label, ...] = ()

    def __str__(self) -> str:
        if not self.operator:
            return quote(self.name)
        shown = ", ".join(map(quote, self.labels))
        return f"{quote(self.name)} {self.operator} {f'{{{shown}}}' if self.operator.endswith('in') else shown}"


@dataclass(frozen=True)
class Question:
    """A question about variables.

    Examples
    --------
    >>> print(Question("P", (Term("vote"),), given=(Term("age", "=", ("30-39",)), Term("zip", "in", (1, "1")))))
    P(vote | age = 30-39, zip in {1, '1'})
    """

    kind: Kind
    targets: tuple[Term, ...]
    others: tuple[Term, ...] = ()
    """The other side of a mutual information."""
    given: tuple[Term, ...] = ()

    def __str__(self) -> str:
        sides = [", ".join(map(str, side)) for side in (self.targets, self.others) if side]
        known = f" | {', '.join(map(str, self.given))}" if self.given else ""
        return f"{self.kind}({'; '.join(sides)}{known})"


def quote(label: Label) -> str:
    """Return a name or label as it is written in a question, in quotes if needed.

    Examples
    --------
    >>> quote("30-39"), quote("Never, ever"), quote(4), quote("4")
    ('30-39', "'Never, ever'", '4', "'4'")
    """
    if not isinstance(label, str):
        return str(label)
    needs = (
        label != label.strip()
        or not label.isprintable()
        or label[:1] in ("", "'", '"')
        or any(char in STOPS for char in label)
        or "!=" in label + "="
        # Without quotes these are a number, a truth value, or the word before a list.
        or NUMBER.fullmatch(label) is not None
        or label.casefold() in TRUTHS
        or label.split()[-1] == "in"
    )
    return repr(label) if needs else label
