"""Libraries that take long to import, each imported when something of it is first used, and those of extras.

A model that is loaded and asked needs none of them, and the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twoway.errors import DataError

__all__ = ["ds", "ibis", "import_extra", "nw", "pa", "pc", "pd", "pl", "pq", "sge", "sqlglot"]

if TYPE_CHECKING:
    import ibis
    import narwhals as nw
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    import sqlglot
    import sqlglot.expressions as sge
else:

    class _LazyModule:
        """Stands for a module until something of it is used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(importlib.import_module(self._name), attribute)

    nw, pd, pl, pa = map(_LazyModule, ["narwhals", "pandas", "polars", "pyarrow"])
    pc, ds, pq = map(_LazyModule, ["pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"])
    ibis, sqlglot, sge = map(_LazyModule, ["ibis", "sqlglot", "sqlglot.expressions"])


def import_extra(module: str, need: str, extra: str) -> Any:
    """Return a module that an extra of the package installs, or raise with the ``need`` for it and the command."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(f'{need}: pip install "twoway[{extra}]"') from None
