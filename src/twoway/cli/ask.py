"""``twoway ask``: questions to a model, in the language of probability; and its prompt, with history and completion."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import twoway as tw
from twoway.cli.output import check_output, is_terminal, say
from twoway.errors import TwowayError
from twoway.text import counted

_HISTORY_LINES = 1000


def ask(
    model: Path,
    questions: list[str] | None = None,
    *,
    base: float | None = None,
    interval: bool = False,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Answer questions: P probability, E expected value, mode, H entropy, I mutual information; P - P, P / P.

    Without a question, a prompt opens that completes names with Tab. Names and labels that contain any of
    , | ; ( ) { } = < > need quotes.

    Parameters
    ----------
    questions : QUESTION
        Questions; - reads them from standard input, one per line.
    base
        The base of the logarithm of H and I (default: nats).
    interval
        Show an interval for each answer; needs a fit with --intervals.
    out
        A CSV, TSV, Parquet or Arrow file with a row for each number; or JSON.

    Examples
    --------
    twoway ask survey.twoway "P(vote | age = 30-39, region in {north, east})"

    twoway ask survey.twoway "P(vote = yes)" "E(rating | genre = drama)" "P(rating >= 4 | age)"

    twoway ask survey.twoway "P(vote = yes | age = 18-39) - P(vote = yes | age = 40+)" "P(vote | age) / P(vote)"

    twoway ask survey.twoway "P(vote | age)" -o answers.csv

    twoway ask survey.twoway "mode(vote, age | region = north)" "H(vote)" "I(vote; age | region)"
    """
    from twoway.cli.answers import (
        answers_to_print,
        print_answer_notes,
        print_answers,
        printed_answer,
        read_questions,
        write_answers,
    )

    check_output(out, force, model, is_records=True)
    boot = tw.Bootstrap.load(model) if interval else None
    pmf = tw.JointPMF.load(model) if boot is None else boot.pmf
    if out is not None:
        contents: list[dict[str, Any]] = []
        try:
            texts = read_questions(questions or ["-"])
            answers = answers_to_print(texts, lambda question: printed_answer(pmf, question, base, boot))
            contents.extend(content for content, _ in answers)
        finally:  # if some questions cannot be answered, the answers to the others are written
            if contents:
                write_answers(contents, out)
        for content in contents:
            print_answer_notes(content, is_one=len(contents) == 1)
    elif not questions and is_terminal(sys.stdin):
        ask_at_prompt(pmf, lambda question: print_answers(pmf, [question], base=base, boot=boot))
    else:
        print_answers(pmf, read_questions(questions or ["-"]), base=base, boot=boot, json=json)


def ask_at_prompt(pmf: tw.JointPMF, respond: Callable[[str], None]) -> None:
    """Let ``respond`` answer questions until the end of input; an error does not end the prompt."""
    names = pmf.schema.names
    more = f", … ({len(names) - 12} more)" if len(names) > 12 else ""
    say(f"{counted(len(names), 'variable')}: {', '.join(names[:12])}{more}")
    say("Ask a question, such as P(a | b = x). Tab completes names, ? lists variables, Ctrl-D ends.")
    with _ask_with_readline(pmf):
        while True:
            try:
                text = input("twoway> ").strip()
            except EOFError:
                say()
                return
            except KeyboardInterrupt:
                say()
                continue
            if text in ("quit", "exit"):
                return
            if text == "?":
                for variable in pmf.schema:
                    say(f"{variable.name}: {', '.join(map(str, variable.categories))}")
            elif text:
                try:
                    respond(text)
                except TwowayError as error:
                    say(str(error))


def ask_history_file() -> Path:
    """Return the file with the history of questions."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "twoway" / "history"


@contextlib.contextmanager
def _ask_with_readline(pmf: tw.JointPMF) -> Iterator[None]:
    """Set up completion and history, if Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    from twoway.questions.language import complete_question
    from twoway.questions.question import STOPS

    path = ask_history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)

    def completer(text: str, state: int) -> str | None:
        completions = complete_question(readline.get_line_buffer()[: readline.get_endidx()], pmf.schema)
        return completions[state] if state < len(completions) else None

    readline.set_completer_delims(STOPS)
    readline.set_completer(completer)
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield
    finally:
        # If the folder cannot be written to, only the history is lost.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
