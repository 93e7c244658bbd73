"""The file of a model: its schema, its report, its weights and its factors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.errors import DataError, FileFormatError, TwowayError
from twoway.model.parameters import check_parameters
from twoway.report import Report
from twoway.schema import Schema
from twoway.storage import container

# The sums of written probabilities differ from 1 by rounding only.
_TOLERANCE = 1e-9


def write_model(
    path: str | os.PathLike[str],
    schema: Schema,
    weights: Floats,
    stacked: Floats,
    report: Report | None,
    more: Mapping[str, Floats] | None = None,
) -> None:
    """Write a model whole or not at all; ``more`` are arrays that go with it, such as replicates."""
    header = {"schema": schema.to_dict(), "report": None if report is None else report.to_dict()}
    arrays = {"weights": weights, "stacked": stacked, **(more or {})}
    if report is not None and report.support is not None:
        arrays["support"] = report.support
    container.write(path, "model", header, arrays)


def read_model(path: str | os.PathLike[str]) -> tuple[Schema, Floats, Floats, Report | None]:
    """Return schema, weights, stacked factors and report of a model file; an invalid one raises `FileFormatError`."""
    return parse_model(path, *container.read(path, "model"))


def parse_model(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[Schema, Floats, Floats, Report | None]:
    """Return schema, weights, stacked factors and report from the contents of a model file.

    The arrays are as they were written: rescaled, they would not be saved to the same bytes again.
    """
    try:
        schema = Schema.from_dict(header["schema"])
        report = None if header["report"] is None else Report.from_dict(header["report"])
        weights, stacked = arrays["weights"], arrays["stacked"]
        if weights.dtype != np.float64 or stacked.dtype != np.float64:
            raise DataError(f"its arrays are of {weights.dtype} and {stacked.dtype}, not float64")
        if weights.ndim != 1 or len(weights) == 0 or stacked.shape != (schema.n_categories, len(weights)):
            raise DataError(f"its arrays have the shapes {weights.shape} and {stacked.shape}")
        check_parameters(schema, weights, stacked, _TOLERANCE)
        if report is not None and "support" in arrays:
            support = arrays["support"].astype(np.float64)
            if support.shape != (1 + len(schema), len(weights)) or not (np.isfinite(support) & (support >= 0)).all():
                raise DataError("its array of support must hold nonnegative numbers, with a row for each variable")
            report = replace(report, support=support)
    except (TwowayError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise FileFormatError(f"{str(path)!r} is not a valid model file: {error}") from error
    return schema, weights, stacked, report
