"""Segments as an Excel workbook, Markdown, or one table of their profiles."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from twoway.data.files.workbook import Workbook
from twoway.data.files.writing import write_data_file, written_ending
from twoway.storage.atomic_files import atomic_file
from twoway.text import markdown_table, markdown_text

Rows = Sequence[Mapping[str, Any]]
ENDINGS = (".xlsx", ".md", ".csv", ".tsv", ".parquet", ".jsonl")
"""What segments are written to."""

_SHARES = ("size", "all", "share", "certainty", "stability")
_FORMATS = {"people": "#,##0"} | dict.fromkeys(("index", "count", "df", "df_denominator", "n_simulated"), "0")
# How Excel's formats look as text.
_AS_TEXT = {"0.0%": ".1%", "#,##0": ",.0f", "0": ",.0f", "0.000": ".3f"}
_LEAST_WIDTH = 11


def check_segments_path(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file of segments; one that is not written is an error."""
    where = f"segments are written to {', '.join(ENDINGS)}, and kept in a model file by --model"
    return written_ending(path, ENDINGS, where)


def write_segments(path: str | os.PathLike[str], tables: Mapping[str, Rows]) -> None:
    """Write tables to a file, atomically: all of them to Excel and Markdown, the profiles alone to other files."""
    ending = check_segments_path(path)
    if ending in (".xlsx", ".md"):
        tables = {title: rows for title, rows in tables.items() if rows}
        content = _segments_workbook(tables) if ending == ".xlsx" else _segments_markdown(tables).encode()
        with atomic_file(path) as stream:
            stream.write(content)
        return
    import pyarrow as pa

    write_data_file(pa.Table.from_pylist([dict(row) for row in tables["profiles"]]), path)


def _segment_format(title: str, column: str) -> str:
    """Return Excel's format for the numbers of a column, whose name begins with what they are."""
    kind = column.partition(":")[0]
    return "0.0%" if kind in _SHARES and title != "means" else _FORMATS.get(kind, "0.000")


def _segments_workbook(tables: Mapping[str, Rows]) -> bytes:
    """Return a workbook with a sheet for each table: cells are numbers, and headers stay in view."""
    book = Workbook()
    look_of_head = {"bold": True, "text_wrap": True, "valign": "top", "bottom": 1, "bg_color": "#DCE6F1"}
    for title, rows in tables.items():
        page = book.add_sheet(title)
        sheet, columns = page.sheet, list(rows[0])
        headings = [column.replace("_", " ") for column in columns]
        n_texts = sum(isinstance(rows[0][column], str) for column in columns)
        page.set_view(1, n_texts)
        sheet.set_row(0, 15 * max(1 + len(heading) // _LEAST_WIDTH for heading in headings))
        for place, column in enumerate(columns):
            page.text(0, place, headings[place], **look_of_head, **({"align": "right"} if place >= n_texts else {}))
            widest = max((len(str(row[column])) for row in rows if isinstance(row[column], str)), default=0)
            sheet.set_column(place, place, min(max(widest, _LEAST_WIDTH) + 2, 45))
            form = '"+";"−";""' if column.startswith("mark") else _segment_format(title, column)
            for line, row in enumerate(rows, start=1):
                if isinstance(value := row[column], str):
                    page.text(line, place, value)
                elif value is not None:
                    page.numbers(line, place, [value], num_format=form)
            if column.startswith("index"):
                scale = {"type": "3_color_scale", "mid_type": "num", "mid_value": 100, "min_type": "num"}
                scale |= {"min_value": 0, "max_type": "num", "max_value": 300}
                colours = {"min_color": "#E0937B", "mid_color": "#FFFFFF", "max_color": "#6BA3D6"}
                sheet.conditional_format(1, place, len(rows), place, {**scale, **colours})
    return book.content()


def _segments_markdown(tables: Mapping[str, Rows]) -> str:
    parts = []
    for title, rows in tables.items():
        columns = list(rows[0])
        table = [[markdown_text(column.replace("_", " ")) for column in columns]]
        table += [[_segment_cell_text(title, column, row[column]) for column in columns] for row in rows]
        n_texts = sum(isinstance(rows[0][column], str) for column in columns)
        parts.append(f"## {title.capitalize()}\n\n{markdown_table(table, n_texts)}")
    return "\n\n".join(parts) + "\n"


def _segment_cell_text(title: str, column: str, value: Any) -> str:
    if isinstance(value, str):
        return markdown_text(value)
    if value is None or not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, int) else format(value, _AS_TEXT[_segment_format(title, column)])
