"""For the reference: docstrings at run time, after decorators or base classes have filled them in."""

from __future__ import annotations

import inspect
from typing import Any

import griffe


class FilledDocstrings(griffe.Extension):
    """Replace the docstring of a class that is filled in later with the one that `help` shows."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Update a class after it has been parsed."""
        if cls.docstring is not None and (cls.decorators or "<parameters>" in cls.docstring.value):
            found = inspect.getdoc(griffe.dynamic_import(cls.path))
            cls.docstring.value = found or cls.docstring.value
