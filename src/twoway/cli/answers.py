"""Questions to a model and their answers, without the argument parser, whose import takes longer than an answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.cli.terminal import is_terminal, note, say, say_json
from twoway.data.distribution import Distribution
from twoway.model.mode import Mode
from twoway.model.pmf import JointPMF
from twoway.questions import Answer, Question, parse
from twoway.questions import ask as answer_question
from twoway.questions.answer import asked_codes, asked_evidence, asked_given

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from twoway.uncertainty.bootstrap import Bootstrap


_SHOWN_LABELS = 8


def answer_all(
    model: str | os.PathLike[str],
    questions: list[str],
    *,
    base: float | None = None,
    interval: bool = False,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Print the answers or write them to a file; "-" reads questions from standard input; none opens a prompt."""
    boot = None
    if interval:
        from twoway.uncertainty.bootstrap import Bootstrap

        boot = Bootstrap.load(model)
    pmf = JointPMF.load(model) if boot is None else boot.pmf
    if out is not None:
        from twoway.cli.answer_files import write_answers

        contents = [answer(pmf, question, base, boot)[0] for question in _lines(questions or ["-"])]
        write_answers(contents, out)
        for text in (text for content in contents for text in content["notes"]):
            note(text)
    elif not questions and is_terminal(sys.stdin):
        from twoway.cli.prompt import converse

        converse(pmf, lambda question: _show(*answer(pmf, question, base, boot)))
    else:
        print_answers(pmf, list(_lines(questions or ["-"])), base=base, boot=boot, json=json)


def print_answers(
    pmf: JointPMF, questions: list[str], *, base: float | None = None, boot: Bootstrap | None = None, json: bool = False
) -> None:
    """Print the answer to each question, below the question if there are several."""
    for number, question in enumerate(questions):
        content, text = answer(pmf, question, base, boot)
        if json:
            say_json(content)
            continue
        if len(questions) > 1:
            say(("\n" if number else "") + content["question"])
        _show(content, text)


def _show(content: dict[str, Any], text: str) -> None:
    say(text)
    for remark in content["notes"]:
        note(remark)


def _lines(questions: Iterable[str]) -> Iterator[str]:
    for question in questions:
        if question != "-":
            yield question
            continue
        for read in sys.stdin:
            line = read.removeprefix("\ufeff").strip()  # some editors write a byte-order mark
            if line and not line.startswith("#"):
                yield line


def answer(
    pmf: JointPMF, text: str, base: float | None = None, boot: Bootstrap | None = None
) -> tuple[dict[str, Any], str]:
    """Return the answer to a question as plain data, with notes, and as text.

    Replicates of the model add an interval to the answer.
    """
    question = parse(text, pmf.schema)
    result = answer_question(pmf, question, base=base)
    content, shown = _content(question, result, base)
    content = {"question": str(question), **content}
    notes: list[str] = []
    if boot is not None:
        interval, shown = _interval(boot, question, result, shown, base, notes)
        content |= interval
    known = asked_evidence(pmf.schema, question.given)
    probability = pmf.prob(known) if known else None
    if probability is not None:
        content["evidence_probability"] = probability
    content["notes"] = [*notes, *_notes(pmf, question, probability)]
    return content, shown


def _content(question: Question, result: Answer, base: float | None) -> tuple[dict[str, Any], str]:
    if isinstance(result, Distribution):
        axes = [{"variable": variable.name, "categories": list(variable.categories)} for variable in result.variables]
        key = "probabilities" if result.quantity == "probability" else "values"
        return {"axes": axes, key: result.array.tolist()}, result.to_text(whole=not is_terminal(sys.stdout))
    if isinstance(result, Mode):
        lines = [f"{name} = {label}" for name, label in result.values.items()]
        lines.append(f"probability {result.probability:.4g}{'' if result.proven else ', not proven to be the highest'}")
        content = {"mode": result.values, "probability": result.probability, "proven": result.proven}
        return content, "\n".join(lines)
    unit = {None: " nats", 2.0: " bits"}.get(base, f" (base {base:g})" if base else "") if question.kind in "HI" else ""
    error = getattr(result, "standard_error", 0.0)
    shown = f"{_number(float(result))}{f' ± {error:.2g}' if error else ''}{unit}"
    return {"value": float(result), "standard_error": error}, shown


def _interval(
    boot: Bootstrap, question: Question, result: Answer, text: str, base: float | None, notes: list[str]
) -> tuple[dict[str, Any], str]:
    """Return the ends of an answer's interval, and the answer with them as text; add what affects them to the notes."""
    from twoway.model.intervals import IntervalTable
    from twoway.questions.answer import ask_with_interval

    targets = [term.name for term in question.targets]
    if isinstance(result, Mode):
        modes = [asked_given(replicate, question.given).mode(targets).values for replicate in boot.replicates]
        agreement = float(np.mean([mode == result.values for mode in modes]))
        return {"agreement": agreement}, f"{text}\n{agreement:.0%} of the replicates agree"
    sure = ask_with_interval(boot, question, result, base)
    notes += [sure.note] if sure.note else []
    if isinstance(sure, IntervalTable):
        content = {"low": sure.low.array.tolist(), "high": sure.high.array.tolist(), "level": boot.level}
        return content, sure.to_text(whole=not is_terminal(sys.stdout))
    content = {"low": sure.low, "high": sure.high, "level": boot.level}
    return content, f"{text} ({boot.level:.0%}: {_number(sure.low)} to {_number(sure.high)})"


def _number(value: float) -> str:
    return f"{value:.4f}" if value == 0 or 0.0005 <= abs(value) < 1e6 else f"{value:.3g}"


def _notes(pmf: JointPMF, question: Question, probability: float | None) -> Iterator[str]:
    """Yield what a reader of the answer should know."""
    for term in (*question.targets, *question.given):
        variable = pmf.schema[term.name]
        has_order = variable.values is None and term.labels and variable.find(term.labels[0]) is not None
        if term.operator[:1] in ("<", ">") and has_order:
            labels = [str(variable.categories[code]) for code in asked_codes(variable, term)]
            if len(labels) > _SHOWN_LABELS:
                labels = [*labels[:2], "…", f"{labels[-1]} ({len(labels)} categories)"]
            yield f"{term} selects, in the order of the categories: {', '.join(labels)}"
    n_records = None if pmf.report is None else pmf.report.n_records
    if probability is not None and n_records and probability * n_records < 10:
        yield (
            f"the evidence has probability {probability:.2g}, about {probability * n_records:.2g} of the "
            f"{n_records:,.0f} records, so the answer rests on the model more than on the data"
        )
