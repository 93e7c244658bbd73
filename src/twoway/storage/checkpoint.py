"""The state of a long fit, in a file from which the same fit continues after an interruption.

A fit is a sequence of loops, each of which is determined by its start. The file holds the state of the loop that is
running, and the ends of those that took long. A fit that finds the file runs through the same sequence,
skips the loops that ended and continues the one that did not, to the same result.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, FileFormatError, MissingFileError
from twoway.storage.container import read_container, write_container

SECONDS = 30.0
"""The file is written at most this often."""
_LAYOUT = 3
"""The version of the file's layout; a file of another version counts as that of another fit."""
_WORTH_SECONDS = 1.0
"""A loop that took less is run again rather than kept."""


class SavedLoop(NamedTuple):
    """The state of a loop: everything that it needs to continue, or its end."""

    arrays: tuple[Floats, ...]
    stop_reason: str | None
    """None while the loop runs."""


class Checkpoint:
    """The file of one fit; a file of the same name that belongs to another fit is replaced."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            raise DataError(f"cannot write a checkpoint to {str(path)!r}: it must be a file in an existing folder")
        self._fit = ""
        self._loops: dict[str, SavedLoop] = {}
        self._written = time.monotonic()
        self._began: dict[str, float] = {}
        self._is_interrupted = False

    def open(self, fit: str) -> None:
        """Read the states of a fit, if the file is of a fit with the same description of data and options."""
        self._fit = hashlib.blake2b(f"{_LAYOUT} {fit}".encode(), digest_size=16).hexdigest()
        try:
            header, arrays = read_container(self._path, "checkpoint")
            if header["fit"] == self._fit:
                ends = np.cumsum([math.prod(shape) for loop in header["loops"] for shape in loop["shapes"]])
                parts = iter(np.split(arrays["numbers"], ends))
                for loop in header["loops"]:
                    saved = tuple(next(parts).reshape(shape) for shape in loop["shapes"])
                    self._loops[loop["key"]] = SavedLoop(saved, loop["stop_reason"])
        except MissingFileError:
            pass
        except (FileFormatError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{str(self._path)!r} exists and is not a checkpoint: {error}") from error

    def begin(self, start: Floats) -> tuple[str, SavedLoop | None]:
        """Return the key of the loop that begins now, and its state in an earlier run."""
        # The same fit runs through the same loops. The start is part of the key for safety: if the data have changed,
        # it has as well.
        key = f"{len(self._began)}-{hashlib.blake2b(start.tobytes(), digest_size=8).hexdigest()}"
        self._began[key] = time.monotonic()
        return key, self._loops.get(key)

    def save(self, key: str, loop: SavedLoop) -> None:
        """Keep the state of a loop; the file is written now and then."""
        self._loops[key] = loop
        if loop.stop_reason is not None and time.monotonic() - self._began.get(key, 0.0) < _WORTH_SECONDS:
            del self._loops[key]
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        loops = [
            {"key": key, "shapes": [array.shape for array in loop.arrays], "stop_reason": loop.stop_reason}
            for key, loop in self._loops.items()
        ]
        # One array for all: a file has few arrays, whatever the number of loops.
        flat = [array.ravel() for loop in self._loops.values() for array in loop.arrays]
        header = {"fit": self._fit, "loops": loops}
        write_container(self._path, "checkpoint", header, {"numbers": np.concatenate([np.zeros(0), *flat])})
        self._written = time.monotonic()

    def close(self, *, is_interrupted: bool) -> None:
        """Write the file once more, if it holds loops that took long."""
        self._is_interrupted = is_interrupted
        if self._loops:
            self.write()

    def remove(self) -> None:
        """Remove the file after its model is saved; after an interruption it stays, for the next fit to continue."""
        # Where there is no file, a folder that cannot be written to must not raise.
        if not self._is_interrupted and self._path.exists():
            self._path.unlink(missing_ok=True)
