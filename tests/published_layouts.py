"""Sheets as census offices, pollsters and market researchers publish them, made with the truth that is in them.

Each layout is a function that writes a file into a folder and returns its path and its tables. A table is the names of
its variables, the kind of its numbers and its cells: a mapping from categories, in the order of the names, to the
printed number. What a sheet shows besides (totals, bases, letters, notes) is not in the truth: it must become no cell.
"""

from __future__ import annotations

import gzip
import html
import zipfile
from itertools import product
from typing import NamedTuple

import numpy as np
import openpyxl

AGE = ["18-34", "35-54", "55 and over"]
SEX = ["Male", "Female"]
VOTE = ["Yes", "No", "Don't know"]
REGION = ["North", "South", "East", "West"]
COUNTIES = ["Alder County", "Birch County", "Cedar County", "Dogwood County"]

MANIFEST = (
    '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry '
    'manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/></manifest:manifest>'
)


class Truth(NamedTuple):
    variables: tuple[str, ...]
    kind: str
    cells: dict[tuple[str, ...], float]
    area: str | None = None


def counts(seed, *sizes, low=20, high=900):
    return np.random.default_rng(seed).integers(low, high, sizes)


def truth(names, labels, values, kind="counts", area=None):
    cells = dict(zip(product(*labels), np.asarray(values, float).ravel().tolist(), strict=True))
    return Truth(tuple(names), kind, cells, area)


def percentages(values, axis):
    """Return whole percentages that may miss 100 by rounding."""
    return np.rint(100 * values / values.sum(axis=axis, keepdims=axis is not None)).astype(int)


def write_text(folder, name, rows, delimiter=",", encoding="utf-8"):
    def quoted(cell):
        text = str(cell)
        return f'"{text}"' if delimiter in text or "\n" in text else text

    path = folder / name
    path.write_bytes("".join(delimiter.join(map(quoted, row)) + "\n" for row in rows).encode(encoding))
    return path


