"""Where data files are that the library does not ship: in the folder that TWOWAY_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "TWOWAY_DATA"


def in_data_folder(*parts: str) -> Path | None:
    """Return a path inside the folder that TWOWAY_DATA names, whether it exists or not; None where none is named."""
    folder = os.environ.get(VARIABLE)
    return Path(folder, *parts) if folder else None


def where_to_put(*parts: str) -> str:
    """Return in words where a file is looked for."""
    path = in_data_folder(*parts)
    if path is None:
        return f"{'/'.join(parts)!r} in a folder that the environment variable {VARIABLE} names (it is not set)"
    return f"{str(path)!r} ({VARIABLE} names the folder)"
