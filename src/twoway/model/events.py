"""Events and evidence: the categories that a question allows for some variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from twoway.arrays import Ints
from twoway.errors import DataError, ImpossibleEvidenceError
from twoway.schema import Schema
from twoway.text import shortlist

Names: TypeAlias = str | Sequence[str]
"""One variable or several."""
Event: TypeAlias = Mapping[str, Any]
"""A label, or a collection of labels any of which may hold, for each variable named."""


def parse_event(schema: Schema, event: object) -> dict[int, Ints]:
    """Return the category codes that an event allows, for the position of each variable it names.

    Parameters
    ----------
    schema
        The variables.
    event
        A mapping from a variable's name to a label, or to a collection of labels any of which may hold. None and NaN
        mean that the variable is not known, as in a record with missing cells.
    """
    if not isinstance(event, Mapping):
        raise DataError(f"an event must be a mapping from names of variables to labels; got {event!r}")
    allowed = {}
    for name, wanted in event.items():
        index = schema.index(name)
        variable = schema.variables[index]
        if wanted is None or (isinstance(wanted, float) and wanted != wanted):
            continue
        labels = _event_labels(wanted)
        if not labels:
            raise DataError(f"the collection of categories for {name!r} is empty; at least one is needed")
        # np.unique would import numpy.ma, a tenth of the time of `twoway ask`.
        allowed[index] = np.array(sorted({variable.code(label) for label in labels}), dtype=np.int64)
    return allowed


def describe_event(evidence: Event) -> str:
    """Return evidence as text: "age = 'old', vote in {'no', 'yes'}"."""
    parts = []
    for name, wanted in evidence.items():
        labels = _event_labels(wanted)
        parts.append(f"{name} = {labels[0]!r}" if len(labels) == 1 else f"{name} in {{{shortlist(labels)}}}")
    return ", ".join(parts[:12]) + (f", … ({len(parts) - 12} more)" if len(parts) > 12 else "")


def impossible_event(evidence: Event) -> ImpossibleEvidenceError:
    """Return the error of evidence that a model holds to be impossible."""
    return ImpossibleEvidenceError(f"the evidence {describe_event(evidence)} has probability 0 under the model")


def _event_labels(wanted: Any) -> list[Any]:
    has_several = isinstance(wanted, Collection) and not isinstance(wanted, str | bytes | Mapping)
    return list(wanted) if has_several else [wanted]
