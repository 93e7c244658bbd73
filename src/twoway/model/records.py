"""Records read by a model's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twoway.data.missing import Unseen
from twoway.data.records import Records
from twoway.errors import DataError, UnknownNameError
from twoway.report import Report
from twoway.schema import Schema


def records_for_model(schema: Schema, source: Any, unseen: Unseen = "error", report: Report | None = None) -> Records:
    """Return a source of any kind as records read by a model's schema.

    The columns of an array are the variables in order, where there are as many. With the report of a model, counts and
    weights are in the columns in which they were in its fit.
    """
    columns = {} if report is None else report.columns
    numbers: dict[str, Any] = {what: columns[what] for what in ("counts", "weights") if what in columns}
    if isinstance(source, Records):
        schema.check_same(source.schema, "the records have another schema than the model")
        return source
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(schema):
        if numbers:
            raise _model_records_lack(numbers, "an array has no other columns than the variables")
        return Records(source, schema=schema, columns=schema.names, unseen=unseen)
    if isinstance(source, list | tuple):
        if not all(isinstance(record, Mapping) for record in source):
            raise DataError("a list of records must hold mappings from name to label; or give a frame")
        names = dict.fromkeys([name for record in source for name in record] or schema.names)
        source = {name: np.array([*(r.get(name) for r in source), None], dtype=object)[:-1] for name in names}
    try:
        return Records(source, schema=schema, unseen=unseen, **numbers)
    except UnknownNameError as error:
        lacking = {what: column for what, column in numbers.items() if f" for the {what}" in str(error)}
        if not lacking:
            raise
        raise _model_records_lack(lacking, error) from error


def _model_records_lack(numbers: Mapping[str, str], why: object) -> UnknownNameError:
    named = " and ".join(f"{what} in the column {column!r}" for what, column in numbers.items())
    return UnknownNameError(
        f"the model was fitted to records with {named}, which these lack: {why}. "
        "tw.Records(source, schema=pmf.schema) reads them without"
    )
