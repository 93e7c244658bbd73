"""The one decorator of the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Return the function compiled, without the interpreter's lock, and cached on disk where that can be."""
    return _compiled(function)


def jit_sums(function: Function) -> Function:
    """Return the function compiled like `jit`, its sums added up lane by lane, which is not done unasked."""
    return _compiled(function, error_model="numpy", fastmath={"reassoc", "contract"})


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # no folder for the cache can be written: compile anew in each process
        return cast(Function, numba.njit(nogil=True, **options)(function))


def inline(function: Function) -> Function:
    """Return a function for kernels to call, compiled into each of them."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))
