"""Published cross-tabulations, from what people print to counts.

``cells`` reads a number, ``sheets`` a frame, ``labels`` finds the categories, ``shares`` completes
percentages, and ``kinds`` turns all of it into counts.
"""

from twoway.tables.crosstabs.kinds import TableKind, read_crosstabs
from twoway.tables.crosstabs.sheets import Key

__all__ = ["Key", "TableKind", "read_crosstabs"]
