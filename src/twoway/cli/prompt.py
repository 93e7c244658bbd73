"""The prompt of ``twoway ask``, with history and completion."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from twoway.cli.terminal import say
from twoway.errors import TwowayError
from twoway.questions.language import STOPS, complete_question

if TYPE_CHECKING:
    from twoway.model.pmf import JointPMF

_HISTORY_LINES = 1000


def converse(pmf: JointPMF, respond: Callable[[str], None]) -> None:
    """Let ``respond`` answer questions until the end of input; an error does not end the prompt."""
    names = pmf.schema.names
    shown = ", ".join(names[:12]) + (f", … ({len(names) - 12} more)" if len(names) > 12 else "")
    say(f"{len(names)} variables: {shown}")
    say("Ask a question, such as P(a | b = x). Tab completes names, ? lists variables, Ctrl-D ends.")
    with _readline(pmf):
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


def history_file() -> Path:
    """Return the file of the history of questions."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "twoway" / "history"


@contextlib.contextmanager
def _readline(pmf: JointPMF) -> Iterator[None]:
    """Set up completion and history, if Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
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
