"""For the reference: docstrings at run time, after decorators have filled them in."""

from __future__ import annotations

import inspect
from typing import Any

import griffe


class FilledDocstrings(griffe.Extension):
    """Replace the docstring of a decorated class with the one that `help` shows."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Update a class after it has been parsed."""
        if cls.docstring is not None and cls.decorators:
            found = inspect.getdoc(griffe.dynamic_import(cls.path))
            cls.docstring.value = found or cls.docstring.value
