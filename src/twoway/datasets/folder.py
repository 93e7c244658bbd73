"""Data files that the library does not ship: in the folder named by the environment variable TWOWAY_DATA."""

from __future__ import annotations

import os
from pathlib import Path


def in_data_folder(*parts: str) -> Path | None:
    """Return a path in the folder TWOWAY_DATA, whether it exists or not; None if the variable is not set."""
    folder = os.environ.get("TWOWAY_DATA")
    return Path(folder, *parts) if folder else None


def where_to_put(*parts: str) -> str:
    """Return in words where a file is expected."""
    path = in_data_folder(*parts)
    if path is None:
        return f"a folder as {'/'.join(parts)!r}, and name the folder in the environment variable TWOWAY_DATA (not set)"
    return f"the folder TWOWAY_DATA as {str(path)!r}"
