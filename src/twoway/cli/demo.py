"""``twoway demo``: a survey with holes, or half-hidden digits, from the data to answers beside the truth."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import twoway as tw
from twoway.arrays import Floats, Ints
from twoway.cli.output import has_progress_output, say_json
from twoway.notebook import page_template
from twoway.storage.atomic_files import write_text_file
from twoway.text import aligned_text

if TYPE_CHECKING:
    from rich.console import Console

_HIDDEN_SHARE = 0.3
_QUESTIONS = (
    ("survived", "yes", {"sex": "female"}),
    ("survived", "yes", {"class": "third"}),
    ("survived", "yes", {"class": "third", "sex": "male"}),
)


class Subject(StrEnum):
    """What a demo is about."""

    TITANIC = "titanic"
    DIGITS = "digits"


def demo(subject: Subject = Subject.TITANIC, *, out: Path = Path("demo-output"), json: bool = False) -> None:
    """Learn from a survey with three answers in ten missing, ask, fill the holes, and compare with the truth.

    The survey is of the 2,201 people on board the Titanic. OUT gets the file with holes (titanic.csv), the file filled
    (filled.csv), the model (titanic.twoway) and a page to click in (titanic.html). "digits" completes pictures.

    Parameters
    ----------
    subject
        The people on board the Titanic, or handwritten digits.
    out
        The folder to write a model, a page and more to.

    Examples
    --------
    twoway demo

    twoway demo digits --out my-demo
    """
    from rich.console import Console

    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be created is reported before anything is learned
    console = Console(highlight=False, soft_wrap=True, quiet=json)
    results = (_demo_digits if subject is Subject.DIGITS else _demo_titanic)(out, console)
    if json:
        say_json(results)


def _demo_titanic(out: Path, console: Console) -> dict[str, Any]:
    survey, filled, model, page = (
        out / name for name in ("titanic.csv", "filled.csv", "titanic.twoway", "titanic.html")
    )
    truth = tw.datasets.titanic()
    holes = tw.datasets.hide(truth, _HIDDEN_SHARE, seed=1)
    holes.to_csv(survey, index=False)
    n_whole = int(holes.notna().all(axis=1).sum())
    console.print(
        f"{survey} has the {len(truth):,} people on board the Titanic: {', '.join(truth.columns)}. Three answers in "
        f"ten were hidden, so that only {n_whole:,} rows are complete. Fitting a model to all of them.\n",
        markup=False,
    )
    pmf = tw.fit(survey, monitor=has_progress_output() or None)
    pmf.save(model)

    answers, rows = [], [["question", "answer", "in the file", "records", "truth"]]
    for name, label, known in _QUESTIONS:
        question = f"P({name}={label} | {', '.join(f'{key}={value}' for key, value in known.items())})"
        complete = holes.dropna(subset=[name, *known])
        seen, right = (
            frame.loc[(frame[list(known)] == list(known.values())).all(axis=1), name] == label
            for frame in (complete, truth)
        )
        shares = {
            "answer": pmf.given(known).prob({name: label}),
            "in_the_file": float(seen.mean()),
            "truth": float(right.mean()),
        }
        answers.append({"question": question, **shares, "of": len(seen)})
        texts = [f"{share:.3f}" for share in shares.values()]
        rows.append([question, texts[0], texts[1], f"{len(seen):,}", texts[2]])
    console.print(aligned_text(rows), markup=False)

    completed = pmf.impute(holes)
    completed.to_csv(filled, index=False)
    n_hidden = int(holes.isna().to_numpy().sum())
    by_model, by_label = _demo_rates(truth, holes, completed, common=holes.mode())
    rates = {"filled_correctly": by_model, "most_common_correct": by_label}
    tw.explore(pmf, page, title="On board the Titanic")
    console.print(
        f"\nOf {n_hidden:,} hidden answers the model fills {rates['filled_correctly']:.1%} as they were; "
        f"the most common answer to each question would fill {rates['most_common_correct']:.1%}.\n"
        f"\nTo look at: {page}, in a browser: click what you know, and all other bars move. {filled} is the survey "
        "without holes.\n"
        "\nWhat to try next:\n\n"
        f'    twoway ask {model} "P(survived | class, sex)"\n'
        f"    twoway check {model} --data {survey}\n"
        '\nWith your own file: twoway fit survey.csv --ask "P(vote | age)". In Python: tw.fit("survey.csv").',
        markup=False,
    )
    written = {"survey": str(survey), "filled": str(filled), "model": str(model), "page": str(page)}
    return {"questions": answers, "hidden": n_hidden, **rates, **written}


def _demo_rates(truth: Any, hidden: Any, completed: Any, *, common: Any) -> tuple[float, float]:
    """Return the share of hidden cells that a model fills correctly, and that the most common labels do.

    All are frames of the same columns; the first row of ``common`` has the most common label of each.
    """
    is_hidden, right = hidden.isna().to_numpy(), truth.to_numpy()
    most_common = np.tile(common.iloc[0].to_numpy(), (len(hidden), 1))
    by_model, by_label = (
        float(np.mean(labels[is_hidden] == right[is_hidden])) for labels in (completed.to_numpy(), most_common)
    )
    return by_model, by_label


# Handwritten digits

_LEVELS = 4
_RANK = 25
_SHOWN = 4
_SHADES = " ░▒█"


def _demo_digits(out: Path, console: Console) -> dict[str, Any]:
    """Learn handwritten digits with half of all pixels hidden, then complete and read half-hidden ones."""
    whole = tw.datasets.digits(levels=_LEVELS)
    pixels = list(whole.columns[1:])
    test = np.random.default_rng(0).uniform(size=len(whole)) < 0.2
    learn = whole[~test].copy()
    learn[pixels] = tw.datasets.hide(learn[pixels], 0.5, seed=1)
    hidden = tw.datasets.hide(whole.loc[test, pixels], 0.5, seed=2)

    records = tw.Records(learn, schema=tw.Records(whole).schema)
    console.print(
        f"Learning {len(learn)} handwritten digits, 64 pixels of {_LEVELS} grey levels and a label each, "
        f"with half of all pixels hidden: {records.n_observed} of {len(learn) * 65} cells are left."
    )
    pmf = tw.fit(records, rank=_RANK, monitor=has_progress_output() or None)
    console.print(str(pmf.report), style="dim", markup=False)

    console.print(
        f"\nThe other {len(hidden)} digits, each with half its pixels hidden (·), as the model completes them:\n"
    )
    answer, truth = whole.loc[test, "digit"].to_numpy(), whole.loc[test, pixels].to_numpy()
    imputed = pmf.impute(hidden.assign(digit=np.nan))
    completed, read = imputed[pixels].to_numpy(), imputed["digit"].to_numpy().astype(int)
    picked = [int(np.flatnonzero(answer == digit)[1]) for digit in range(10)]
    console.print(_demo_digits_gallery(truth, hidden.to_numpy(), completed, picked[:_SHOWN]))

    filled, most_common = _demo_rates(whole.loc[test, pixels], hidden, imputed[pixels], common=learn[pixels].mode())
    rates = {"read_correctly": float(np.mean(read == answer)), "filled_correctly": filled}
    rates["most_common_level_correct"] = most_common
    console.print(
        f"read correctly from half their pixels   {rates['read_correctly']:6.1%}   (guessing: 10%)\n"
        f"hidden pixels filled in correctly       {rates['filled_correctly']:6.1%}   "
        f"(each pixel's most common level: {rates['most_common_level_correct']:.1%})"
    )
    model, picture, page = out / "digits.twoway", out / "digits.svg", out / "digits.html"
    pmf.save(model)
    # Expected grey levels look smoother than the most probable ones.
    grey = np.stack([hidden.to_numpy(), pmf.impute(hidden, how="mean").to_numpy(), truth])[:, picked] / (_LEVELS - 1)
    draw_demo_digits(grey.astype(float), read[picked], answer[picked], picture)
    tw.explore(pmf, page, title="Handwritten digits")
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
    written = {"model": str(model), "picture": str(picture), "page": str(page)}
    return {"learned": len(learn), "tested": len(hidden), **rates, **written}


def _demo_digits_gallery(truth: Floats, hidden: Floats, completed: Floats, picked: list[int]) -> str:
    """Return digits as text, side by side: what is shown, what the model makes of it, and the truth below."""

    def line(levels: Floats) -> str:
        return "".join("··" if level != level else _SHADES[int(level)] * 2 for level in levels)

    lines = []
    for title, images in (("shown", hidden), ("completed", completed), ("truth", truth)):
        rows = images[picked].reshape(len(picked), 8, 8).swapaxes(0, 1)
        lines += [title, *("  " + "   ".join(map(line, row)) for row in rows), ""]
    return "\n".join(lines)


def draw_demo_digits(grey: Floats, read: Ints, truth: Ints, path: Path) -> None:
    """Draw digits in columns, as an SVG: what the model was shown, what it made of it, the truth, how it read each.

    Parameters
    ----------
    grey
        From 0, white, to 1, shape (3, n_digits, 64): shown, with NaN where hidden; completed; true.
    read, truth
        The digit that the model read, and the right one, shape (n_digits,).
    path
        The SVG to write.
    """

    def colour(level: float) -> str:
        """Return the colour of a pixel; none for white."""
        mixed = 255 + np.nan_to_num(level) * (np.array([24, 30, 56]) - 255)
        return "#d6def6" if np.isnan(level) else f"#{bytes(mixed.round().astype(np.uint8)).hex()}" if level else ""

    drawn = [[list(map(colour, digit)) for digit in digits] for digits in grey.tolist()]
    rows = zip(("half is shown", "completed", "the original"), drawn, strict=True)
    text = page_template("twoway.cli", "digits.svg").render(rows=rows, readings=[*zip(read, truth, strict=True)])
    write_text_file(path, f"{text}\n")
