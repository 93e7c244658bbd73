"""Answers to questions, printed or written, without the argument parser, whose import takes longer than an answer."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import twoway as tw
from twoway.cli.output import is_terminal, output_json, output_wording, print_note, say, say_json
from twoway.errors import DataError, QuestionError, TwowayError
from twoway.questions import Answer, Contrast, Question, ask
from twoway.questions.answer import answer_of, question_to_answer
from twoway.questions.conditions import condition_labels, condition_term_codes
from twoway.questions.observed import is_observed_table_off, observed
from twoway.questions.open_answers import open_as_never_together, open_beyond_universe, open_notes
from twoway.questions.question import question_word

_SHOWN_LABELS = 8
_RECORDS, _EFFECTIVE = ("records", "other_records"), ("effective_records", "other_effective_records")
_NUMBERS = ("value", "low", "high", "observed", *_RECORDS, *_EFFECTIVE)

T = TypeVar("T")


def read_questions(questions: list[str]) -> list[str]:
    """Return the questions, with those of standard input, a line each, in place of "-"."""
    read: list[str] = []
    for question in questions:
        if question == "-":
            lines = [line.removeprefix("\ufeff").strip() for line in sys.stdin]  # some editors write a byte-order mark
            read += [line for line in lines if line and not line.startswith("#")]
        else:
            read.append(question)
    return read


def print_answers(
    pmf: tw.JointPMF,
    questions: list[str],
    *,
    base: float | None = None,
    boot: tw.Bootstrap | None = None,
    json: bool = False,
) -> None:
    """Print the answer to each question, below the question if there are several."""
    for number, (content, text) in enumerate(
        answers_to_print(questions, lambda asked: printed_answer(pmf, asked, base, boot))
    ):
        if json:
            say_json(content)
            continue
        if len(questions) > 1:
            say(("\n" if number else "") + content["question"])
        say(text)
        print_answer_notes(content, is_one=len(questions) == 1)


def print_answer_notes(content: dict[str, Any], *, is_one: bool) -> None:
    """Print the notes on an answer, each with the question where others are asked, too."""
    for remark in content["notes"]:
        print_note(remark if is_one else f"{content['question']}: {remark}")


def answers_to_print(questions: Sequence[str], answer: Callable[[str], T]) -> Iterator[T]:
    """Yield the answer to each question; one without an answer is reported at the end, with its text, as an error."""
    errors: list[str] = []
    for question in questions:
        try:
            answered = answer(question)
        except TwowayError as error:
            if len(questions) == 1:
                raise
            message = str(error)
            errors.append(message if question in message else f"{question}: {message}")
        else:
            yield answered
    for message in errors:
        say(f"twoway: {output_wording(message)}", err=True)
    if errors:
        raise QuestionError(f"of {len(questions)} questions, {len(errors)} could not be answered")


def printed_answer(
    pmf: tw.JointPMF, text: str, base: float | None = None, boot: tw.Bootstrap | None = None
) -> tuple[dict[str, Any], str]:
    """Return the answer to a question as plain data, with notes, and as text.

    Replicates of the model add an interval to the answer, and its counts what was observed.
    """
    question = question_to_answer(pmf, text)
    result = answer_of(pmf, question, base)
    seen = observed(pmf, question)
    beside = {} if seen is None else seen.columns
    content, shown = _printed_answer_itself(question, result, base, beside)
    content = {"question": str(question), **content}
    notes: list[str] = []
    if boot is not None:
        sure = ask(boot, question, base=base)
        interval, shown = _printed_answer_interval(sure, shown, beside)
        content |= interval
        notes += [sure.note] if isinstance(sure, tw.Interval | tw.IntervalTable) and sure.note else []
    if seen is not None:
        content |= {name: numbers.tolist() for name, numbers in beside.items()}
        shown += _printed_answer_observed(beside) if isinstance(result, float) else ""
        notes += dict.fromkeys(text for side in question.sides for text in _printed_answer_difference(pmf, side))
    if boot is None:
        notes += open_notes(pmf, question)
    elif not any("tables allow" in said for said in notes):  # the interval contains all that they do
        notes += filter(None, [open_as_never_together(pmf, question), open_beyond_universe(pmf, question)])
    if isinstance(result, tw.Distribution) and isinstance(question, Contrast) and question.operator == "/":
        zeros = 0 if np.asarray(answer_of(pmf, question.second)).all() else int(np.isnan(result.array).sum())
        said = f"{zeros} of {result.array.size} ratios have no value: {question.second} is 0 there under the model"
        notes += [said] if zeros else []
    for side in question.sides:
        known = condition_labels(pmf.schema, side.given)
        probability = pmf.prob(known) if known else None
        if probability is not None and side is question:
            content["evidence_probability"] = probability
        notes += _printed_answer_notes(pmf, side, probability)
    content["notes"] = list(dict.fromkeys(notes))
    return content, shown


def _printed_answer_itself(
    question: Question | Contrast, result: Answer, base: float | None, beside: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    if isinstance(result, tw.Distribution):
        axes = [{"variable": variable.name, "categories": list(variable.categories)} for variable in result.variables]
        key = "probabilities" if result.quantity == "probability" else "values"
        shown = result.to_text(whole=not is_terminal(sys.stdout), beside=beside)
        return {"axes": axes, key: result.array.tolist()}, shown
    if isinstance(result, tw.Mode):
        lines = [f"{name} = {label}" for name, label in result.values.items()]
        lines.append(f"probability {result.probability:.4g}{'' if result.proven else ', not proven to be the highest'}")
        content = {"mode": result.values, "probability": result.probability, "proven": result.proven}
        return content, "\n".join(lines)
    has_unit = question.sides[0].kind in "HI"
    unit = {None: " nats", 2.0: " bits"}.get(base, f" (base {base:g})" if base else "") if has_unit else ""
    error = getattr(result, "standard_error", 0.0)
    shown = f"{_printed_answer_number(float(result))}{f' ± {error:.2g}' if error else ''}{unit}"
    return {"value": float(result), "standard_error": error}, shown


def _printed_answer_interval(sure: Any, text: str, beside: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what replicates say of an answer, and the answer with that as text."""
    if isinstance(sure, tw.Mode):
        agreement = sure.agreement  # type: ignore[attr-defined]  # of a model with replicates
        said = "" if np.isnan(agreement) else f"\n{agreement:.0%} of the replicates agree"
        return {"agreement": agreement}, text + said
    if isinstance(sure, tw.IntervalTable):
        content = {"low": sure.low.array.tolist(), "high": sure.high.array.tolist(), "level": sure.level}
        return content, sure.to_text(whole=not is_terminal(sys.stdout), beside=beside)
    content = {"low": sure.low, "high": sure.high, "level": sure.level}
    low, high = _printed_answer_number(sure.low), _printed_answer_number(sure.high)
    return content, f"{text} ({sure.level:.0%}: {low} to {high})"