def write_book(folder, name, sheets):
    """Write sheets, given as name -> (rows, merged ranges)."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, (rows, merged) in sheets.items():
        sheet = book.create_sheet(title)
        for r, row in enumerate(rows, 1):
            for c, cell in enumerate(row, 1):
                if cell is not None and cell != "":
                    sheet.cell(r, c, cell.item() if isinstance(cell, np.generic) else cell)
        for cells in merged:
            sheet.merge_cells(cells)
    book.save(folder / name)
    return folder / name


# Census releases


def plain_counts(folder):
    n = counts(1, 3, 3)
    rows = [["age × vote", *VOTE], *([a, *map(int, line)] for a, line in zip(AGE, n, strict=True))]
    return write_text(folder, "plain.csv", rows), [truth(("age", "vote"), (AGE, VOTE), n)]


def totals_in_a_named_file(folder):
    n = counts(2, 3, 4)
    rows = [["", *REGION, "Total"], *([a, *line, line.sum()] for a, line in zip(AGE, n, strict=True))]
    rows.append(["All", *n.sum(0), n.sum()])
    return write_text(folder, "age_by_region.tsv", rows, "\t"), [truth(("age", "region"), (AGE, REGION), n)]


def titles_and_footnotes(folder):
    n = counts(3, 3, 2, low=1000, high=99999)
    rows = [
        ["Table C-4. Population by age and sex, 2021"],
        ["(in thousands, civilian noninstitutionalized)"],
        [],
        ["Age", *SEX, "Both sexes"],
        *([a, *(f"{x:,}" for x in line), f"{line.sum():,}"] for a, line in zip(AGE, n, strict=True)),
        ["Total, all ages", *(f"{x:,}" for x in n.sum(0)), f"{n.sum():,}"],
        [],
        ["Source: Office of Population, Annual Survey 2021."],
        ["Note: numbers may not add up because of rounding. See pages 12 to 14."],
    ]
    return write_text(folder, "c4.csv", rows), [truth(("Age", "sex"), (AGE, SEX), n)]


def merged_census_header(folder):
    n = counts(4, 3, 2)
    rows = [
        ["Persons by age group and sex: Alder County"],
        ["Age group", "Sex", None, "Total"],
        [None, *SEX, None],
        *([a, *line, line.sum()] for a, line in zip(AGE, n, strict=True)),
        ["Total", *n.sum(0), n.sum()],
        ["1. Excludes persons in institutions."],
    ]
    path = write_book(folder, "persons.xlsx", {"T1": (rows, ["A1:D1", "A2:A3", "B2:C2", "D2:D3"])})
    return path, [truth(("Age group", "Sex"), (AGE, SEX), n)]


def nested_header(folder):
    n = counts(5, 4, 2, 3)
    rows = [
        ["Registered voters by region, sex and age"],
        [],
        [None, "Male", None, None, "Female", None, None],
        ["Region", *AGE, *AGE],
        *([r, *line.ravel()] for r, line in zip(REGION, n, strict=True)),
    ]
    path = write_book(folder, "voters.xlsx", {"Sheet1": (rows, ["A1:G1", "B3:D3", "E3:G3"])})
    return path, [truth(("Region", "sex", "age"), (REGION, SEX, AGE), n)]


def nested_labels(folder):
    n = counts(6, 2, 3, 3)
    rows = [["Sex", "Age", "Vote", None, None], [None, None, *VOTE]]
    for s, block in zip(SEX, n, strict=True):
        rows += [[s if place == 0 else None, a, *block[place]] for place, a in enumerate(AGE)]
    path = write_book(folder, "by sex and age.xlsx", {"Tab": (rows, ["A3:A5", "A6:A8", "C1:E1"])})
    return path, [truth(("Sex", "Age", "Vote"), (SEX, AGE, VOTE), n)]


def indented_subtotals(folder):
    n = counts(7, 2, 3, 2)
    area = ["Urban", "Rural"]
    rows = [["Table 7: Population by sex, age and type of area"], ["Sex and age", "Urban", "Rural", "Total"]]
    rows.append(["Total", *n.sum((0, 1)), n.sum()])
    for s, block in zip(SEX, n, strict=True):
        rows.append([f"{s}:", *block.sum(0), block.sum()])
        rows += [[f"   {a}", *line, line.sum()] for a, line in zip(AGE, block, strict=True)]
    path = write_text(folder, "table7.csv", rows)
    return path, [truth(("Sex", "age", "type of area"), (SEX, AGE, area), n)]


def stacked_tables(folder):
    one, two = counts(8, 3, 3), counts(9, 4, 3)
    rows = [
        ["Table 1. Age by vote"],
        ["", *VOTE, "Total"],
        *([a, *line, line.sum()] for a, line in zip(AGE, one, strict=True)),
        [],
        ["Table 2. Region by vote"],
        ["", *VOTE, "Total"],
        *([r, *line, line.sum()] for r, line in zip(REGION, two, strict=True)),
        [],
        ["Source: own calculations"],
    ]
    path = write_text(folder, "stacked.csv", rows)
    return path, [truth(("Age", "vote"), (AGE, VOTE), one), truth(("Region", "vote"), (REGION, VOTE), two)]


def table_per_area(folder):
    n = counts(10, 4, 3, 2)
    rows, tables = [["Population by age and sex"], []], []
    for county, block in zip(COUNTIES, n, strict=True):
        rows += [[f"County: {county}"], ["Age", *SEX, "Total"]]
        rows += [[a, *line, line.sum()] for a, line in zip(AGE, block, strict=True)]
        rows += [["Total", *block.sum(0), block.sum()], []]
        tables.append(truth(("Age", "sex"), (AGE, SEX), block, area=county))
    return write_text(folder, "counties.csv", rows), tables


def wide_by_area(folder):
    edu = ["lt_hs", "hs_grad", "bachelors"]
    ages = ["18_24", "25_64", "65up"]
    n = counts(11, 4, 2, 3, 3)
    names = [f"{s}_{a}_{e}" for s, a, e in product("mf", ages, edu)]
    rows = [["county", "cnt_edu_all", "edu_male", "edu_female", *names]]
    rows += [[f"{c}, Ohio", b.sum(), b[0].sum(), b[1].sum(), *b.ravel()] for c, b in zip(COUNTIES, n, strict=True)]
    tables = [
        truth(("sex", "age", "edu"), ("mf", ages, edu), b, area=f"{c}, Ohio") for c, b in zip(COUNTIES, n, strict=True)
    ]
    return write_text(folder, "edu.csv", rows), tables


def census_api_labels(folder):
    ages = ["Under 18 years", "18 to 64 years", "65 years and over"]
    n, moe = counts(12, 3, 2, 3), counts(13, 3, 9)
    labels = ["Total:"]
    for s in SEX:
        labels += [f"Total:!!{s}:", *(f"Total:!!{s}:!!{a}" for a in ages)]
    header = ["Geographic Area Name"]
    for label in labels:
        header += [f"Estimate!!{label}", f"Margin of Error!!{label}"]
    rows = [header]
    for county, block, errors in zip(COUNTIES[:3], n, moe, strict=True):
        numbers = [block.sum()]
        for line in block:
            numbers += [line.sum(), *line]
        rows.append([county, *(x for pair in zip(numbers, errors, strict=True) for x in pair)])
    tables = [truth(("sex", "age"), (SEX, ages), b, area=c) for c, b in zip(COUNTIES[:3], n, strict=True)]
    return write_text(folder, "B01001.csv", rows), tables


def long_cells(folder):
    n = counts(14, 3, 3)
    rows = [["age", "vote", "count"], *([a, v, n[i, j]] for i, a in enumerate(AGE) for j, v in enumerate(VOTE))]
    return write_text(folder, "cells.csv", rows), [truth(("age", "vote"), (AGE, VOTE), n)]


def long_by_area(folder):
    n = counts(15, 4, 2, 3)
    rows = [["County", "Sex", "Age group", "Population"]]
    for place in product(range(4), range(2), range(3)):
        i, j, k = place
        rows.append([COUNTIES[i], SEX[j], AGE[k], f"{n[place]:,}"])
    tables = [truth(("Sex", "Age group"), (SEX, AGE), b, area=c) for c, b in zip(COUNTIES, n, strict=True)]
    return write_text(folder, "population.csv", rows), tables


def open_document(folder):
    n = counts(16, 3, 4)
    rows = [
        ["Households by age of head and region"],
        [],
        ["Age", *REGION],
        *([a, *line] for a, line in zip(AGE, n, strict=True)),
    ]

    def cell(x):
        if isinstance(x, str):
            return f'<table:table-cell office:value-type="string"><text:p>{html.escape(x)}</text:p></table:table-cell>'
        return f'<table:table-cell office:value-type="float" office:value="{x}"><text:p>{x}</text:p></table:table-cell>'

    body = "".join(
        f"<table:table-row>{''.join(map(cell, row)) or '<table:table-cell/>'}</table:table-row>" for row in rows
    )
    spaces = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"' for short in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {spaces}><office:body><office:spreadsheet>'
        f'<table:table table:name="Households">{body}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    path = folder / "households.ods"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", content)
        archive.writestr("META-INF/manifest.xml", MANIFEST)
    return path, [truth(("Age", "region"), (AGE, REGION), n)]


# Web pages


def web_page(folder):
    n = counts(17, 3, 3)
    body = "".join(
        f"<tr><th scope=row>{a}</th>{''.join(f'<td>{x:,}' for x in line)}<td><b>{line.sum():,}</b></td></tr>"
        for a, line in zip(AGE, n, strict=True)
    )
    text = (
        "<!doctype html><html><head><title>Results</title><style>td {color: red}</style></head><body>"
        "<table class=nav><tr><td>Home</td><td>Statistics</td><td>Contact</td></tr></table><h1>The vote</h1>"
        "<table><caption>Age &times; vote<sup>1</sup></caption><thead><tr><th rowspan=2>Age</th><th colspan=3>Vote</th>"
        f"<th rowspan=2>Total</th></tr><tr>{''.join(f'<th>{html.escape(v)}</th>' for v in VOTE)}</tr></thead>"
        f"<tbody>{body}</tbody><tfoot><tr><td colspan=5>Source: the returning officer &amp; staff</td></tr></tfoot>"
        "</table></body></html>"
    )
    path = folder / "results.html"
    path.write_text(text, encoding="utf-8")
    return path, [truth(("Age", "Vote"), (AGE, VOTE), n)]


def web_page_of_two(folder):
    one, two = counts(18, 2, 3), counts(19, 4, 2)
    shares = percentages(one, 1)
    first = "".join(f"<tr><td>{s}<td>{'<td>'.join(f'{x}%' for x in line)}" for s, line in zip(SEX, shares, strict=True))
    second = "".join(f"<tr><td>{r}<td>{a}<td>{b}</tr>" for r, (a, b) in zip(REGION, two.tolist(), strict=True))
    text = (
        f"<h2>Sex by vote (row percentages)</h2><table border=1><tr><td><td>{'<td>'.join(VOTE)}{first}</table>"
        f"<h2>Region by sex</h2><table><tr><td>&nbsp;</td><td>Male</td><td>Female</td></tr>{second}</table>"
    )
    path = folder / "page.htm"
    path.write_text(text, encoding="utf-8")
    return path, [truth(("Sex", "vote"), (SEX, VOTE), shares, "row"), truth(("Region", "sex"), (REGION, SEX), two)]


# Toplines and banners


def banner_with_bases(folder):
    groups = {"Sex": SEX, "Age": AGE}
    people = counts(20, 3, 2, 3)
    blocks = [people.sum(2), people.sum(1)]
    total = blocks[0].sum(1)
    columns = np.hstack([total[:, None], *blocks])
    shares = np.hstack([percentages(total[:, None], 0), *(percentages(b, 0) for b in blocks)])
    rows = [
        ["Q1. Would you vote for the measure?"],
        ["Base: all adults"],
        [],
        [None, "Total", "Sex", None, "Age", None, None],
        [None, None, *SEX, *AGE],
        ["Unweighted base", *(columns.sum(0) + 7)],
        ["Weighted base", *columns.sum(0)],
        *([v, *(f"{x}%" for x in line)] for v, line in zip(VOTE, shares, strict=True)),
    ]
    path = write_book(folder, "q1.xlsx", {"Q1": (rows, ["A1:G1", "C4:D4", "E4:G4", "B4:B5"])})
    name = "Q1. Would you vote for the measure?"
    starts = {"Sex": 1, "Age": 3}
    return path, [
        truth((name, group), (VOTE, labels), shares[:, starts[group] : starts[group] + len(labels)], "column")
        for group, labels in groups.items()
    ]


def banner_with_letters(folder):
    people = counts(22, 3, 2, 4)
    blocks = {"Gender": (SEX, people.sum(2)), "Region": (REGION, people.sum(1))}
    names, bases, letters, shares = [], [], [], []
    for labels, block in blocks.values():
        names += labels
        bases += block.sum(0).tolist()
        letters += [chr(ord("a") + len(letters) + i) for i in range(len(labels))]
        shares.append(percentages(block, 0))
    table = np.hstack(shares)
    rng = np.random.default_rng(24)
    rows = [
        ["Table 3"],
        ["Q5 How satisfied are you with your supplier?"],
        ["", "Gender", "", "Region", "", "", ""],
        ["", *names],
        ["", *(f"({x})" for x in letters)],
        ["Base: all respondents", *bases],
    ]
    answers = ["Satisfied", "Neither", "Dissatisfied"]
    for answer, line in zip(answers, table, strict=True):
        marks = ["".join(sorted(set(rng.choice(letters, 2)))).upper() if rng.random() < 0.4 else "" for _ in line]
        rows.append([answer, *(f"{x}%{' ' if m else ''}{m}" for x, m in zip(line, marks, strict=True))])
    rows += [[], ["Letters: significantly higher than the column named, at 95%"]]
    q = "Q5 How satisfied are you with your supplier?"
    tables = [
        truth((q, g), (answers, labels), shares[k], "column") for k, (g, (labels, _)) in enumerate(blocks.items())
    ]
    return write_text(folder, "tab3.csv", rows), tables


def counts_and_percentages(folder):
    n = counts(25, 3, 4)
    shares = percentages(n, 0)
    rows = [
        ["Satisfaction by region"],
        ["", "", *REGION],
        *(
            row
            for place, v in enumerate(VOTE)
            for row in ([v, "Count", *n[place]], ["", "Column %", *(f"{x}%" for x in shares[place])])
        ),
        ["Total", "Count", *n.sum(0)],
        ["", "Column %", *["100%"] * 4],
    ]
    return write_text(folder, "sat.csv", rows), [truth(("Satisfaction", "region"), (VOTE, REGION), n)]


def stacked_banner(folder):
    """One question after the other below one banner; the second allows several answers and adds up to more than 100."""
    n = counts(26, 3, 3)
    shares = percentages(n, 0)
    overall = percentages(n.sum(1)[:, None], 0)
    media = ["Newspapers", "Television", "Internet"]
    read = np.array([[35, 46, 61], [72, 77, 83], [91, 74, 40]])
    rows = [
        ["AMONG ALL ADULTS", "", "Everyone", "Age group", "", ""],
        ["", "", "", *AGE],
        ["Will you vote?", "", "", "", "", ""],
        *(["", v, f"{overall[i, 0]}%", *(f"{x}%" for x in shares[i])] for i, v in enumerate(VOTE)),
        ["Where do you get news? (All that apply)", "", "", "", "", ""],
        *(["", m, f"{round(read[i].mean())}%", *(f"{x}%" for x in read[i])] for i, m in enumerate(media)),
    ]
    tables = [truth(("Will you vote?", "Age group"), (VOTE, AGE), shares, "column")]
    both = ["yes", "no"]
    tables += [
        truth((m, "Age group"), (both, AGE), np.vstack([read[i], 100 - read[i]]), "column") for i, m in enumerate(media)
    ]
    return write_text(folder, "topline.csv", rows), tables


def row_percentages_with_n(folder):
    n = counts(27, 4, 3)
    shares = np.round(100 * n / n.sum(1, keepdims=True), 1)
    rows = [["Vote intention by region (row percent)"], [], ["Region", *VOTE, "Total", "(n)"]]
    rows += [[r, *line, 100, int(base)] for r, line, base in zip(REGION, shares.tolist(), n.sum(1), strict=True)]
    path = write_book(folder, "intention.xlsx", {"1": (rows, [])})
    return path, [truth(("Region", "Vote intention"), (REGION, VOTE), shares, "row")]


def shares_of_all(folder):
    n = counts(28, 3, 2)
    shares = np.round(100 * n / n.sum(), 1)
    rows = [["Age by sex, percent of all respondents (n = 1,204)"], ["", *SEX]]
    rows += [[a, *(f"{x}%" for x in line)] for a, line in zip(AGE, shares.tolist(), strict=True)]
    return write_text(folder, "shares.csv", rows), [truth(("Age", "sex"), (AGE, SEX), shares, "joint")]


def percentages_without_signs(folder):
    n = counts(29, 3, 4)
    shares = percentages(n, 0)
    rows = [
        ["Vote, by region"],
        ["Column percentages"],
        ["Vote", *REGION],
        *([v, *line] for v, line in zip(VOTE, shares, strict=True)),
        ["Total", *[100] * 4],
        ["n =", *n.sum(0)],
    ]
    return write_text(folder, "vote.csv", rows), [truth(("Vote", "region"), (VOTE, REGION), shares, "column")]


def transposed_banner(folder):
    """Groups down the side, answers across."""
    people = counts(30, 2, 3, 3)
    blocks = {"Sex": (SEX, people.sum(1)), "Age": (AGE, people.sum(0))}
    q = "Do you approve of the mayor?"
    answers = ["Approve", "Disapprove", "No opinion"]
    rows = [[q], ["", "", *answers, "N"]]
    tables = []
    for group, (labels, block) in blocks.items():
        shares = percentages(block, 1)
        tables.append(truth((group, q), (labels, answers), shares, "row"))
        for place, label in enumerate(labels):
            rows.append([group if place == 0 else "", label, *(f"{x}%" for x in shares[place]), block[place].sum()])
    return write_text(folder, "mayor.csv", rows), tables


def suppressed_cells(folder):
    n = counts(32, 4, 3, low=1, high=40)
    n[0, 0], n[2, 1] = 3, 1
    rows = [["Cases by region and vote"], ["Region", *VOTE]]
    rows += [[r, *("<5" if x < 5 else x for x in line)] for r, line in zip(REGION, n.tolist(), strict=True)]
    rows.append(["Counts below 5 are not shown."])
    path = write_text(folder, "cases.csv", rows)
    values = np.where(n < 5, 2.5, n)  # what stands for a suppressed cell is its middle
    return path, [truth(("Region", "vote"), (REGION, VOTE), values)]


def european_numbers(folder):
    n = counts(33, 3, 3, low=1000, high=99999)
    rows = [["Alter × Wahl", "Ja", "Nein", "Weiß nicht", "Insgesamt"]]
    rows += [[a, *(f"{x:,}".replace(",", " ") for x in (*line, line.sum()))] for a, line in zip(AGE, n, strict=True)]
    path = write_text(folder, "wahl.csv", rows, ";")
    return path, [truth(("Alter", "Wahl"), (AGE, ["Ja", "Nein", "Weiß nicht"]), n)]


def workbook_of_sheets(folder):
    one, two = counts(34, 3, 2), counts(35, 4, 2)
    sheets = {
        "Contents": ([["Statistical tables"], ["1", "Age by sex"], ["2", "Region by sex"]], []),
        "1": ([["Age by sex"], ["Age", *SEX], *([a, *line] for a, line in zip(AGE, one, strict=True))], []),
        "2": ([["Region by sex"], ["Region", *SEX], *([r, *line] for r, line in zip(REGION, two, strict=True))], []),
    }
    path = write_book(folder, "release.xlsx", sheets)
    return path, [truth(("Age", "sex"), (AGE, SEX), one), truth(("Region", "sex"), (REGION, SEX), two)]


def statistics_package(folder):
    n = counts(36, 2, 3)
    rows = [
        ["sex * vote Crosstabulation", "", "", "", "", ""],
        ["Count", "", "", "", "", ""],
        ["", "", "vote", "", "", "Total"],
        ["", "", *VOTE, ""],
        ["sex", SEX[0], *n[0], n[0].sum()],
        ["", SEX[1], *n[1], n[1].sum()],
        ["Total", "", *n.sum(0), n.sum()],
    ]
    path = folder / "output.csv.gz"
    write_text(folder, "output.csv", rows)
    path.write_bytes(gzip.compress((folder / "output.csv").read_bytes()))
    (folder / "output.csv").unlink()
    return path, [truth(("sex", "vote"), (SEX, VOTE), n)]


# Sheets that do not say what they are


def no_names(folder):
    n = counts(37, 3, 3)
    rows = [["", "A", "B", "C"], *([x, *line] for x, line in zip("PQR", n, strict=True))]
    return write_text(folder, "data.csv", rows), None


def both_ways_hundred(folder):
    rows = [["Age × vote", "Yes", "No"], ["young", "40%", "60%"], ["old", "60%", "40%"]]
    return write_text(folder, "half.csv", rows), None


LAYOUTS = [
    *(plain_counts, totals_in_a_named_file, titles_and_footnotes, merged_census_header, nested_header, nested_labels),
    *(indented_subtotals, stacked_tables, table_per_area, wide_by_area, census_api_labels, long_cells, long_by_area),
    *(open_document, web_page, web_page_of_two, banner_with_bases, banner_with_letters, counts_and_percentages),
    *(stacked_banner, row_percentages_with_n, shares_of_all, percentages_without_signs, transposed_banner),
    *(suppressed_cells, european_numbers, workbook_of_sheets, statistics_package, no_names, both_ways_hundred),
]
"""Twenty-eight layouts with their truth, and two sheets that nobody can read without being told more."""
