"""The decorators of the kernels."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints

DISABLED = bool(getattr(numba.config, "DISABLE_JIT", False))
"""Whether numba is set to compile nothing (``NUMBA_DISABLE_JIT=1``): kernels then run as Python, slowly."""

Cells: TypeAlias = NDArray[Any]
"""Numbers of cells, one record's behind the other's, in the smallest type that holds them."""
Compressed: TypeAlias = tuple[Ints, Cells, Floats]
"""The pointers, cells and weights of compressed records; no weights (size 0) mean one each."""
Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Return the function compiled, without the interpreter's lock, and cached on disk where that can be."""
    return _jit_cached(function)


def jit_sums(function: Function) -> Function:
    """Return the function compiled like `jit`, its sums added up lane by lane, which is not done unasked."""
    return _jit_cached(function, error_model="numpy", fastmath={"reassoc", "contract"})


def jit_inline(function: Function) -> Function:
    """Return a function for kernels to call, compiled into each of them."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))


def _jit_cached(function: Function, **options: Any) -> Function:
    if DISABLED:
        return np.errstate(all="ignore")(function)  # compiled code does not warn, either
    compiled = numba.njit(nogil=True, **options)(function)
    with contextlib.suppress(RuntimeError):  # no folder for the cache can be written: compile anew in each process
        compiled._cache = _JitCache(function)
    compiled._compile_for_args = jit_without_interrupts()(compiled._compile_for_args)
    return cast(Function, compiled)


@contextlib.contextmanager
def jit_without_interrupts() -> Iterator[None]:
    """Return a context in which Ctrl-C waits for the end.

    The compiler holds locks that it would not give back, and other threads would wait for them for ever.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    pressed: list[tuple[int, Any]] = []

    def hold(number: int, frame: Any) -> None:
        pressed.append((number, frame))

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            handler(*pressed[0])


class _JitCache(FunctionCache):
    """numba's cache on disk, whose failures cost a compilation and nothing else."""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled code, or None if there is none or a crash left its file damaged."""
        try:
            return super().load_overload(signature, target_context)
        except Exception:  # of unpickling, which may be any
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep the compiled code for later processes, unless the disk is full or the folder gone."""
        with contextlib.suppress(OSError):
            super().save_overload(signature, data)
