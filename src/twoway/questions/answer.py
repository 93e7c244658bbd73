"""From a question to its answer under a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.data.distribution import Distribution, Quantity
from twoway.errors import DataError, QuestionError, warn_caller
from twoway.model.information import Estimate
from twoway.model.intervals import Interval, IntervalTable, Scale
from twoway.model.mode import Mode
from twoway.model.pmf import JointPMF, pmf_of
from twoway.questions.conditions import condition_labels, model_given_conditions
from twoway.questions.language import groups_to_parse, parse
from twoway.questions.open_answers import open_notes
from twoway.questions.question import Contrast, Question, Term

if TYPE_CHECKING:
    from twoway.uncertainty.bootstrap import Bootstrap

Answer: TypeAlias = float | Estimate | Distribution | Mode
IntervalAnswer: TypeAlias = Interval | IntervalTable | Mode


@overload
def ask(pmf: JointPMF, question: str | Question | Contrast, *, base: float | None = None) -> Answer: ...
@overload
def ask(pmf: Bootstrap, question: str | Question | Contrast, *, base: float | None = None) -> IntervalAnswer: ...
def ask(
    pmf: JointPMF | Bootstrap, question: str | Question | Contrast, *, base: float | None = None
) -> Answer | IntervalAnswer:
    """Return the answer to a question in the language of probability.

    Parameters
    ----------
    pmf
        The model; or a `Bootstrap` of it, whose answers are an `Interval`, an `IntervalTable` or a `SureMode`.
    question
        ``P(vote | age = 30-39)`` is a `Distribution`, ``P(vote = yes)`` a number, as are ``E(rating | genre = drama)``,
        ``H(vote)`` and ``I(vote; age)``; ``mode(vote, age)`` is a `Mode`. ``P(vote | age)`` is the distribution of vote
        for each age, ``E(rating | genre)`` the expected rating for each genre. The difference of two P or two E, and
        their ratio, are questions, too: ``P(vote = yes | age = 18-39) - P(vote = yes | age = 40+)``,
        ``P(vote | age) / P(vote)``. docs/cli.md has the grammar.
    base
        The base of the logarithm of H and I; 2 for bits, None for nats.

    Warns
    -----
    UserWarning
        If no record or table that the model was fitted to shows two of the variables together: the answer then follows
        from their tables with others.

    Examples
    --------
    >>> from twoway.schema import Schema, Variable
    >>> schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
    >>> pmf = JointPMF([0.5, 0.5], [[[1, 0.2], [0, 0.8]], [[0.9, 0.4], [0.1, 0.6]]], schema)
    >>> round(ask(pmf, "P(vote = yes | age = old)"), 6)
    0.6
    >>> ask(pmf, "P(vote | age)")
    age \\ vote  no      yes
    young       0.8167  0.1833
    old         0.4000  0.6000
    >>> ask(pmf, "P(vote | age = old) - P(vote)")
    vote  difference
    no    -0.2500
    yes   0.2500
    """
    # Bootstrap is not imported for a model without replicates: it would cost a third of the time of `twoway ask`.
    boot, pmf = (None, pmf) if isinstance(pmf, JointPMF) else (pmf, pmf_of(pmf))
    if not isinstance(question, str | Question | Contrast):
        raise DataError(f"a question must be text, such as 'P(vote | age)', not {question!r}")
    asked = question_to_answer(pmf, question)
    if boot is not None and isinstance(asked, Question) and asked.kind == "mode":
        known_labels = condition_labels(pmf.schema, asked.given)
        return (boot.given(known_labels) if known_labels else boot).mode([term.name for term in asked.targets])
    answer = answer_of(pmf, asked, base)
    if boot is not None:  # whose notes say the rest
        return _answer_with_interval(boot, asked, answer, base)
    for unseen in open_notes(pmf, asked):
        warn_caller(unseen)
    return answer


def question_to_answer(source: Any, question: str | Question | Contrast) -> Question | Contrast:
    """Return a question about a model, records or tables as data."""
    return parse(question, source.schema, groups_to_parse(source)) if isinstance(question, str) else question


def answer_of(pmf: JointPMF, asked: Question | Contrast, base: float | None = None) -> Answer:
    """Return the answer to a question as a model without replicates gives it."""
    if isinstance(asked, Contrast):
        first, second = (np.asarray(answer_of(pmf, side)) for side in asked.sides)
        numbers = contrast_answer(asked, first, second)
        if asked.operator == "/" and not second.any():
            raise QuestionError(f"{asked} has no value: {asked.second} is 0 under the model")
        if not asked.axes:
            return float(numbers)
        quantity: Quantity = "difference" if asked.operator == "-" else "ratio"
        axes = [pmf.schema[name] for name in asked.axes]
        return Distribution(axes, numbers, quantity=quantity, library=pmf.library)
    known, groups = model_given_conditions(pmf, asked.given), asked.groups
    targets = [term.name for term in asked.targets]
    match asked.kind:
        case "P":
            return _ask_probability(known, asked.targets, groups)
        case "E":
            return _ask_expectation(known, targets[0], groups)
        case "mode":
            return known.mode(targets)
        case "H":
            whole = known.entropy([*targets, *groups], base)
            if not groups:
                return whole
            part = known.entropy(groups, base)
            return Estimate(max(0.0, whole - part), float(np.hypot(whole.standard_error, part.standard_error)))
        case _:
            others = [term.name for term in asked.others]
            return known.mutual_information(targets, others, groups or None, base)


def contrast_answer(asked: Contrast, first: Floats, second: Floats) -> Floats:
    """Return the difference or ratio of the numbers of two sides, an axis for each variable; NaN for a ratio to 0."""
    first, second = contrast_answer_sides(asked, first, second)
    if asked.operator == "-":
        return np.asarray(first - second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(second != 0, first / second, np.nan))


def contrast_answer_sides(asked: Contrast, *arrays: Floats) -> list[Floats]:
    """Return the numbers of each side with the axes of the answer; those of an axis that a side lacks are equal."""
    aligned = []
    for side, array in zip(asked.sides, arrays, strict=True):
        order = [side.axes.index(name) for name in asked.axes if name in side.axes]
        missing = [place for place, name in enumerate(asked.axes) if name not in side.axes]
        aligned.append(np.expand_dims(np.transpose(array, order), missing))
    return list(np.broadcast_arrays(*aligned))


def _answer_with_interval(
    boot: Bootstrap, asked: Question | Contrast, answer: Answer, base: float | None
) -> Interval | IntervalTable:
    """Return the answer to a question for numbers with the intervals that replicates of the model give it."""
    scale: Scale = "nonnegative"
    names, limits = asked.names, (-np.inf, np.inf)
    cells: list[tuple[dict[str, Any], dict[str, Any]]] = []
    entropies: Callable[[JointPMF], float] | None = None
    if isinstance(asked, Contrast):
        if asked.first.kind == "P":
            limits = (-1.0, 1.0) if asked.operator == "-" else (0.0, np.inf)
        scale = "nonnegative" if limits[0] == 0.0 else "real"
        # Where tables determine both sides, they determine what the two differ by, though none shows all variables.
        if boot.observed is not None and not any(boot.observed.leaves_open(side.names) for side in asked.sides):
            names = () if boot.observed.leaves_open(names) else names
    elif asked.kind == "P":
        scale, cells = "probability", _answer_cells(boot.pmf, asked, answer)
    elif asked.kind == "E":
        scale = "real"
    elif asked.kind == "H":

        def entropies(pmf: JointPMF) -> float:
            known = model_given_conditions(pmf, asked.given)
            return sum(float(known.entropy(term.name, base)) for term in asked.targets)

    ends, note = boot.answer(lambda pmf: _answer_numbers(pmf, asked, base), scale, names, entropies, cells)
    low, high = (np.clip(end, *limits) for end in (ends.low, ends.high))
    if isinstance(answer, Distribution):
        bounds = [Distribution(answer.variables, end, quantity=answer.quantity) for end in (low, high)]
        return IntervalTable(answer, *bounds, level=boot.level, note=note)
    return Interval(float(answer), float(low), float(high), boot.level, note)  # type: ignore[arg-type]


def _answer_numbers(pmf: JointPMF, asked: Question | Contrast, base: float | None) -> Floats:
    """Return the numbers of an answer; unlike in `answer_of`, a ratio may have none."""
    if isinstance(asked, Contrast):
        return contrast_answer(asked, *(np.asarray(answer_of(pmf, side)) for side in asked.sides))
    return np.asarray(answer_of(pmf, asked, base))


def _answer_cells(pmf: JointPMF, question: Question, result: Answer) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the event and the evidence of each probability in an answer."""
    event, known = condition_labels(pmf.schema, question.targets), condition_labels(pmf.schema, question.given)
    if not isinstance(result, Distribution):
        return [(event, known)]
    targets = [term.name for term in question.targets]
    return [
        (event or {name: cell[name] for name in targets}, known | {name: cell[name] for name in question.groups})
        for cell in result.events()
    ]


