"""``twoway tables``: what the tables in published sheets seem to be, to be checked, changed and given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import twoway as tw
from twoway.cli.output import check_output, print_note, print_output, say
from twoway.errors import DataError, check_known
from twoway.text import aligned_text, counted, crossed_text, printable, shortlist

if TYPE_CHECKING:
    from twoway.tables.crosstabs.sheet_table import SheetTable

_MOST_TABLES = 20


def tables(
    action: str,
    sheet: Path,
    *,
    out: Path | None = None,
    layout: Path | None = None,
    kind: str | None = None,
    area: str | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Show what the tables in published sheets seem to be, and write it as TOML that --layout reads.

    Variables and categories, what the numbers are, what was taken for a total or a base, and whether sums agree. Labels
    of ranges that are coarser in some tables, and combinations that nobody has, are declared there, too.

    Parameters
    ----------
    action : read
        What to do: read.
    sheet : SHEET
        A CSV, TSV, Excel, OpenDocument or HTML file, or a folder of them.
    out : FILE
        Write the layout (.toml), or the tables themselves (.tables).
    layout : TOML
        Read by this layout, to check it.
    kind
        What the numbers are: counts, joint, row or column percentages.
    area : NAME
        The area to write to .tables, where there are many.

    Examples
    --------
    twoway tables read county.xlsx -o county.toml

    twoway tables read county.xlsx --layout county.toml -o county.tables
    """
    from twoway.tables.crosstabs.layout_finding import draft_layout
    from twoway.tables.crosstabs.published_files import read_published_sheets, with_published_groups

    check_known("action", ["read"], action)
    check_output(out, force, sheet, layout)
    options: dict[str, Any] = {"kind": kind}
    try:
        sheet_layout = tw.find_layout(sheet, **options) if layout is None else tw.SheetLayout.load(layout)
    except DataError as error:
        if out is None or out.suffix == ".tables" or layout is not None:
            raise
        try:
            draft_layout(sheet, **options).save(out)
        except DataError:
            raise error from None
        raise DataError(f"{error}; {out} lacks only these names: replace those that begin with '?'") from error
    notes: list[str] = []
    sheet_tables = read_published_sheets(sheet, sheet_layout, notes)
    sheet_layout = with_published_groups(sheet_layout, sheet_tables)
    areas = list(dict.fromkeys(table.area for table in sheet_tables))
    first = [table for table in sheet_tables if table.area == areas[0]]
    try:
        published = tw.read_published(sheet, layout=sheet_layout, area=area or areas[0] or None)
        notes = list(dict.fromkeys([*notes, *published.notes]))
    except DataError as error:
        notes.append(f"a fit would reject these tables as they are: {error}")
    content: dict[str, Any] = {
        "areas": areas if areas != [""] else [],
        "tables": [_tables_command_table(table) for table in first],
        "groups": {name: dict(members) for name, members in sheet_layout.groups.items()},
        "notes": notes,
        "layout": None if out is None else str(out),
    }
    print_output(content, _tables_command_text(content["tables"], content["groups"], areas), json=json)
    if not json:
        for text in notes:
            print_note(text)
    if out is None:
        return
    if out.suffix == ".tables":
        tw.read_published(sheet, layout=sheet_layout, area=area).save(out)
    else:
        sheet_layout.save(out)
    if not json:
        say(f"{'tables' if out.suffix == '.tables' else 'layout'}: {out}")


def _tables_command_table(table: SheetTable) -> dict[str, Any]:
    """Return how a table was read."""
    names = [" × ".join(table.variables[axis] for axis in margin.axes) or "all" for margin in table.margins]
    margins = [f"{margin.role} of {name}" for margin, name in zip(table.margins, names, strict=True)]
    has_totals = any(margin.role == "total" for margin in table.margins)
    check = "adds up to its totals" if has_totals else "has no totals to check"
    return {
        "variables": table.sides,
        "kind": table.kind,
        "margins": margins,
        "total": table.total,
        "sum": float(table.values.sum()) if table.kind in ("counts", "joint") else None,
        "check": check if table.kind == "counts" else "adds up to 100 %",
        "first_cell": table.place((0,) * table.values.ndim),
    }


def _tables_command_text(tables: Sequence[dict[str, Any]], groups: Mapping[str, Any], areas: Sequence[str]) -> str:
    rows: list[list[str]] = []
    for table in tables[:_MOST_TABLES]:
        total = "" if table["sum"] is None else f", sum {table['sum']:,.6g}"
        base = "" if table["total"] is None else f", of {counted(table['total'], 'record')}"
        rows.append(["table", crossed_text(table["variables"], 60)])
        rows.append(["", f"{table['kind']}{total}{base}; {table['check']}; first cell: {table['first_cell']}"])
        rows += [["", f"{printable(name, 40)}: {shortlist(labels, 8)}"] for name, labels in table["variables"].items()]
        rows.append(["", f"margins: {', '.join(table['margins']) or 'none'}"])
    if len(tables) > _MOST_TABLES:
        rows.append(["", f"{counted(len(tables) - _MOST_TABLES, 'more table')}; --json shows all"])
    for name, members in groups.items():
        for label, categories in list(members.items())[:_MOST_TABLES]:
            rows.append(["group", f"{printable(name, 40)} {printable(label, 40)} = {shortlist(categories, 8)}"])
    if len(areas) > 1:
        rows.append(["areas", f"{len(areas)}, each with these tables: {shortlist(areas, 5)}"])
    return aligned_text(rows)