def _printed_answer_observed(beside: dict[str, Any]) -> str:
    """Return what was observed of one probability, behind the modelled one."""
    base = f" ({_printed_answer_base(beside)})" if "records" in beside else ""
    share = float(beside["observed"])
    return f", observed {'–' if share != share else _printed_answer_number(share)}{base}"


def _printed_answer_base(beside: dict[str, Any], place: int = 0) -> str:
    """Return in words how many records a share rests on, and how many they count as because of their weights."""
    records, effective = (
        " and ".join(f"{np.ravel(beside[name])[place]:,.0f}" for name in names if name in beside)
        for names in (_RECORDS, _EFFECTIVE)
    )
    weighted = f" that count as {effective}" if effective else ""
    return f"{records} {'record' if records == '1' else 'records'}{weighted}"


def _printed_answer_difference(pmf: tw.JointPMF, question: Question) -> Iterator[str]:
    """Yield a line where what was observed differs from the answer by more than chance.

    For two variables, that is where `twoway check` calls their table off.
    """
    seen, result, names = observed(pmf, question), answer_of(pmf, question), question.names
    if question.kind != "P" or seen is None or not (seen.records > 0).any():
        return
    modelled = np.asarray(result)
    is_off = is_observed_table_off(pmf, names) if len(names) == 2 else seen.most_unlike(modelled) is not None
    if not is_off:
        return
    worst = int(np.abs(seen.residuals(modelled)).argmax())
    cell = result.events()[worst] if isinstance(result, tw.Distribution) else {}
    where = ", ".join(f"{question_word(name)} = {question_word(label)}" for name, label in cell.items())
    base = _printed_answer_base(seen.columns, worst)
    yield (
        f"observed and modelled shares differ by more than chance{', most at ' if where else ''}{where}: "
        f"observed {seen.shares.flat[worst]:.4f} of {base}, modelled {float(modelled.flat[worst]):.4f}"
    )


