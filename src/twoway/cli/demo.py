"""``twoway demo``: learn handwritten digits from half their pixels, then complete and read half-hidden ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from twoway.cli.options import Json
from twoway.cli.terminal import say_json, shows_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVELS = 4
_RANK = 25
_SHOWN = 4
_SHADES = " ░▒█"


def demo(
    out: Path = Option(Path("demo-output"), help="The folder to write the model, a picture and a page to."),
    json: Json = False,
) -> None:
    """Learn handwritten digits with half of all pixels hidden, then complete and read half-hidden ones.

    The digits ship with scikit-learn. OUT gets the model (digits.twoway), a picture of completed digits (digits.svg)
    and a page to click in (digits.html).

    [bold]Example[/bold]: twoway demo --out my-demo
    """
    import numpy as np
    from rich.console import Console

    import twoway as tw
    from twoway.cli.demo_picture import draw_digits
    from twoway.datasets import digits, hide

    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be created is reported before anything is learned
    console = Console(highlight=False, soft_wrap=True, quiet=json)
    whole = digits(levels=_LEVELS)
    pixels = list(whole.columns[1:])
    test = np.random.default_rng(0).uniform(size=len(whole)) < 0.2
    learn = whole[~test].copy()
    learn[pixels] = hide(learn[pixels], 0.5, seed=1)
    hidden = hide(whole.loc[test, pixels], 0.5, seed=2)

    records = tw.Records(learn, schema=tw.Records(whole).schema)
    console.print(
        f"Learning {len(learn)} handwritten digits, 64 pixels of {_LEVELS} grey levels and a label each, "
        f"with half of all pixels hidden: {records.n_observed} of {len(learn) * 65} cells are left."
    )
    pmf = tw.fit(records, rank=_RANK, monitor=shows_progress() or None)
    console.print(str(pmf.report), style="dim", markup=False)

    console.print(
        f"\nThe other {len(hidden)} digits, each with half its pixels hidden (·), as the model completes them:\n"
    )
    answer, truth = whole.loc[test, "digit"].to_numpy(), whole.loc[test, pixels].to_numpy()
    imputed = pmf.impute(hidden.assign(digit=np.nan))
    completed, read = imputed[pixels].to_numpy(), imputed["digit"].to_numpy().astype(int)
    picked = [int(np.flatnonzero(answer == digit)[1]) for digit in range(10)]
    console.print(_gallery(truth, hidden.to_numpy(), completed, picked[:_SHOWN]))

    is_hidden = hidden.isna().to_numpy()
    common = np.tile(learn[pixels].mode().iloc[0].to_numpy(), (len(hidden), 1))
    rates = {
        "read_correctly": float(np.mean(read == answer)),
        "filled_correctly": float(np.mean(completed[is_hidden] == truth[is_hidden])),
        "most_common_level_correct": float(np.mean(common[is_hidden] == truth[is_hidden])),
    }
    console.print(
        f"read correctly from half their pixels   {rates['read_correctly']:6.1%}   (guessing: 10%)\n"
        f"hidden pixels filled in correctly       {rates['filled_correctly']:6.1%}   "
        f"(each pixel's most common level: {rates['most_common_level_correct']:.1%})"
    )
    model, picture, page = out / "digits.twoway", out / "digits.svg", out / "digits.html"
    pmf.save(model)
    # Expected grey levels look smoother than the most probable ones.
    grey = np.stack([hidden.to_numpy(), pmf.impute(hidden, how="mean").to_numpy(), truth])[:, picked] / (_LEVELS - 1)
    draw_digits(grey.astype(float), read[picked], answer[picked], picture)
    tw.explore(pmf, page, title="Handwritten digits")
    if json:
        written = {"model": str(model), "picture": str(picture), "page": str(page)}
        say_json({"learned": len(learn), "tested": len(hidden), **rates, **written})
    console.print(
        f"\nTo look at: {picture}, completed digits; and {page}, to click in: open both in a browser. In the page pick "
        "a digit and see which pixels turn dark, or some pixels and see which digit it may be.\n"
        f"\nThe model is in {model} ({model.stat().st_size / 1024:.0f} KB). What to try next, in Python:\n\n"
        "    import twoway as tw\n"
        f'    pmf = tw.load("{model}")\n'
        '    print(pmf.given({"r3c3": 3, "r4c4": 0}).marginal("digit"))   # a dark and a white pixel: which digit?\n'
        '    print(pmf.given({"digit": 7}).sample(3))                     # draw sevens\n'
        '    pmf.mutual_information("digit", "r2c3")                      # how much this pixel says about the digit\n'
        '\nWith your own table: pmf = tw.fit(pandas.read_csv("survey.csv")), then tw.explore(pmf, "survey.html").',
        markup=False,
    )


def _gallery(truth: NDArray[Any], hidden: NDArray[Any], completed: NDArray[Any], picked: list[int]) -> str:
    """Return digits as text, side by side: what is shown, what the model makes of it, and the truth below."""

    def line(levels: NDArray[Any]) -> str:
        return "".join("··" if level != level else _SHADES[int(level)] * 2 for level in levels)

    lines = []
    for title, images in (("shown", hidden), ("completed", completed), ("truth", truth)):
        rows = images[picked].reshape(len(picked), 8, 8).swapaxes(0, 1)
        lines += [title, *("  " + "   ".join(map(line, row)) for row in rows), ""]
    return "\n".join(lines)
