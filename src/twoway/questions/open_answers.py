"""Answers that what the model was fitted to leaves open: why, and what it allows."""

from __future__ import annotations

from twoway.model.pmf import JointPMF
from twoway.questions.conditions import condition_codes, condition_labels
from twoway.questions.question import Contrast, Question, Term
from twoway.text import brief, shortlist


def open_notes(pmf: JointPMF, asked: Question | Contrast, *, has_interval: bool = False) -> list[str]:
    """Return notes on why the data leave an answer open, and on the range that they allow for a probability.

    An answer with an interval needs no range: its interval contains it.
    """
    notes = [note for note in (open_as_never_together(pmf, asked), open_beyond_universe(pmf, asked)) if note]
    if has_interval or not notes or pmf.counts is None or pmf.counts.singles.size:
        return notes
    if isinstance(asked, Contrast) or not asked.is_one_probability:
        return notes
    from twoway.checks.probability_range import quick_probability_range

    event, given = condition_labels(pmf.schema, asked.targets), condition_labels(pmf.schema, asked.given)
    bounds = quick_probability_range(pmf.counts.published or pmf.counts.tables, event, given, None)
    if bounds is not None:
        notes.append(
            f"joints with exactly these tables have from {bounds.low:.4f} to {bounds.high:.4f}; the range is wider "
            "if the tables are samples or rounded"
        )
    return notes


def open_as_never_together(pmf: JointPMF, asked: Question | Contrast) -> str:
    """Return a note if no record or table shows two of the variables of a question together.

    It is empty if one does, or if that is not known.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> from twoway.questions.language import parse
    >>> nothing = [None] * 2
    >>> pmf = fit({"a": [0, 1, *nothing], "b": [0, 1, 1, 0], "c": [*nothing, 0, 1]}, rank=1)
    >>> open_as_never_together(pmf, parse("P(a | c)", pmf.schema))
    "no record shows 'a' and 'c' together: the answer rests on how each depends on 'b', and on the rank of 1"
    """
    between = (pmf.counts.between(side.names) for side in asked.sides) if pmf.counts is not None else ()
    if pmf.counts is None or (unseen := next(filter(None, between), None)) is None:
        return ""
    (first, second), bridges = map(brief, unseen[0]), unseen[1]
    what = "record" if pmf.counts.singles.size else "table"
    # In a tree, the variables between two others decide how they depend; with one hidden variable, the rank does.
    is_tree = pmf.report is not None and pmf.report.solver.startswith("tree")
    how = [f"how each depends on {shortlist(bridges, 6)}"] if bridges else []
    how += [] if is_tree and how else [f"the rank of {pmf.rank}"]
    return f"no {what} shows {first} and {second} together: the answer rests on {', and on '.join(how)}"


def open_beyond_universe(pmf: JointPMF, asked: Question | Contrast) -> str:
    """Return a note if a question is also about people for whom no table shows one of its variables.

    It is empty if tables show all variables for all people, or if the question excludes the others.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> from twoway.questions.language import parse
    >>> from twoway.tables.published.tables import PublishedTable, PublishedTables
    >>> ages = PublishedTable.of("age", {"0-14": 20, "15+": 80})
    >>> work = PublishedTable.of("work", {"yes": 50, "no": 30}, within={"age": "15+"})
    >>> pmf = fit(PublishedTables.of([ages, work]))
    >>> open_beyond_universe(pmf, parse("P(work)", pmf.schema))
    "no table shows 'work' for people with age = 0-14: for them the answer is a guess"
    >>> open_beyond_universe(pmf, parse("P(work | age = 15+)", pmf.schema))
    ''
    """
    published = None if pmf.counts is None else pmf.counts.published
    if published is None:
        return ""
    for side in asked.sides:
        restricted = condition_codes(pmf.schema, (*side.targets, *side.given))
        for name in side.names:
            for other, codes in published.unknown_parts(name).items():
                if unknown := [code for code in codes if code in restricted.get(other, codes)]:
                    labels = tuple(pmf.schema[other].categories[code] for code in unknown)
                    who = Term(other, "in", labels) if len(labels) > 1 else Term(other, "=", labels)
                    return f"no table shows {brief(name)} for people with {who}: for them the answer is a guess"
    return ""
