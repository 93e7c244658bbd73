"""Answers that what the model was fitted to leaves open: why, and what it allows."""

from __future__ import annotations

from twoway.model.pmf import JointPMF
from twoway.questions.conditions import condition_codes, condition_labels
from twoway.questions.question import Contrast, Question, Term
from twoway.text import brief, shortlist


def open_notes(pmf: JointPMF, asked: Question | Contrast) -> list[str]:
    """Return in words why what the model was fitted to leaves an answer open, and what it allows of one probability."""
    notes = [note for note in (open_as_never_together(pmf, asked), open_beyond_universe(pmf, asked)) if note]
    if not notes or pmf.counts is None or pmf.counts.singles.size:
        return notes
    if isinstance(asked, Contrast) or not asked.is_one_probability:
        return notes
    from twoway.checks.probability_range import quick_probability_range

    event, given = condition_labels(pmf.schema, asked.targets), condition_labels(pmf.schema, asked.given)
    found = quick_probability_range(pmf.counts.published or pmf.counts.tables, event, given, None)
    if found is not None:
        notes.append(
            f"joints with exactly these tables have from {found.low:.4f} to {found.high:.4f}; allowing for sampling "
            "and rounding of the tables, more is possible"
        )
    return notes


def open_as_never_together(pmf: JointPMF, asked: Question | Contrast) -> str:
    """Return in words that nothing the model was fitted to shows two of the variables asked for together.

    Empty where something does, or where it is not known.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> from twoway.questions.language import parse
    >>> nothing = [None] * 2
    >>> pmf = fit({"a": [0, 1, *nothing], "b": [0, 1, 1, 0], "c": [*nothing, 0, 1]}, rank=1)
    >>> open_as_never_together(pmf, parse("P(a | c)", pmf.schema))
    "no record shows 'a' and 'c' together: the answer rests on what each has to do with 'b', and on the rank of 1"
    """
    between = (pmf.counts.between(side.names) for side in asked.sides) if pmf.counts is not None else ()
    if pmf.counts is None or (found := next(filter(None, between), None)) is None:
        return ""
    what, (first, second) = "record" if pmf.counts.singles.size else "table", map(brief, found[0])
    # A tree makes of two variables what those between them imply; of one hidden variable, the rank decides.
    is_tree = pmf.report is not None and pmf.report.solver.startswith("tree")
    how = [f"what each has to do with {shortlist(found[1], 6)}"] if found[1] else []
    how += [] if is_tree and how else [f"the rank of {pmf.rank}"]
    return f"no {what} shows {first} and {second} together: the answer rests on {', and on '.join(how)}"


def open_beyond_universe(pmf: JointPMF, asked: Question | Contrast) -> str:
    """Return in words that a question is also about people for whom no table shows one of its variables.

    Empty where tables show it for all people, or the question leaves the others out.

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
                if left := [code for code in codes if code in restricted.get(other, codes)]:
                    labels = tuple(pmf.schema[other].categories[code] for code in left)
                    who = Term(other, "in", labels) if len(labels) > 1 else Term(other, "=", labels)
                    return f"no table shows {brief(name)} for people with {who}: for them the answer is a guess"
    return ""
