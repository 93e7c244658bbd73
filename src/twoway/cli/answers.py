"""Questions to a model and their answers, without the parser of arguments: this must start at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twoway.cli.terminal import is_terminal, note, say, say_json
from twoway.model.pmf import JointPMF
from twoway.questions import Question, parse
from twoway.questions import ask as answer_question
from twoway.questions.answer import allowed_codes, evidence

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from twoway.questions import Answer
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
    """Print the answers to questions or write them to a file; "-" for those on standard input; none open a prompt."""
    boot = None
    if interval:
        from twoway.uncertainty.bootstrap import Bootstrap

        boot = Bootstrap.load(model)
    pmf = JointPMF.load(model) if boot is None else boot.pmf
    if out is not None:
        from twoway.cli.answer_files import write_answers

        contents = [answer(pmf, text, base, boot) for text in _lines(questions or ["-"])]
        write_answers([_data(content) for content in contents], out)
        for content in contents:
            for one in content["notes"]:
                note(one)
        return
    if not questions and is_terminal(sys.stdin):
        from twoway.cli.prompt import converse

        converse(pmf, lambda text: show(answer(pmf, text, base, boot)))
        return
    print_answers(pmf, list(_lines(questions or ["-"])), base=base, boot=boot, json=json)


def print_answers(
    pmf: JointPMF, asked: list[str], *, base: float | None = None, boot: Bootstrap | None = None, json: bool = False
) -> None:
    """Print the answer to each question, under the question where there are several."""
    for number, text in enumerate(asked):
        content = answer(pmf, text, base, boot)
        if json:
            say_json(_data(content))
            continue
        if len(asked) > 1:
            say(("\n" if number else "") + content["question"])
        show(content)


def _data(content: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without its text for people."""
    return {key: value for key, value in content.items() if key != "text"}


def _lines(questions: Iterable[str]) -> Iterator[str]:
    for text in questions:
        if text != "-":
            yield text
            continue
        for read in sys.stdin:
            line = read.removeprefix("\ufeff")  # which some editors begin a file with
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip()


def answer(pmf: JointPMF, text: str, base: float | None = None, boot: Bootstrap | None = None) -> dict[str, Any]:
    """Return a question, its answer and what should be known about it, as plain data and one text.

    Replicates of the model, where there are any, say how sure the answer is.
    """
    question = parse(text, pmf.schema)
    found = answer_question(pmf, question, base=base)
    content: dict[str, Any] = {"question": str(question), **_content(question, found, base)}
    if boot is not None:
        content |= _interval(boot, question, found, content["text"], base)
    known = evidence(pmf.schema, question.given)
    if known:
        content["evidence_probability"] = pmf.prob(known)
    content["notes"] = [*content.get("notes", ()), *_notes(pmf, question, content.get("evidence_probability"))]
    return content


def _content(question: Question, found: Answer, base: float | None) -> dict[str, Any]:
    from twoway.data.distribution import Distribution
    from twoway.model.mode import Mode

    if isinstance(found, Distribution):
        axes = [{"variable": variable.name, "categories": list(variable.categories)} for variable in found.variables]
        return {
            "axes": axes,
            "probabilities" if found.quantity == "probability" else "values": found.array.tolist(),
            "text": found.to_text(whole=not is_terminal(sys.stdout)),
        }
    if isinstance(found, Mode):
        lines = [f"{name} = {label}" for name, label in found.values.items()]
        told = f"probability {found.probability:.4g}" + ("" if found.proven else ", not proven to be the highest")
        return {
            "mode": found.values,
            "probability": found.probability,
            "proven": found.proven,
            "text": "\n".join([*lines, told]),
        }
    unit = {None: " nats", 2.0: " bits"}.get(base, f" (base {base:g})" if base else "") if question.kind in "HI" else ""
    error = getattr(found, "standard_error", 0.0)
    more = f" ± {error:.2g}" if error else ""
    return {"value": float(found), "standard_error": error, "text": f"{_number(float(found))}{more}{unit}"}


def _interval(boot: Bootstrap, question: Question, found: Answer, text: str, base: float | None) -> dict[str, Any]:
    """Return the ends of an answer's interval, and the answer with them as text."""
    import numpy as np

    from twoway.data.distribution import Distribution
    from twoway.model.intervals import IntervalTable, Scale
    from twoway.model.mode import Mode
    from twoway.questions.answer import suppose

    if isinstance(found, Mode):
        names = [term.name for term in question.targets]
        same = [suppose(one, question.given).mode(names).values == found.values for one in boot.replicates]
        return {"agreement": float(np.mean(same)), "text": f"{text}\n{np.mean(same):.0%} of the replicates agree"}
    scales: dict[str, Scale] = {"P": "probability", "E": "real"}
    targets = [term.name for term in question.targets]
    about = [*targets, *(term.name for term in (*question.others, *question.given))]

    def own(one: JointPMF) -> float:
        return sum(float(suppose(one, question.given).entropy(name, base)) for name in targets)

    ends, note = boot.answer(
        lambda one: np.asarray(answer_question(one, question, base=base)),
        scales.get(question.kind, "nonnegative"),
        about,
        own if question.kind == "H" else None,
        _cells(boot.pmf, question, found) if question.kind == "P" else (),
    )
    told = {"low": ends.low.tolist(), "high": ends.high.tolist(), "level": boot.level, "notes": [note] if note else []}
    if isinstance(found, Distribution):
        low, high = (Distribution(found.variables, end) for end in (ends.low, ends.high))
        table = IntervalTable(found, low, high, level=boot.level)
        return {**told, "text": table.to_text(whole=not is_terminal(sys.stdout))}
    shown = f"{_number(float(ends.low))} to {_number(float(ends.high))}"
    return {**told, "text": f"{text} ({boot.level:.0%}: {shown})"}


def _cells(pmf: JointPMF, question: Question, found: Answer) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the event and what is known, for each probability in an answer."""
    from twoway.data.distribution import Distribution

    event, known = evidence(pmf.schema, question.targets), evidence(pmf.schema, question.given)
    if not isinstance(found, Distribution):
        return [(event, known)]
    groups = [term.name for term in question.given if not term.operator]
    targets = [term.name for term in question.targets]
    return [
        (event or {name: cell[name] for name in targets}, known | {name: cell[name] for name in groups})
        for cell in found.events()
    ]


def _number(value: float) -> str:
    return f"{value:.4f}" if value == 0 or 0.0005 <= abs(value) < 1e6 else f"{value:.3g}"


def _notes(pmf: JointPMF, question: Question, probability: float | None) -> Iterator[str]:
    """Yield what keeps an answer from being misread."""
    for term in (*question.targets, *question.given):
        variable = pmf.schema[term.name]
        by_order = variable.values is None and term.labels and variable.find(term.labels[0]) is not None
        if term.operator[:1] in ("<", ">") and by_order:
            meant = [str(variable.categories[code]) for code in allowed_codes(variable, term)]
            if len(meant) > _SHOWN_LABELS:
                meant = [*meant[:2], "…", f"{meant[-1]} ({len(meant)} categories)"]
            yield f"{term} goes by the order of the categories, and means {', '.join(meant)}"
    n_records = None if pmf.report is None else pmf.report.n_records
    if probability is not None and n_records and probability * n_records < 10:
        yield (
            f"what is known has probability {probability:.2g}: about {probability * n_records:.2g} of the "
            f"{n_records:,.0f} records, so the answer rests on the model more than on them"
        )


def show(content: dict[str, Any]) -> None:
    """Print an answer for people."""
    say(content["text"])
    for one in content["notes"]:
        note(one)
