"""The one decorator of the kernels."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache

DISABLED = bool(getattr(numba.config, "DISABLE_JIT", False))
"""Whether numba was told to compile nothing (``NUMBA_DISABLE_JIT=1``): kernels then run as Python, slowly."""

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Return the function compiled, without the interpreter's lock, and cached on disk where that can be."""
    return _compiled(function)


def jit_sums(function: Function) -> Function:
    """Return the function compiled like `jit`, its sums added up lane by lane, which is not done unasked."""
    return _compiled(function, error_model="numpy", fastmath={"reassoc", "contract"})


def _compiled(function: Function, **options: Any) -> Function:
    if DISABLED:
        return np.errstate(all="ignore")(function)  # compiled code does not warn, either
    compiled = numba.njit(nogil=True, **options)(function)
    with contextlib.suppress(RuntimeError):  # no folder for the cache can be written: compile anew in each process
        compiled._cache = _Cache(function)
    compiled._compile_for_args = _not_interrupted(compiled._compile_for_args)
    return cast(Function, compiled)


def _not_interrupted(compile_for_args: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compile_for_args)
    def compile_whole(*arguments: Any, **options: Any) -> Any:
        with interrupts_held_back():
            return compile_for_args(*arguments, **options)

    return compile_whole


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
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


class _Cache(FunctionCache):
    """numba's cache on disk, whose failures cost a compilation and nothing else."""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled code, or None where there is none or its file is damaged, as a crash may leave it."""
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


def inline(function: Function) -> Function:
    """Return a function for kernels to call, compiled into each of them."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))
