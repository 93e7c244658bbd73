"""The language of questions: text that is parsed and completed. Errors point at the place in the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from twoway.category_labels import Label, plain_label
from twoway.errors import QuestionError, unknown_name
from twoway.model.pmf import JointPMF
from twoway.questions.question import (
    CONTRASTS,
    KINDS,
    NUMBER,
    STOPS,
    TRUTHS,
    Contrast,
    Kind,
    Question,
    Term,
    question_word,
)
from twoway.schema import Schema, Variable
from twoway.text import brief, escaped, shortlist

_EXAMPLE = "P(vote | age = 30-39, region in {north, east})"
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U(?:000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = r"\n \r \t \\ \' \" \x.. \u.... \U........"
_ESCAPED = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\", "\\'": "'", '\\"': '"'}
_OPERATOR = re.compile(r"!=|<=|>=|==?|<|>")
_LIST_WORD = re.compile(r"(not\s+in|in)\s*(?=\{)")
# The lookbehind keeps a search through many spaces linear.
_LIST_WORD_BEHIND = re.compile(r"(?<!\s)\s+(not\s+in|in)$")
_AROUND = 200
"""Characters that an error shows before, at and after the place."""
_HINT = f"names and labels with any of {' '.join(STOPS)} need quotes"
_CONNECTIVE = re.compile(r"[&/]|\b(and|or|not|given|between)\b|\bin(\s*\[|$)", re.IGNORECASE)
_CONDITIONS = (
    "separate conditions by ',', list labels as in a in {x, y}, exclude one by a != x, and put what is known after '|'"
)
_ONE_CONTRAST = "a question is one P, E, mode, H or I, or the difference or ratio of two P or two E: P(a) - P(b)"
# The end of a text behind which the second question of a difference or ratio begins.
_BEHIND_OPERATOR = re.compile(r"\)\s*[-−/]\s*\w*$")
T = TypeVar("T")
Groups: TypeAlias = Mapping[str, Mapping[Label, Sequence[Label]]]
"""For each variable, labels that stand for several of its categories."""


class _Word(NamedTuple):
    """A name or label in the text."""

    text: str
    is_quoted: bool
    start: int
    stop: int


def parse(text: str, schema: Schema, groups: Groups | None = None) -> Question | Contrast:
    """Return the question that a text asks about the variables of a schema.

    Parameters
    ----------
    text
        For example ``P(vote | age = 30-39, region in {north, east})``, or the difference or ratio of two such;
        docs/cli.md has the grammar.
    schema
        The variables. A label without quotes is the number or truth value that it reads as, where the variable has
        that category, otherwise text; one in quotes is text.
    groups
        For each variable, labels that stand for several of its categories: ``{"age": {"65+": ["65-74", "75+"]}}``.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("vote", ("no", "yes")), Variable("age", ("18-39", "40+"))))
    >>> print(parse("p( vote|age=40+ )", schema))
    P(vote | age = 40+)
    >>> print(parse("P(vote=yes|age=18-39)-P(vote=yes|age=40+)", schema))
    P(vote = yes | age = 18-39) - P(vote = yes | age = 40+)
    >>> parse("P(vot | age = 40+)", schema)
    Traceback (most recent call last):
    twoway.errors.QuestionError: no variable 'vot'; did you mean 'vote'? known: 'vote', 'age'
        P(vot | age = 40+)
          ^^^
    """
    return _LanguageParser(text, schema, groups).question()


def parse_terms(text: str, schema: Schema, groups: Groups | None = None) -> tuple[Term, ...]:
    """Parse conditions on variables, as after the "|" of a question.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> print(*parse_terms("age != old, vote = yes", Schema((Variable("age", ("old",)), Variable("vote", ("yes",))))))
    age != old vote = yes
    """
    return _LanguageParser(text, schema, groups).only_terms()


def groups_to_parse(source: Any) -> Groups:
    """Return the labels for several categories of published tables, or of the tables that a model was fitted to.

    Examples
    --------
    >>> from twoway.tables.published.tables import PublishedTable, PublishedTables
    >>> tables = [PublishedTable.of("age", {"0-64": 80, "65-74": 15, "75+": 5})]
    >>> tables += [PublishedTable.of("age", {"0-64": 80, "65+": 20})]
    >>> groups_to_parse(PublishedTables.of(tables, groups={"age": {"65+": ["65-74", "75+"]}}))
    {'age': {'65+': ['65-74', '75+']}}
    """
    published: Any = (source.counts and source.counts.published) if isinstance(source, JointPMF) else source
    groups: Groups = getattr(published, "groups", {})
    return {
        name: {
            label: [source.schema[name].categories[code] for code in published.codes(name, label)] for label in labels
        }
        for name, labels in groups.items()
    }


class _LanguageParser:
    """A text and the position in it."""

    def __init__(self, text: str, schema: Schema, groups: Groups | None) -> None:
        self.text, self.schema, self.groups, self.at = text, schema, groups or {}, 0

    def error(self, message: str, start: int | None = None, stop: int | None = None) -> QuestionError:
        """Return an error that shows the text around the place, with a mark below."""
        start = self.at if start is None else start
        stop = min(max(start + 1, stop or 0), start + _AROUND)
        first, last = max(0, start - _AROUND), stop + _AROUND
        before = "…" * (first > 0) + escaped(self.text[first:start])
        marked = escaped(self.text[start:stop])
        behind = escaped(self.text[stop:last]) + "…" * (last < len(self.text))
        below = " " * len(before) + "^" * max(1, len(marked))
        return QuestionError(f"{message}\n    {before}{marked}{behind}\n    {below}")

    def skip(self) -> str:
        """Skip spaces; return the next character, "" at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def accept(self, char: str) -> bool:
        """Return whether a character comes next; skip it if so."""
        is_next = self.skip() == char
        self.at += is_next
        return is_next

    def unknown(self, word: _Word, error: Exception, known: Iterable[Label]) -> QuestionError:
        """Return the error of an unknown name or label, with the quotes or the syntax that may be missing."""
        longer = (str(label) for label in known if str(label).startswith(word.text))
        hint = ""
        if not word.is_quoted and (quoted := next((text for text in longer if any(map(text.count, STOPS))), None)):
            hint = f"; {question_word(quoted)} needs these quotes"
        elif not word.is_quoted and _CONNECTIVE.search(word.text):
            hint = f"; {_CONDITIONS}"
        return self.error(f"{error}{hint}", word.start, word.stop)

    def expect(self, char: str, why: str) -> None:
        if not self.accept(char):
            raise self.error(f"expected {char!r}{' here' if self.at < len(self.text) else ''}, {why}")

    def question(self) -> Question | Contrast:
        question: Question | Contrast = self.single_question()
        # Names and labels with a minus or a slash are inside brackets; between questions it is an operator.
        operator = self.skip().replace("−", "-")
        if operator in CONTRASTS:
            self.at += 1
            second = self.single_question()
            question = Contrast(question.sides[0], "-" if operator == "-" else "/", second)
            self.check_contrast(question)
        if self.skip():
            raise self.error(f"unexpected text after the end of the question; {_ONE_CONTRAST}", stop=len(self.text))
        return question

    def check_contrast(self, contrast: Contrast) -> None:
        """Reject sides that cannot be compared."""
        first, second = contrast.sides
        what = CONTRASTS[contrast.operator]
        if first.kind != second.kind or first.kind not in ("P", "E"):
            raise self.error(f"a {what} is of two P or of two E, not of {first.kind} and {second.kind}", 0, self.at)
        fewer, more = sorted((first.axes, second.axes), key=len)
        if not set(fewer) <= set(more):
            raise self.error(
                f"the two sides of a {what} must be about the same categories, or one of them a number: "
                f"one has those of {shortlist(first.axes)}, the other those of {shortlist(second.axes)}",
                0,
                self.at,
            )

    def single_question(self) -> Question:
        kind = self.kind()
        self.expect("(", "as in P(vote = yes)")
        start = self.at
        targets = self.separated(self.term)
        if self.skip() == ";" and kind != "I":
            raise self.error(f"';' separates the two sides of a mutual information, I(a; b); {kind} has only one")
        if kind == "I" and not self.accept(";"):
            raise self.error("a mutual information needs two sides, I(a; b)")
        others = self.separated(self.term) if kind == "I" else ()
        known_from, given = self.at, tuple[Term, ...]()
        if self.accept("|"):
            known_from, given = self.at, self.separated(self.term)
        self.expect(")", f"which ends the question; {_HINT}")
        question = Question(kind, targets, others, given)
        self.check(question, start, known_from)
        return question

    def only_terms(self) -> tuple[Term, ...]:
        terms = self.separated(self.term)
        if self.skip():
            raise self.error(f"expected ',' or the end here; {_HINT}")
        bare = [term.name for term in terms if not term.operator]
        if bare:
            raise self.error(f"{brief(bare[0])} needs a value, as in a = x", 0, len(self.text))
        return terms

    def kind(self) -> Kind:
        self.skip()
        name = re.split(r"[\s(]", self.text[self.at :])[0]
        for kind in KINDS:
            if name.casefold() == kind.casefold():
                self.at += len(name)
                return kind
        known = f"{', '.join(KINDS)}, as in {_EXAMPLE}"
        if not name:
            raise self.error(f"a question starts with one of {known}")
        raise self.error(f"unknown question {brief(name)}; known: {known}", stop=self.at + len(name))

    def check(self, question: Question, start: int, known_from: int) -> None:
        """Reject combinations that a kind of question does not have."""
        kind, targets = question.kind, question.targets
        with_values = [term for term in targets if term.operator]
        if kind != "P" and (with_values or any(term.operator for term in question.others)):
            raise self.error(f"{kind} takes variables without values; put what is known after '|'", start, known_from)
        if with_values and len(with_values) < len(targets):
            raise self.error("give a value for each variable, P(a = x, b = y), or for none, P(a, b)", start, known_from)
        if kind == "E" and len(targets) > 1:
            raise self.error("E takes one variable", start, known_from)
        names = [term.name for term in (*targets, *question.others, *question.given) if not term.operator]
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            raise self.error(f"duplicate variable {brief(twice)}", start, self.at)
        bare = [term.name for term in question.given if not term.operator]
        if kind == "mode" and bare:
            raise self.error(f"{brief(bare[0])} needs a value after '|', as in a = x", known_from)

    def separated(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Return the results of ``read``, called once and again after each comma."""
        items = [read()]
        while self.accept(","):
            items.append(read())
        return tuple(items)

    def term(self) -> Term:
        name = self.word("the name of a variable")
        listed = None
        if name.is_quoted:
            self.skip()
            listed = _LIST_WORD.match(self.text, self.at)
            if listed:
                self.at = listed.end()
        elif self.skip() == "{" and (listed := _LIST_WORD_BEHIND.search(name.text)):
            name = _Word(name.text[: listed.start()], False, name.start, name.start + listed.start())
        if name.text not in self.schema:
            raise self.unknown(name, unknown_name("variable", name.text, self.schema.names), self.schema.names)
        variable = self.schema[name.text]
        if listed:
            return Term(variable.name, " ".join(listed.group(1).split()), self.listed(variable))
        matched = _OPERATOR.match(self.text, self.at) if self.skip() else None
        if matched is None:
            return Term(variable.name)
        self.at, operator = matched.end(), matched.group().replace("==", "=")
        labels = self.labels(variable, compares=operator not in ("=", "!="))
        among = {"=": "in", "!=": "not in"} if len(labels) > 1 else {}
        return Term(variable.name, among.get(operator, operator), labels)

    def listed(self, variable: Variable) -> tuple[Label, ...]:
        self.accept("{")
        items = self.separated(lambda: self.labels(variable))
        self.expect("}", "which closes the list of labels")
        return tuple(label for labels in items for label in labels)

    def word(self, what: str) -> _Word:
        """Return the next name or label."""
        if self.skip() in ("'", '"') and self.at < len(self.text):
            quoted = _QUOTED.match(self.text, self.at)
            if quoted is None:
                raise self.error("this quote is not closed")
            start, self.at = self.at, quoted.end()
            try:
                return _Word(_ESCAPE.sub(_parsed_escape, quoted.group()[1:-1]), True, start, self.at)
            except KeyError as error:
                message = f"invalid escape {escaped(error.args[0])} in quotes; allowed: {_ESCAPES}"
                raise self.error(message, start, self.at) from None
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in STOPS and self.text[self.at : self.at + 2] != "!=":
            self.at += 1
        text = self.text[start : self.at].rstrip()
        if not text:
            raise self.error(f"expected {what} here; {_HINT}")
        return _Word(text, False, start, start + len(text))

    def labels(self, variable: Variable, *, compares: bool = False) -> tuple[Label, ...]:
        """Return the category that the next word names, or those of a group; a comparison may also be with a number."""
        word = self.word("a label")
        # A number comes first: text can be given in quotes.
        readings: list[Label] = [*([] if word.is_quoted else _parsed_unquoted(word.text)), word.text]
        for reading in readings:
            if variable.find(reading) is not None:
                return (reading,)
        groups = self.groups.get(variable.name, {})
        members = next((labels for label, labels in groups.items() if str(label) == word.text), None)
        if members and compares:
            message = f"{brief(word.text)} stands for {shortlist(members)}: compare with one of these"
            raise self.error(message, word.start, word.stop)
        if members:
            return tuple(members)
        is_number = isinstance(readings[0], int | float) and not isinstance(readings[0], bool)
        if compares and is_number and (variable.values is not None or variable.edges is not None):
            return (readings[0],)
        where = f" of {variable.name!r}"
        error, known = unknown_name("category", readings[0], variable.categories, where=where), variable.categories
        raise self.unknown(word, error, known)


def _parsed_escape(match: re.Match[str]) -> str:
    """Return the character of an escape sequence; KeyError if it is invalid."""
    escape = match.group()
    return chr(int(escape[2:], 16)) if len(escape) > 2 else _ESCAPED[escape]


def _parsed_unquoted(text: str) -> Sequence[Label]:
    """Return the number or truth value of a word without quotes, if it is one."""
    if text.casefold() in TRUTHS:
        return [TRUTHS[text.casefold()]]
    if NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) < float("inf"):
            # Python does not parse integers with thousands of digits; these have leading zeros.
            is_whole = text.lstrip("+-").isdigit() and len(text) < 1000
            return [plain_label(int(text) if is_whole else value)]
    return []


def complete_question(text: str, schema: Schema) -> list[str]:
    """Return the completions of the last, unfinished word of a text: kinds, names or labels.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("vote", ("no", "yes")), Variable("voter", (1, 2)), Variable("age", ("a,b", "c"))))
    >>> complete_question("P(vo", schema), complete_question("P(vote | age = ", schema), complete_question("m", schema)
    (['vote', 'voter'], [" 'a,b'", ' c'], ['mode('])
    """
    start = max(text.rfind(char) for char in STOPS) + 1
    word = text[start:]
    lead = word[: len(word) - len(word.lstrip())]
    begun = word.strip().lstrip("'\"")
    if "(" not in text or _BEHIND_OPERATOR.search(text):
        begun = begun.lstrip("-−/ ")
        lead = word[: len(word) - len(begun)]
        return [f"{lead}{kind}(" for kind in KINDS if kind.casefold().startswith(begun.casefold())]
    name = _name_in_language(text[:start])
    known = schema[name].categories if name in schema else schema.names
    return [lead + question_word(label) for label in known if str(label).casefold().startswith(begun.casefold())]


def _name_in_language(text: str) -> str:
    """Return the variable whose label comes next, "" if a name comes next."""
    # A regular expression would take quadratic time on long text.
    brace = text.rfind("{")
    if brace > text.rfind("}"):
        before, _, word = text[:brace].rstrip().rpartition(" ")
        name = before.rstrip().removesuffix(" not") if word == "in" else ""
    else:
        name = text.rstrip("=<>!")
        name = "" if name == text else name
    start = max(name.rfind(char) for char in STOPS + "!") + 1
    return name[start:].strip().strip("'\"")
