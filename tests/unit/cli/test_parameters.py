"""The argument parser reads a command's options, and their help, from its signature and docstring."""

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.main import get_command

from twoway.cli.app import make_app
from twoway.cli.parameters import parsed_command
from twoway.cli.reading import Reading

COMMANDS = get_command(make_app()).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_has_a_help_text(name):
    for parameter in COMMANDS[name].params:
        if parameter.name != "help":
            assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_flag_has_a_counterpart(name):
    assert not any(parameter.secondary_opts for parameter in COMMANDS[name].params)


def weigh(
    data: Path,
    *,
    reading: Annotated[Reading, "weights"],
    out: Path | None = None,
    most: Annotated[int, typer.Option(min=1)] = 3,
    is_dry: bool = False,
) -> None:
    """Weigh the records.

    Parameters
    ----------
    data : FILE
        The records.
    out : FILE
        The file to write,
        whole.
    most
        The number of records.
    is_dry
        Write nothing.

    Examples
    --------
    twoway weigh survey.csv
    """
    WEIGHED.append((data, reading, out, most, is_dry))


WEIGHED = []


@pytest.fixture
def command():
    app = typer.Typer()
    app.command()(parsed_command(weigh))
    WEIGHED.clear()
    return get_command(app)


def test_parameters_after_the_star_are_options(command):
    data, out, most, is_dry, weights = command.params[:5]
    assert (data.param_type_name, data.metavar, data.help) == ("argument", "FILE", "The records.")
    assert (out.opts, out.metavar, out.help) == (["-o", "--out"], "FILE", "The file to write, whole.")
    assert (most.opts, most.default) == (["--most"], 3)
    assert (is_dry.opts, is_dry.secondary_opts) == (["--is-dry"], [])
    assert weights.opts == ["--weights"]
    assert weights.help
    assert command.help == "Weigh the records.\n\n[bold]Examples[/bold]\n\ntwoway weigh survey.csv"


def test_the_options_for_reading_arrive_as_one_object(command):
    command(["a.csv", "--weights", "w", "--is-dry"], standalone_mode=False)
    with pytest.raises(typer.BadParameter, match="1"):
        command(["a.csv", "--most", "0"], standalone_mode=False)
    (result,) = WEIGHED
    assert result == (Path("a.csv"), Reading(weights="w", offered=("weights",)), None, 3, True)


def test_a_documented_parameter_must_exist():
    def wrong(*, one: int = 1) -> None:
        """Do.

        Parameters
        ----------
        two
            A name that the signature lacks.
        """

    with pytest.raises(KeyError, match="two"):
        parsed_command(wrong)
