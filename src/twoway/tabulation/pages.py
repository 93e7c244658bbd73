"""Tables as HTML: for notebooks, and as a page of their own."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from twoway.tabulation.writing import Line, banner_groups, explained, table_lines, table_title
from twoway.text import counted, printable

if TYPE_CHECKING:
    from twoway.tabulation.result import BannerTable, Tabulation

_MOST_IN_NOTEBOOK = 10
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
:root { color-scheme: light dark; }
"""
# Colours that are seen on white and on black.
_RULE, _SHADE = "1px solid rgba(128,128,128,.5)", "rgba(70,130,180,.12)"


def tabulation_page(tabulation: Tabulation) -> str:
    """Return the tables as a page."""
    body = "".join([*map(_html_of_table, tabulation), *(f"<p>{escape(text)}</p>" for text in explained(tabulation))])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tables</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def tabulation_html(tabulation: Tabulation) -> str:
    """Return the first tables as a part of a page, such as a notebook."""
    shown = tabulation.tables[:_MOST_IN_NOTEBOOK]
    more = len(tabulation) - len(shown)
    last = [*([f"… {counted(more, 'more table')}"] if more else []), *explained(tabulation)]
    return "".join([*map(_html_of_table, shown), *(f"<p>{escape(text)}</p>" for text in last)])


def _html_of_table(table: BannerTable) -> str:
    has_letters = bool(table.tests)
    names = "".join(
        f"<th colspan='{count}' style='text-align:center;border-left:{_RULE}'>{_text(name)}</th>"
        for name, count in banner_groups(table.columns)
    )
    labels = "".join(
        f"<th style='text-align:right;vertical-align:bottom'>{_text(column.label)}"
        f"{f'<br><small>{column.letter}</small>' if has_letters else ''}</th>"
        for column in table.columns
    )
    body = "".join(map(_html_of_line, table_lines(table)))
    below = [*map(str, table.tests), *(f"Note: {note}" for note in table.notes)]
    said = "".join(f"<p style='margin:.2em 0'><small>{_text(text)}</small></p>" for text in below)
    head = f"<thead><tr><th></th>{names}</tr><tr><th></th>{labels}</tr></thead>"
    return (
        f"<h3>{_text(table_title(table))}</h3><div style='overflow-x:auto'>"
        f"<table style='border-collapse:collapse'>{head}<tbody>{body}</tbody></table></div>{said}"
    )


def _html_of_line(line: Line) -> str:
    style = {"base": "", "main": f"border-top:{_RULE};background:{_SHADE}", "beside": "opacity:.75;font-size:85%"}
    indent = "padding-left:1.5em" if line.kind == "beside" else "padding-left:.3em"
    cells = "".join(
        f"<td style='text-align:right;padding:.1em .7em;white-space:nowrap'>{_text(c)}</td>" for c in line.cells
    )
    weight = 600 if line.kind == "main" else 400
    label = f"<th style='text-align:left;font-weight:{weight};{indent}'>{_text(line.label)}</th>"
    return f"<tr style='{style[line.kind]}'>{label}{cells}</tr>"


def _text(text: object) -> str:
    return escape(printable(text, None))