def event_to_answer(source: Any, text: str) -> tuple[dict[str, list[Label]], dict[str, list[Label]]]:
    """Return the event and the evidence of a question for one probability to a model, records or tables.

    Examples
    --------
    >>> from twoway.schema import Schema, Variable
    >>> schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
    >>> event_to_answer(JointPMF([1.0], [[[0.5], [0.5]]] * 2, schema), "P(vote = yes | age != old)")
    ({'vote': ['yes']}, {'age': ['young']})
    """
    question, schema = question_to_answer(source, text), source.schema
    if isinstance(question, Contrast) or not question.is_one_probability:
        raise QuestionError(f"a range needs one probability, such as P(vote = yes | age = old); got {question}")
    return condition_labels(schema, question.targets), condition_labels(schema, question.given)


def _ask_probability(pmf: JointPMF, targets: tuple[Term, ...], groups: list[str]) -> float | Distribution:
    """Return the probability of the targets' values, or the distribution of the targets, in each group."""
    event = condition_labels(pmf.schema, targets)
    if not event:
        joint = pmf.marginal([*groups, *(term.name for term in targets)])
        if not groups:
            return joint
        sums = joint.array.sum(axis=tuple(range(len(groups), joint.array.ndim)), keepdims=True)
        return Distribution(joint.variables, share_in_groups(joint.array, sums), library=pmf.library)
    probability = pmf.prob(event)
    if not groups:
        return probability
    every = pmf.marginal(groups)
    hit = pmf.given(event).marginal(groups).array * probability if probability > 0 else np.zeros_like(every.array)
    return Distribution(every.variables, share_in_groups(hit, every.array), library=pmf.library)


def _ask_expectation(pmf: JointPMF, name: str, groups: list[str]) -> float | Distribution:
    """Return the expected value of a variable, in each group."""
    whole = pmf.expect(name)  # raises if it has no numbers
    if not groups:
        return whole
    joint = pmf.marginal([*groups, name])
    sums = joint.array @ np.array(pmf.schema[name].values)
    means = share_in_groups(sums, joint.array.sum(axis=-1))
    return Distribution(joint.variables[:-1], means, quantity="expectation", library=pmf.library)


def share_in_groups(shares: Any, of: Any) -> Any:
    """Return shares of each group; NaN for a group with probability 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(of > 0, shares / of, np.nan)
