"""Commands as the argument parser reads them: a function's parameters, with their help from its docstring."""

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
    text, *sections = _SECTION.split(inspect.cleandoc(documented.__doc__ or ""))
    by_title = dict(zip(sections[::2], sections[1::2], strict=True))
    if "Examples" in by_title:
        text += f"\n\n[bold]Examples[/bold]\n\n{by_title['Examples']}"
    parameters = dict(inspect.signature(documented, eval_str=True).parameters)
    for name, metavar, lines in _ENTRY.findall(by_title.get("Parameters", "")):
        parameters[name] = _parameter_with_help(parameters[name], metavar or None, " ".join(lines.split()))
    return text, parameters


def _parameter_with_help(parameter: Parameter, metavar: str | None, text: str) -> Parameter:
    annotation, name = parameter.annotation, parameter.name
    kind, *given = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    # A flag has no counterpart such as --no-json.
    names = (f"--{name.replace('_', '-')}",) if kind is bool else _SHORT_NAMES.get(name, ())
    is_option = parameter.kind is Parameter.KEYWORD_ONLY
    info = copy(given[0]) if given else Option(*names) if is_option else Argument()
    info.metavar, info.help = metavar, text
    return parameter.replace(annotation=Annotated[kind, info])