def _printed_answer_number(value: float) -> str:
    return f"{value:.4f}" if value == 0 or 0.0005 <= abs(value) < 1e6 else f"{value:.3g}"


def _printed_answer_notes(pmf: tw.JointPMF, question: Question, probability: float | None) -> Iterator[str]:
    """Yield what a reader of the answer should know."""
    for term in (*question.targets, *question.given):
        variable = pmf.schema[term.name]
        has_order = variable.values is None and term.labels and variable.find(term.labels[0]) is not None
        if term.operator[:1] in ("<", ">") and has_order:
            labels = [str(variable.categories[code]) for code in condition_term_codes(variable, term)]
            if len(labels) > _SHOWN_LABELS:
                labels = [*labels[:2], "…", f"{labels[-1]} ({len(labels)} categories)"]
            yield f"{term} selects, in the order of the categories: {', '.join(labels)}"
    n_records = None if pmf.report is None else pmf.report.n_records
    if n_records is None and pmf.counts is not None and not pmf.counts.lacks_totals:
        n_records = float(pmf.counts.totals.max(initial=0.0))
    if probability is not None and n_records and probability * n_records < 10:
        yield (
            f"the evidence has probability {probability:.2g}, about {probability * n_records:.2g} of the "
            f"{n_records:,.0f} records, so the answer rests on the model more than on the data"
        )


def write_answers(contents: list[dict[str, Any]], path: Path) -> None:
    """Write answers to a file: a list in a .json file, one per line in a .jsonl file, else a row for each number."""
    from twoway.data.files.formats import written_format
    from twoway.data.files.writing import write_data_file
    from twoway.storage.atomic_files import atomic_file

    if written_format(path) != "json":
        write_data_file(_written_answers(contents), path)
        return
    lines = [output_json(content) for content in contents]
    text = "[\n" + ",\n".join(lines) + "\n]" if path.suffix.lower() == ".json" else "\n".join(lines)
    with atomic_file(path) as stream:
        stream.write(f"{text}\n".encode())


def _written_answers(contents: list[dict[str, Any]]) -> Any:
    """Return an Arrow table with the question, categories and number of each row; a variable not asked for is null."""
    import pyarrow as pa

    rows = [row for content in contents for row in _written_answer_rows(content)]
    names = list(dict.fromkeys(name for _, labels, _ in rows for name in labels))
    numbers = [key for key in _NUMBERS if any(key in values for _, _, values in rows)]
    for name in names:
        if name in ("question", *numbers):
            raise DataError(f"the variable {name!r} has the name of a column of the file; write a .json file instead")
    columns: dict[str, list[Any]] = {"question": [question for question, _, _ in rows]}
    for name in names:
        labels_of_name = [labels.get(name) for _, labels, _ in rows]
        is_mixed = len({type(label) for label in labels_of_name if label is not None}) > 1
        columns[name] = [str(label) if is_mixed and label is not None else label for label in labels_of_name]
    for key in numbers:
        columns[key] = [values.get(key) for _, _, values in rows]
    return pa.table(columns)


def _written_answer_rows(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, float]]]:
    """Yield the question, the labels, and the number with what is known beside it, for each number of an answer."""
    axes = content.get("axes", [])
    key = next(key for key in ("probabilities", "values", "value", "probability") if key in content)
    arrays = {"value": np.ravel(content[key])}
    arrays |= {name: np.ravel(content[name]) for name in _NUMBERS[1:] if name in content}
    for place, cell in enumerate(itertools.product(*(axis["categories"] for axis in axes))):
        labels = dict(zip([axis["variable"] for axis in axes], cell, strict=True)) | content.get("mode", {})
        numbers = {name: float(array[place]) for name, array in arrays.items() if np.isfinite(array[place])}
        yield content["question"], labels, numbers
