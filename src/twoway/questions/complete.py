"""Completions of a question that is being typed."""

from __future__ import annotations

from twoway.questions.language import KINDS, STOPS, quote
from twoway.schema import Schema

DELIMITERS = STOPS
"""Characters after which a new name or label begins."""


def complete(text: str, schema: Schema) -> list[str]:
    """Return the completions of the last, unfinished word of a text: kinds, names or labels.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("vote", ("no", "yes")), Variable("voter", (1, 2)), Variable("age", ("a,b", "c"))))
    >>> complete("P(vo", schema), complete("P(vote | age = ", schema), complete("m", schema)
    (['vote', 'voter'], [" 'a,b'", ' c'], ['mode('])
    """
    start = max(text.rfind(char) for char in DELIMITERS) + 1
    word = text[start:]
    lead = word[: len(word) - len(word.lstrip())]
    begun = word.strip().lstrip("'\"")
    if "(" not in text:
        return [f"{kind}(" for kind in KINDS if kind.casefold().startswith(begun.casefold())]
    name = _name_before(text[:start])
    known = schema[name].categories if name in schema else schema.names
    return [lead + quote(label) for label in known if str(label).casefold().startswith(begun.casefold())]


def _name_before(text: str) -> str:
    """Return the variable whose label comes next, "" if a name comes next."""
    # A regular expression would take quadratic time on long text.
    brace = text.rfind("{")
    if brace > text.rfind("}"):
        before, _, word = text[:brace].rstrip().rpartition(" ")
        name = before.rstrip().removesuffix(" not") if word == "in" else ""
    else:
        name = text.rstrip("=<>!")
        name = "" if name == text else name
    start = max(name.rfind(char) for char in DELIMITERS + "!") + 1
    return name[start:].strip().strip("'\"")
