"""The categories that conditions such as ``age >= 40`` or ``vote != no`` allow."""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Iterable, Sequence

from twoway.category_labels import Label, plain_label
from twoway.errors import ImpossibleEvidenceError, QuestionError
from twoway.model.pmf import JointPMF
from twoway.questions.language import groups_to_parse, parse_terms
from twoway.questions.question import Term, question_word
from twoway.schema import Schema, Variable
from twoway.text import shortlist

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def model_given_conditions(pmf: JointPMF, conditions: str | Iterable[Term]) -> JointPMF:
    """Return the model given conditions such as ``age = 30-39, vote != no``."""
    if isinstance(conditions, str):
        conditions = parse_terms(conditions, pmf.schema, groups_to_parse(pmf)) if conditions.strip() else ()
    terms = [term for term in conditions if term.operator]
    if not terms:
        return pmf
    try:
        return pmf.given(condition_labels(pmf.schema, terms))
    except ImpossibleEvidenceError:
        evidence = ", ".join(map(str, terms))
        raise ImpossibleEvidenceError(f"the evidence {evidence} has probability 0 under the model") from None


def condition_labels(schema: Schema, terms: Iterable[Term]) -> dict[str, list[Label]]:
    """Return the labels that terms allow, for each variable that they constrain."""
    allowed = condition_codes(schema, terms)
    return {name: [schema[name].categories[code] for code in codes] for name, codes in allowed.items()}


def condition_codes(schema: Schema, terms: Iterable[Term]) -> dict[str, list[int]]:
    """Return the codes of the labels that terms allow, for each variable that they constrain."""
    allowed: dict[str, list[int]] = {}
    for term in terms:
        if term.operator:
            codes = condition_term_codes(schema[term.name], term)
            allowed[term.name] = [code for code in allowed.get(term.name, codes) if code in codes]
            if not allowed[term.name]:
                raise QuestionError(f"the conditions on {term.name!r} exclude every category")
    return allowed


def condition_term_codes(variable: Variable, term: Term) -> list[int]:
    """Return the codes of the categories that a term allows.

    Numbers are compared by value; ordered categories by their order; bins with a number that lies between two of them.
    """
    if term.operator in _COMPARE and variable.edges is not None and variable.find(term.labels[0]) is None:
        codes = _condition_bins(variable, variable.edges, term)
    elif term.operator in _COMPARE:
        if not variable.is_ordered:
            example = Term(variable.name, "in", variable.categories[:2])
            raise QuestionError(
                f"{term} cannot be answered: the categories of {variable.name!r} have no declared order. List the "
                f"categories, as in {example}, or declare the order before the fit: by ordered categories, or by "
                "order = […] in a file for --columns"
            )
        (label,), compare = term.labels, _COMPARE[term.operator]
        by_order = variable.values is None or (variable.ordered and variable.find(label) is not None)
        values: Sequence[float] = range(len(variable)) if by_order else variable.values or ()
        is_between = variable.values is not None and variable.find(label) is None
        threshold = float(label) if is_between else values[variable.code(label)]
        codes = [code for code, value in enumerate(values) if compare(value, threshold)]
    else:
        named = {variable.code(label) for label in term.labels}
        codes = [code for code in range(len(variable)) if (code in named) == (term.operator in ("=", "in"))]
    if not codes:
        labels = variable.categories if len(variable) <= 4 else (*variable.categories[:2], "…", variable.categories[-1])
        raise QuestionError(f"no category of {term.name!r} satisfies {term}: it has {', '.join(map(str, labels))}")
    return codes


def _condition_bins(variable: Variable, edges: Sequence[float], term: Term) -> list[int]:
    """Return the codes of the bins on one side of a number, which must be an edge between two bins."""
    threshold, is_above = float(term.labels[0]), term.operator[0] == ">"
    # The first number above the division: an edge belongs to the bin above it.
    start = threshold if term.operator in (">=", "<") else math.nextafter(threshold, math.inf)
    place = bisect.bisect_left(edges, start)
    if start not in edges:
        near = [
            f"{question_word(variable.name)} {_condition_division(edge, is_above)}"
            for edge in edges[max(place - 1, 0) : place + 1]
        ]
        divisions = shortlist([plain_label(float(_condition_division(edge, is_above).split()[1])) for edge in edges])
        raise QuestionError(
            f"{term} cannot be answered: {variable.name!r} is in bins, and {variable.categories[place]!r} has numbers "
            f"on both sides; the bins are divided at {divisions}: ask for {' or '.join(near)}"
        )
    return list(range(place + 1, len(variable)) if is_above else range(place + 1))


def _condition_division(edge: float, is_above: bool) -> str:
    """Return the comparison that divides numbers at an edge, such as ">= 40".

    Bins that hold their upper end begin just above a shorter number: that of "> 30" at 30.000000000000004.
    """
    before = math.nextafter(edge, -math.inf)
    from twoway.data.binning import format_bin_edge

    if len(format_bin_edge(before)) < len(format_bin_edge(edge)):
        return f"{'>' if is_above else '<='} {format_bin_edge(before)}"
    return f"{'>=' if is_above else '<'} {format_bin_edge(edge)}"
