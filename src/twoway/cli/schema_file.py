"""Declared variables and categories, from a file."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

from twoway.data.binning import bin_labels
from twoway.errors import DataError, FileFormatError, TwowayError
from twoway.schema import Schema, Variable
from twoway.storage import container
from twoway.text import brief

_SHAPE = '{"vote": ["no", "yes"], "income": {"cuts": [10000, 20000]}}'


def read_schema(path: Path) -> Schema:
    """Return the schema in a file of tables, a model, or JSON with the categories or cut points of each variable."""
    if container.container_kind(path) is not None:
        header, _ = container.read(path)
        try:
            return Schema.from_dict(header["schema"])
        except (TwowayError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{str(path)!r} holds no valid schema: {error}") from error
    try:
        described = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise container.missing_file(path) from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{str(path)!r} is neither JSON nor a twoway file: {error}") from error
    if not isinstance(described, dict) or not described:
        raise FileFormatError(f"{str(path)!r} does not hold a schema, such as {_SHAPE}")
    try:
        return Schema(tuple(_variable(name, listed) for name, listed in described.items()))
    except DataError as error:
        raise FileFormatError(f"{str(path)!r}: {error}") from error


def _variable(name: str, described: Any) -> Variable:
    if isinstance(described, list):
        return Variable(name, tuple(described))
    cuts = described.get("cuts") if isinstance(described, dict) and described.keys() == {"cuts"} else None
    is_numbers = isinstance(cuts, list) and all(type(cut) in (int, float) and math.isfinite(cut) for cut in cuts)
    if not cuts or not is_numbers or any(low >= high for low, high in itertools.pairwise(cuts)):
        raise DataError(
            f"{name!r} needs a list of categories, or ascending numbers between bins, as in {_SHAPE}; got "
            f"{brief(described)}"
        )
    return Variable(name, bin_labels(cuts), edges=tuple(cuts))
