"""Answers as files: tables with a row for each number, or the JSON that ``--json`` prints."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.cli.terminal import json_line
from twoway.data.files.writing import writable_format_of, write_table
from twoway.errors import DataError
from twoway.storage.container import whole_or_not_at_all

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = ("value", "low", "high")


def write_answers(contents: list[dict[str, Any]], path: Path) -> None:
    """Write answers to a file: a list in a .json file, one per line in a .jsonl file, else a row for each number."""
    if writable_format_of(path) != "json":
        write_table(_table(contents), path)
        return
    lines = [json_line(content) for content in contents]
    text = "[\n" + ",\n".join(lines) + "\n]" if path.suffix.lower() == ".json" else "\n".join(lines)
    with whole_or_not_at_all(path) as stream:
        stream.write(f"{text}\n".encode())


def _table(contents: list[dict[str, Any]]) -> pa.Table:
    """Return the question, categories and number of each row; variables that a question does not name are null."""
    import pyarrow as pa

    rows = [row for content in contents for row in _rows(content)]
    names = list(dict.fromkeys(name for _, labels, _ in rows for name in labels))
    numbers = [key for key in _NUMBERS if any(key in values for _, _, values in rows)]
    for name in names:
        if name in ("question", *_NUMBERS):
            raise DataError(f"the variable {name!r} has the name of a column of the file; write a .json file instead")
    columns: dict[str, list[Any]] = {"question": [question for question, _, _ in rows]}
    for name in names:
        labels_of_name = [labels.get(name) for _, labels, _ in rows]
        is_mixed = len({type(label) for label in labels_of_name if label is not None}) > 1
        columns[name] = [str(label) if is_mixed and label is not None else label for label in labels_of_name]
    for key in numbers:
        columns[key] = [values.get(key) for _, _, values in rows]
    return pa.table(columns)


def _rows(content: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, float]]]:
    """Return the question, the labels, and the number with its interval, for each number of an answer."""
    axes = content.get("axes", [])
    key = next(key for key in ("probabilities", "values", "value", "probability") if key in content)
    arrays = {"value": np.ravel(content[key])}
    arrays |= {end: np.ravel(content[end]) for end in ("low", "high") if end in content}
    rows = []
    for place, cell in enumerate(itertools.product(*(axis["categories"] for axis in axes))):
        labels = dict(zip([axis["variable"] for axis in axes], cell, strict=True)) | content.get("mode", {})
        numbers = {name: float(array[place]) for name, array in arrays.items() if np.isfinite(array[place])}
        rows.append((content["question"], labels, numbers))
    return rows
