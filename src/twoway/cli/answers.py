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
from twoway.questions.answer import Answer, IntervalAnswer, answer_of, ask, question_to_answer
from twoway.questions.conditions import condition_labels, condition_term_codes
from twoway.questions.observed import is_observed_table_off, observed
from twoway.questions.open_answers import open_notes
from twoway.questions.question import Contrast, Question, question_word
from twoway.text import crossed_text, shortlist

_SHOWN_LABELS, _SHOWN_PAIRS = 8, 3
_RECORDS, _EFFECTIVE = ("records", "other_records"), ("effective_records", "other_effective_records")
_NUMBERS = ("value", "low", "high", "observed", *_RECORDS, *_EFFECTIVE)

T = TypeVar("T")


def read_questions(questions: list[str]) -> list[str]:
    """Return the questions, with the lines of standard input in place of "-"."""
    texts: list[str] = []
    for question in questions:
        if question == "-":
            lines = [line.removeprefix("\ufeff").strip() for line in sys.stdin]  # some editors write a byte-order mark
            texts += [line for line in lines if line and not line.startswith("#")]
        else:
            texts.append(question)
    return texts


def print_answers(
    pmf: tw.JointPMF,
    questions: list[str],
    *,
    base: float | None = None,
    boot: tw.Bootstrap | None = None,
    json: bool = False,
) -> None:
    """Print the answer to each question, below the question if there are several."""
    answers = answers_to_print(questions, lambda question: printed_answer(pmf, question, base, boot))
    for number, (content, text) in enumerate(answers):
        if json:
            say_json(content)
            continue
        if len(questions) > 1:
            say(("\n" if number else "") + content["question"])
        say(text)
        print_answer_notes(content, is_one=len(questions) == 1)


def print_answer_notes(content: dict[str, Any], *, is_one: bool) -> None:
    """Print the notes on an answer; with the question if there are several."""
    for note in content["notes"]:
        print_note(note if is_one else f"{content['question']}: {note}")


def answers_to_print(questions: Sequence[str], answer: Callable[[str], T]) -> Iterator[T]:
    """Yield the answer to each question; those that cannot be answered are reported together at the end."""
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
    pmf: tw.JointPMF, asked: str, base: float | None = None, boot: tw.Bootstrap | None = None
) -> tuple[dict[str, Any], str]:
    """Return the answer to a question as plain data, with notes, and as text.

    Replicates of the model add an interval to the answer, and its counts what was observed.
    """
    question = question_to_answer(pmf, asked)
    result = answer_of(pmf, question, base)
    with_interval = None if boot is None else ask(boot, question, base=base)
    seen = observed(pmf, question)
    beside = {} if seen is None else seen.columns
    content, text = _printed_answer_itself(question, result, with_interval, base, beside)
    content = {"question": str(question), **content, **{name: numbers.tolist() for name, numbers in beside.items()}}
    notes = [getattr(with_interval, "note", "")]
    notes += [note for side in question.sides for note in _printed_answer_difference(pmf, side)]
    if "tables allow" not in notes[0]:
        notes += open_notes(pmf, question, has_interval=boot is not None)
    if isinstance(result, tw.Distribution) and isinstance(question, Contrast) and question.operator == "/":
        n_without = int(np.isnan(result.array).sum())
        if n_without and not np.asarray(answer_of(pmf, question.second)).all():
            zero = f"{question.second} is 0 there under the model"
            notes.append(f"{n_without} of {result.array.size} ratios have no value: {zero}")
    for side in question.sides:
        known = condition_labels(pmf.schema, side.given)
        probability = pmf.prob(known) if known else None
        if probability is not None and side is question:
            content["evidence_probability"] = probability
        notes += _printed_answer_notes(pmf, side, probability)
    content["notes"] = list(dict.fromkeys(filter(None, notes)))
    return content, text


