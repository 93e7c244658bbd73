"""Files of tables, by their endings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from twoway.errors import FileFormatError
from twoway.storage.container import whole_or_not_at_all
from twoway.tabulation.excel import tabulation_workbook
from twoway.tabulation.pages import tabulation_page
from twoway.tabulation.writing import long_table, tabulation_markdown, tabulation_text

if TYPE_CHECKING:
    from twoway.tabulation.result import Tabulation


def write_tabulation(tabulation: Tabulation, path: str | os.PathLike[str]) -> None:
    """Write tables in the format of the file's ending, whole or not at all."""
    ending = tabulation_ending(path)
    if ending in _LONG:
        from twoway.data.files.writing import write_table

        write_table(long_table(tabulation), path)
        return
    content = WRITERS[ending](tabulation)
    with whole_or_not_at_all(path) as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())


def tabulation_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file of tables; one that is not written is an error."""
    ending = Path(path).suffix.lower()
    if ending not in (*WRITERS, *_LONG):
        raise FileFormatError(
            f"cannot write {os.fspath(path)!r}: its name ends in {ending!r}; tables are written to "
            f"{', '.join((*WRITERS, *_LONG))}"
        )
    return ending


def _json(tabulation: Tabulation) -> str:
    return json.dumps(tabulation.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"


_LONG = (".csv", ".tsv", ".parquet", ".arrow")
WRITERS: dict[str, Callable[[Tabulation], str | bytes]] = {
    ".xlsx": tabulation_workbook,
    ".html": tabulation_page,
    ".md": tabulation_markdown,
    ".txt": lambda tabulation: tabulation_text(tabulation) + "\n",
    ".json": _json,
}
"""What writes a tabulation, by the ending of the file; those of a row per number are written as records are."""
