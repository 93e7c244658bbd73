"""Questions as data, and as the text that parses to the same question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from twoway.category_labels import Label

Kind: TypeAlias = Literal["P", "E", "mode", "H", "I"]

KINDS: tuple[Kind, ...] = ("P", "E", "mode", "H", "I")
CONTRASTS = {"-": "difference", "/": "ratio"}
"""What two probabilities, or two expected values, are compared by."""
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
            return question_word(self.name)
        labels = ", ".join(map(question_word, self.labels))
        labels = f"{{{labels}}}" if self.operator.endswith("in") else labels
        return f"{question_word(self.name)} {self.operator} {labels}"


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

    @property
    def sides(self) -> tuple[Question, ...]:
        """The questions that this one is made of: itself."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the question names, each once."""
        return tuple(dict.fromkeys(term.name for term in (*self.targets, *self.others, *self.given)))

    @property
    def axes(self) -> tuple[str, ...]:
        """The variables of the axes of an answer to P or E: the groups, and what the distribution is of."""
        targets = self.targets if self.kind == "P" else ()
        return tuple(term.name for term in (*self.given, *targets) if not term.operator)

    @property
    def groups(self) -> list[str]:
        """The variables in each of whose categories the question is asked: those behind the "|" without a value."""
        return [term.name for term in self.given if not term.operator]

    @property
    def is_one_probability(self) -> bool:
        """Whether the answer is a single probability."""
        return self.kind == "P" and not self.axes


@dataclass(frozen=True)
class Contrast:
    """The difference or the ratio of two probabilities, distributions or expected values.

    Examples
    --------
    >>> yes = Term("vote", "=", ("yes",))
    >>> young, every = Question("P", (yes,), given=(Term("age", "=", ("18-39",)),)), Question("P", (yes,))
    >>> print(Contrast(young, "-", every))
    P(vote = yes | age = 18-39) - P(vote = yes)
    """

    first: Question
    operator: Literal["-", "/"]
    second: Question

    def __str__(self) -> str:
        return f"{self.first} {self.operator} {self.second}"

    @property
    def sides(self) -> tuple[Question, ...]:
        """The questions whose answers are compared."""
        return self.first, self.second

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the two questions name, each once."""
        return tuple(dict.fromkeys([*self.first.names, *self.second.names]))

    @property
    def axes(self) -> tuple[str, ...]:
        """The variables of the axes of the answer: those of the side that has more."""
        return max(self.first.axes, self.second.axes, key=len)


def question_word(label: Label) -> str:
    """Return a name or label as it is written in a question, in quotes if needed.

    Examples
    --------
    >>> question_word("30-39"), question_word("Never, ever"), question_word(4), question_word("4")
    ('30-39', "'Never, ever'", '4', "'4'")
    """
    if not isinstance(label, str):
        return str(label)
    needs_quotes = (
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
    return repr(label) if needs_quotes else label