def _printed_answer_itself(
    question: Question | Contrast,
    result: Answer,
    interval: IntervalAnswer | None,
    base: float | None,
    beside: dict[str, Any],
) -> tuple[dict[str, Any], str]:
    """Return an answer, with its interval if there are replicates, as plain data and as text."""
    ends: dict[str, Any] = {}
    if isinstance(interval, tw.Interval | tw.IntervalTable):
        low, high = (np.asarray(end).tolist() for end in (interval.low, interval.high))
        ends = {"low": low, "high": high, "level": interval.level}
    if isinstance(result, tw.Distribution):
        axes = [{"variable": variable.name, "categories": list(variable.categories)} for variable in result.variables]
        key = "probabilities" if result.quantity == "probability" else "values"
        table = interval if isinstance(interval, tw.IntervalTable) else result
        text = table.to_text(whole=not is_terminal(sys.stdout), beside=beside)
        return {"axes": axes, key: result.array.tolist(), **ends}, text
    if isinstance(result, tw.Mode):
        lines = [f"{name} = {label}" for name, label in result.values.items()]
        lines.append(f"probability {result.probability:.4g}{'' if result.proven else ', not proven to be the highest'}")
        content = {"mode": result.values, "probability": result.probability, "proven": result.proven}
        if interval is not None:
            content["agreement"] = agreement = interval.agreement  # type: ignore[union-attr]  # a SureMode
            lines += [] if np.isnan(agreement) else [f"{agreement:.0%} of the replicates agree"]
        return content, "\n".join(lines)
    has_unit = question.sides[0].kind in "HI"
    unit = {None: " nats", 2.0: " bits"}.get(base, f" (base {base:g})" if base else "") if has_unit else ""
    error = getattr(result, "standard_error", 0.0)
    text = f"{_printed_answer_number(float(result))}{f' ± {error:.2g}' if error else ''}{unit}"
    if ends:
        text += f" ({ends['level']:.0%}: {' to '.join(map(_printed_answer_number, (low, high)))})"
    if beside:
        records = f" ({_printed_answer_base(beside)})" if "records" in beside else ""
        share = float(beside["observed"])
        text += f", observed {'–' if np.isnan(share) else _printed_answer_number(share)}{records}"
    return {"value": float(result), "standard_error": error, **ends}, text


def _printed_answer_base(beside: dict[str, Any], place: int = 0) -> str:
    """Return in words the number of records behind a share, and the effective number if they have weights."""
    records, effective = (
        " and ".join(f"{np.ravel(beside[name])[place]:,.0f}" for name in names if name in beside)
        for names in (_RECORDS, _EFFECTIVE)
    )
    weighted = f" that count as {effective}" if effective else ""
    return f"{records} {'record' if records == '1' else 'records'}{weighted}"


def _printed_answer_difference(pmf: tw.JointPMF, question: Question) -> Iterator[str]:
    """Yield a note if an answer and what was observed differ by more than chance.

    For shares of two variables, this is so if `twoway check` calls their table off. Answers about more variables rest
    on the tables of these.
    """
    names, is_share = question.names, question.kind == "P"
    if question.kind not in ("P", "E"):
        return
    if len(names) > 2:
        pairs = [pair for pair in itertools.combinations(names, 2) if is_observed_table_off(pmf, pair)]
        if pairs:
            tables = shortlist([crossed_text(pair) for pair in pairs], _SHOWN_PAIRS)
            yield f"this answer rests on {tables}, where observed and modelled shares differ by more than chance"
        return
    seen = observed(pmf, question)
    if seen is None or not (seen.records > 0).any():
        return
    result = answer_of(pmf, question)
    modelled = np.asarray(result)
    is_table = is_share and len(names) == 2
    if not (is_observed_table_off(pmf, names) if is_table else seen.most_unlike(modelled) is not None):
        return
    worst = int(np.abs(seen.residuals(modelled)).argmax())
    cell = result.events()[worst] if isinstance(result, tw.Distribution) else {}
    where = ", ".join(f"{question_word(name)} = {question_word(label)}" for name, label in cell.items())
    base = _printed_answer_base(seen.columns, worst)
    yield (
        f"observed and modelled {'shares' if is_share else 'means'} differ by more than chance"
        f"{', most at ' if where else ''}{where}: observed {seen.shares.flat[worst]:.4f} of {base}, "
        f"modelled {modelled.flat[worst]:.4f}"
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
    from twoway.data.files.writing import write_data_file, written_format
    from twoway.storage.atomic_files import atomic_file

    if written_format(path) != "json":
        write_data_file(_written_answers(contents), path)
        return
    lines = [output_json(content) for content in contents]
    text = "[\n" + ",\n".join(lines) + "\n]" if path.suffix.lower() == ".json" else "\n".join(lines)
    with atomic_file(path) as stream:
        stream.write(f"{text}\n".encode())


def _written_answers(contents: list[dict[str, Any]]) -> Any:
    """Return an Arrow table with a row for each number; variables that are not in the question are null."""
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
    """Yield the question, the labels, and the numbers of each row, for each number in an answer."""
    axes = content.get("axes", [])
    key = next(key for key in ("probabilities", "values", "value", "probability") if key in content)
    arrays = {"value": np.ravel(content[key])}
    arrays |= {name: np.ravel(content[name]) for name in _NUMBERS[1:] if name in content}
    for place, cell in enumerate(itertools.product(*(axis["categories"] for axis in axes))):
        labels = dict(zip([axis["variable"] for axis in axes], cell, strict=True)) | content.get("mode", {})
        numbers = {name: float(array[place]) for name, array in arrays.items() if np.isfinite(array[place])}
        yield content["question"], labels, numbers
