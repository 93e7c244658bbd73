"""For the reference: docstrings as they are when the program runs, where a decorator has filled them in."""

from __future__ import annotations

import inspect
from typing import Any

import griffe


class FilledDocstrings(griffe.Extension):
    """Replaces the docstring of a decorated class by the one that `help` shows."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Look at a class once it has been read."""
        if cls.docstring is not None and cls.decorators:
            found = inspect.getdoc(griffe.dynamic_import(cls.path))
            cls.docstring.value = found or cls.docstring.value
