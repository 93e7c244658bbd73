"""Commands as the argument parser reads them: a function's parameters, with their help from its docstring.

These are in the help of each command that has them and says nothing else about them.

Parameters
----------
model
    A model written by `twoway fit`.
data : DATA
    Records: a CSV, TSV, Parquet, Arrow, JSON lines, SPSS, Stata, SAS or Excel file, a glob pattern or a folder.
out
    A CSV, TSV, Parquet, Arrow, JSON lines, SPSS or Stata file (default: standard output).
seed
    Seed of the random numbers.
threads
    The number of threads (default: all cores).
force
    Replace an existing output file.
json
    Print the result as one line of JSON.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from copy import copy
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin

from typer import Argument, Option

from twoway.cli.reading import Reading

_SECTION = re.compile(r"\n\n(Parameters|Examples)\n-+\n")
# What the help shows in place of a value is where numpydoc has the type.
_ENTRY = re.compile(r"^(\w+)(?: : (.+))?((?:\n +.+)+)", re.MULTILINE)
_SHORT_NAMES = {"n": ("-n",), "out": ("-o", "--out")}


def parsed_command(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer reads it.

    A parameter before ``*`` is an argument, one after it an option. A parameter
    ``reading: Annotated[Reading, "only", …]`` is the options of `Reading` named there: typer has no groups of them.
    """
    text, parameters = documented_parameters(command)
    group = parameters.pop("reading", None)
    offered: tuple[str, ...] = () if group is None else group.annotation.__metadata__
    options = documented_parameters(Reading)[1]
    parameters |= {name: options[name] for name in offered}

    @functools.wraps(command)
    def parsed(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in offered}
        command(**values, **({"reading": Reading(**chosen, offered=offered)} if offered else {}))

    keyword_only = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    parsed.__doc__ = text
    parsed.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    parsed.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    return parsed


def documented_parameters(documented: Callable[..., Any]) -> tuple[str, dict[str, Parameter]]:
    """Return the help of a function or class, and its parameters with theirs, from a docstring in numpydoc's form."""
    text, sections = _docstring_sections(documented.__doc__)
    if "Examples" in sections:
        text += f"\n\n[bold]Examples[/bold]\n\n{sections['Examples']}"
    parameters = dict(inspect.signature(documented, eval_str=True).parameters)
    shared = _ENTRY.findall(_docstring_sections(__doc__)[1].get("Parameters", ""))
    entries = [entry for entry in shared if entry[0] in parameters]
    for name, metavar, lines in [*entries, *_ENTRY.findall(sections.get("Parameters", ""))]:
        parameters[name] = _parameter_with_help(parameters[name], metavar or None, " ".join(lines.split()))
    return text, parameters


def _docstring_sections(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the beginning of a docstring, and its sections by their titles."""
    text, *sections = _SECTION.split(inspect.cleandoc(docstring or ""))
    return text, dict(zip(sections[::2], sections[1::2], strict=True))


def _parameter_with_help(parameter: Parameter, metavar: str | None, text: str) -> Parameter:
    annotation, name = parameter.annotation, parameter.name
    kind, *given = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    # A flag has no counterpart such as --no-json.
    names = (f"--{name.replace('_', '-')}",) if kind is bool else _SHORT_NAMES.get(name, ())
    is_option = parameter.kind is Parameter.KEYWORD_ONLY
    info = copy(given[0]) if given else Option(*names) if is_option else Argument()
    info.metavar, info.help = metavar, text
    return parameter.replace(annotation=Annotated[kind, info])
