"""Create the pictures of the documentation: docs/img/explorer.png, explorer-tree.png, digits.svg, silent.svg, spss.png,
excel.png.

    python docs/make_images.py          # all of them
    python docs/make_images.py surveys  # spss.png and excel.png, which need no data
    python docs/make_images.py silent   # silent.svg, which needs no browser

Needs Chromium and playwright (make install browser) and, for the explorer, the survey of US voters in 2000 from the R
package poLCA, as lca/poLCA__election.csv in the folder TWOWAY_DATA; for silent.svg,
crosstabs/acs2012_ca_counties there.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd

import twoway as tw
from twoway.cli import run

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "img"
DATA = Path(os.environ.get("TWOWAY_DATA", "data"))
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "benchmarks")]

TRAITS = {
    "MORAL": "moral",
    "CARES": "cares about people",
    "KNOW": "knowledgeable",
    "LEAD": "strong leader",
    "DISHON": "dishonest",
    "INTEL": "intelligent",
}
CODES = {
    "vote": ("VOTE3", ["Gore", "Bush", "other"]),
    "party": (
        "PARTY",
        [
            "strong Democrat",
            "weak Democrat",
            "leaning Democrat",
            "independent",
            "leaning Republican",
            "weak Republican",
            "strong Republican",
        ],
    ),
    "gender": ("GENDER", ["man", "woman"]),
    "education": (
        "EDUC",
        [
            "8 grades or less",
            "no high school diploma",
            "high school diploma",
            "more than 12 years",
            "junior college",
            "bachelor's degree",
            "advanced degree",
        ],
    ),
}
AGES = ["18–29", "30–44", "45–59", "60 and over"]


def read_survey() -> pd.DataFrame:
    """Return the survey with names and labels that a person can read, in their own order."""
    coded = pd.read_csv(DATA / "lca" / "poLCA__election.csv")
    survey = {}
    for name, (column, labels) in CODES.items():
        survey[name] = pd.Categorical.from_codes(coded[column].fillna(0).astype(int) - 1, labels, ordered=True)
    survey["age"] = pd.cut(coded["AGE"], [0, 29, 44, 59, 200], labels=AGES)
    for letter, candidate in (("G", "Gore"), ("B", "Bush")):
        for trait, words in TRAITS.items():
            survey[f"{candidate}: {words}"] = coded[trait + letter].str[2:]  # without "1 " and the like
    frame = pd.DataFrame(survey)
    answers = ["Extremely well", "Quite well", "Not too well", "Not well at all"]
    for name in frame.columns[5:]:
        frame[name] = pd.Categorical(frame[name], answers, ordered=True)
    return frame


def draw_explorer(folder: Path) -> None:
    """Write the survey's pages and take pictures of them."""
    from browser.chromium import open_browser

    survey = read_survey()
    pictures = (
        ("explorer", "single", "#party=independent&Gore: cares about people=Extremely well,Quite well"),
        ("explorer-tree", "tree", "#!view=map"),
    )
    with open_browser() as browser:
        for name, structure, address in pictures:
            page_file = folder / f"{name}.html"
            tw.explore(tw.fit(survey, rank=6, structure=structure), page_file, title="US election survey, 2000")
            page = browser.new_page(viewport={"width": 1280, "height": 940}, device_scale_factor=1.5)
            page.goto(page_file.as_uri() + address)
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / f"{name}.png")


def draw_surveys(folder: Path) -> None:
    """Take pictures of what the pages on SPSS and Excel make of their files, in the explorer and in a notebook."""
    from browser.chromium import open_browser

    before = Path.cwd()
    os.chdir(folder)
    try:
        for page in ("spss-stata", "excel"):
            text = (HERE / f"{page}.md").read_text(encoding="utf-8")
            exec(text.split("```python\n")[1].split("```")[0], {})  # the first example makes the file
    finally:
        os.chdir(before)
    tw.explore(tw.fit(folder / "titanic.sav", rank=4), folder / "spss.html", title="titanic.sav")
    records = tw.Records(f"{folder / 'titanic.xlsx'}#Passengers:3")
    pmf = tw.fit(records, rank=4)
    cells = {"records": records, "pmf": pmf, 'pmf.marginal(["class", "survived"])': pmf.marginal(["class", "survived"])}
    shown = "".join(f"<pre>{code}</pre>{value._repr_html_()}" for code, value in cells.items())
    style = "body{font:14px sans-serif;margin:1em} td,th{padding:.2em .6em} pre{background:#eee;padding:.4em}"
    (folder / "excel.html").write_text(f"<meta charset=utf-8><style>{style}</style>{shown}", encoding="utf-8")
    with open_browser() as browser:
        for name, address, height in (("spss", "#class=first", 670), ("excel", "", 640)):
            page = browser.new_page(viewport={"width": 1000, "height": height}, device_scale_factor=1.5)
            page.goto((folder / f"{name}.html").as_uri() + address)
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / f"{name}.png")


def draw_silent() -> None:
    """Draw which variables of a county depend on which, and where its tables are silent."""
    import matplotlib as mpl
    from trees import COUNTY_SHEETS, county_tables

    mpl.rcParams["svg.hashsalt"] = "silent"  # the same names of parts in every run
    folder = DATA / "crosstabs" / "acs2012_ca_counties"
    wide = [pd.read_csv(folder / f"{name}.csv", index_col="county") for name in COUNTY_SHEETS]
    tables = county_tables(*(frame.loc["Sacramento County, California"] for frame in wide))
    ax = tw.plot_dependence(tw.fit(tw.Tables.from_crosstabs(tables)))
    ax.figure.savefig(IMAGES / "silent.svg", metadata={"Date": None})


def main() -> None:
    """Make all pictures, or some of them."""
    if sys.argv[1:] in ([], ["silent"]):
        draw_silent()
    if sys.argv[1:] == ["silent"]:
        return
    with tempfile.TemporaryDirectory() as scratch:
        draw_surveys(Path(scratch))
        if sys.argv[1:] == ["surveys"]:
            return
        assert run(["demo", "digits", "--out", scratch]) == 0
        shutil.copy(Path(scratch) / "digits.svg", IMAGES / "digits.svg")
        draw_explorer(Path(scratch))


if __name__ == "__main__":
    main()
