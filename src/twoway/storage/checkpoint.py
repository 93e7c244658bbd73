"""Where a long fit has got to, in a file from which the same fit goes on after it was interrupted.

A fit is a sequence of loops, each of which is determined by where it starts. The file holds how far the loop that is
running has got, and where those that took their time ended. A fit that finds the file runs through the same sequence,
passes over the loops that ended and goes on in the one that did not, to the same result.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, FileFormatError, MissingFileError
from twoway.storage import container

SECONDS = 30.0
"""How often the file is written, at most."""
_LAYOUT = 2
"""How the file is arranged; one that is arranged otherwise counts as that of another fit."""
_WORTH_SECONDS = 1.0
"""A loop that took less is quicker run again than kept."""


class LoopState(NamedTuple):
    """What a loop needs to go on as if nothing had happened, or what it ended with."""

    point: Floats
    best: Floats
    numbers: Mapping[str, Any]
    """Everything else, as JSON holds it."""


class _Reader:
    """Arrays that were written one after the other, in the same order."""

    def __init__(self, flat: Floats) -> None:
        self._flat, self._at = flat, 0

    def next(self, shape: Sequence[int]) -> Floats:
        start, self._at = self._at, self._at + math.prod(shape)
        return self._flat[start : self._at].reshape(shape)


class Checkpoint:
    """The file of one fit; one of another fit that has the same name is replaced."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            raise DataError(f"cannot write a checkpoint to {str(path)!r}: it must be a file in a folder that exists")
        self._fit = ""
        self._states: dict[str, LoopState] = {}
        self._written = time.monotonic()
        self._began: dict[str, float] = {}
        self._is_interrupted = False

    def open(self, fit: str) -> None:
        """Read how far a fit had got: only one of the same description, what is fitted and how, goes on from there."""
        self._fit = hashlib.blake2b(f"{_LAYOUT} {fit}".encode(), digest_size=16).hexdigest()
        try:
            header, arrays = container.read(self._path, "checkpoint")
            if header["fit"] == self._fit:
                points, bests = (_Reader(arrays[name]) for name in ("points", "bests"))
                for loop in header["loops"]:
                    state = LoopState(points.next(loop["point"]), bests.next(loop["best"]), loop["numbers"])
                    self._states[loop["key"]] = state
        except MissingFileError:
            pass
        except (FileFormatError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{str(self._path)!r} is there already, and no checkpoint: {error}") from error

    def begin(self, start: Floats) -> tuple[str, LoopState | None]:
        """Return the name of the loop that begins now, and how far it had got, None where it begins anew."""
        # The same fit runs through the same loops. The point is there for safety: should the data have changed, the
        # start has as well.
        key = f"{len(self._began)}-{hashlib.blake2b(start.tobytes(), digest_size=8).hexdigest()}"
        self._began[key] = time.monotonic()
        return key, self._states.get(key)

    def tell(self, key: str, state: LoopState, *, has_ended: bool = False) -> None:
        """Take note of how far a loop has got; the file is written now and then."""
        self._states[key] = state
        if has_ended and time.monotonic() - self._began.get(key, 0.0) < _WORTH_SECONDS:
            del self._states[key]
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        # One array of all points and one of all best: a file has few arrays, whatever the number of loops.
        loops = [
            {"key": key, "point": state.point.shape, "best": state.best.shape, "numbers": dict(state.numbers)}
            for key, state in self._states.items()
        ]
        arrays = {
            "points": np.concatenate([np.zeros(0), *(state.point.ravel() for state in self._states.values())]),
            "bests": np.concatenate([np.zeros(0), *(state.best.ravel() for state in self._states.values())]),
        }
        container.write(self._path, "checkpoint", {"fit": self._fit, "loops": loops}, arrays)
        self._written = time.monotonic()

    def close(self, *, is_interrupted: bool) -> None:
        """Write the file once more, where a loop took so long that running it again would be a loss."""
        self._is_interrupted = is_interrupted
        if self._states:
            self.write()

    def remove(self) -> None:
        """Remove the file, for its model is safe; after an interruption it stays, and the next fit goes on from it."""
        if (
            not self._is_interrupted and self._path.exists()
        ):  # a folder that cannot be written to says so whatever is in it
            self._path.unlink(missing_ok=True)
