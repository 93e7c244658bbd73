"""Short vectors of doubles that live in registers.

numba's own loops over a rank of 10 stay scalar: the compiler cannot prove that arrays do not overlap.
These functions emit LLVM's vector operations directly, so a record's components are multiplied and added
four at a time, three times faster.

The number of lanes is part of the type: a tuple of that many zeros, made by `layout`, is handed down
to the kernel as a prototype, and numba compiles one version for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from twoway.arrays import Floats
from twoway.kernels.jit import DISABLED

# An intrinsic is called with what its function takes behind the typing context, which no type checker knows.
_intrinsic: Any = intrinsic

_VECTOR = ir.VectorType(ir.DoubleType(), 4)
_MOST_LANES = 16  # four registers of four: beyond that they spill

Prototype: TypeAlias = tuple[int, ...]
"""As many zeros as there are lanes."""


def lane_layout(rank: int) -> tuple[int, Prototype]:
    """Return the padded width for a rank, and the prototype of its lanes.

    Examples
    --------
    >>> lane_layout(10)[0], len(lane_layout(10)[1])
    (12, 12)
    >>> lane_layout(20)[0], len(lane_layout(20)[1])
    (24, 12)
    """
    quads = -(-rank // 4)
    tiles = -(-quads * 4 // _MOST_LANES)
    lanes = -(-quads // tiles) * 4
    return lanes * tiles, (0,) * lanes


def pad_to_lanes(weights: Floats, factors: Floats) -> Floats:
    """Return θ for the kernels: weights (F,) above factors (I, F), padded to whole lanes."""
    width, _ = lane_layout(len(weights))
    theta = np.zeros((1 + len(factors), width))
    theta[0, : len(weights)] = weights
    theta[1:, : len(weights)] = factors
    return theta


class Lanes(types.Type):
    """The numba type of some quadruples of doubles."""

    def __init__(self, n_vectors: int) -> None:
        self.n_vectors = n_vectors
        super().__init__(name=f"Lanes({n_vectors})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.ArrayType(_VECTOR, lanes.n_vectors))


def _pack_lanes(builder: Any, vectors: Sequence[Any]) -> Any:
    packed = ir.Constant(ir.ArrayType(_VECTOR, len(vectors)), ir.Undefined)
    for position, vector in enumerate(vectors):
        packed = builder.insert_value(packed, vector, position)
    return packed


def _unpack_lanes(builder: Any, packed: Any, n_vectors: int) -> list[Any]:
    return [builder.extract_value(packed, position) for position in range(n_vectors)]


def _lane_addresses(context: Any, builder: Any, array_type: Any, array: Any, index: Any, n_vectors: int) -> list[Any]:
    data = context.make_array(array_type)(context, builder, array).data
    first = builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())
    return [builder.gep(first, [ir.Constant(ir.IntType(64), position)]) for position in range(n_vectors)]


@_intrinsic
def load(typing_context: Any, array: Any, index: Any, prototype: Any) -> Any:
    """Read lanes from a flat array, beginning at an index."""
    n_vectors = prototype.count // 4

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        addresses = _lane_addresses(context, builder, signature.args[0], arguments[0], arguments[1], n_vectors)
        return _pack_lanes(builder, [builder.load(address, align=8) for address in addresses])

    return Lanes(n_vectors)(array, types.intp, prototype), generate


@_intrinsic
def store(typing_context: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes into a flat array, beginning at an index."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        addresses = _lane_addresses(context, builder, signature.args[0], arguments[0], arguments[1], lanes.n_vectors)
        for address, vector in zip(addresses, _unpack_lanes(builder, arguments[2], lanes.n_vectors), strict=True):
            builder.store(vector, address, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


def _lanewise(operation: str) -> Any:
    @_intrinsic
    def combine(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(*(_unpack_lanes(builder, argument, left.n_vectors) for argument in arguments), strict=True)
            return _pack_lanes(builder, [getattr(builder, operation)(*pair) for pair in pairs])

        return left(left, left), generate

    return combine


add = _lanewise("fadd")
multiply = _lanewise("fmul")
divide = _lanewise("fdiv")


@_intrinsic
def multiply_add(typing_context: Any, left: Any, right: Any, sums: Any) -> Any:
    """Return left · right + sums, lane by lane; in one step where the processor can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        triples = zip(*(_unpack_lanes(builder, argument, left.n_vectors) for argument in arguments), strict=True)
        fused = {"flags": ("contract",)}
        return _pack_lanes(builder, [builder.fadd(builder.fmul(a, b, **fused), c, **fused) for a, b, c in triples])

    return left(left, left, left), generate


@_intrinsic
def total(typing_context: Any, lanes: Any) -> Any:
    """Return the sum over all lanes, always added in the same order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, *rest = _unpack_lanes(builder, arguments[0], lanes.n_vectors)
        for vector in rest:
            first = builder.fadd(first, vector)
        a, b, c, d = (builder.extract_element(first, ir.Constant(ir.IntType(32), lane)) for lane in range(4))
        return builder.fadd(builder.fadd(a, c), builder.fadd(b, d))

    return types.float64(lanes), generate


@_intrinsic
def spread(typing_context: Any, number: Any, prototype: Any) -> Any:
    """Return lanes that all hold one number."""
    n_vectors = prototype.count // 4

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(4):
            vector = builder.insert_element(vector, arguments[0], ir.Constant(ir.IntType(32), lane))
        return _pack_lanes(builder, [vector] * n_vectors)

    return Lanes(n_vectors)(types.float64, prototype), generate


# In numpy, where nothing is compiled: slow, but a debugger sees it.


def _plain_lanes_load(array: Floats, index: int, prototype: Prototype) -> Floats:
    return array[index : index + len(prototype)].copy()


def _plain_lanes_store(array: Floats, index: int, lanes: Floats) -> None:
    array[index : index + len(lanes)] = lanes


def _plain_lanes_total(lanes: Floats) -> float:
    a, b, c, d = lanes.reshape(-1, 4).sum(axis=0)
    return float((a + c) + (b + d))


def _plain_lanes_spread(number: float, prototype: Prototype) -> Floats:
    return np.full(len(prototype), number)


def _plain_lanes_multiply_add(left: Floats, right: Floats, sums: Floats) -> Floats:
    return left * right + sums


if DISABLED:  # only a compiler understands what is above
    load, store, total, spread = _plain_lanes_load, _plain_lanes_store, _plain_lanes_total, _plain_lanes_spread
    add, multiply, divide, multiply_add = np.add, np.multiply, np.divide, _plain_lanes_multiply_add
