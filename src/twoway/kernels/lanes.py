"""Short vectors of doubles that live in registers.

numba's own loops over a rank of 10 stay scalar: the compiler cannot prove that arrays do not overlap.
These functions emit LLVM's vector operations directly, so a record's components are multiplied and added
four at a time, three times faster.

The number of lanes is part of the type: a tuple of that many zeros, made by `layout`, is handed down
to the kernel as a prototype, and numba compiles one version for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from twoway.kernels import plain_lanes
from twoway.kernels.jit import DISABLED

# An intrinsic is called with what its function takes behind the typing context, which no type checker knows.
_intrinsic: Any = intrinsic

_VECTOR = ir.VectorType(ir.DoubleType(), 4)
_MOST_LANES = 16  # four registers of four: beyond that they spill


def layout(rank: int) -> tuple[int, tuple[int, ...]]:
    """Return the padded width for a rank, and the prototype of its lanes.

    Examples
    --------
    >>> layout(10)[0], len(layout(10)[1])
    (12, 12)
    >>> layout(20)[0], len(layout(20)[1])
    (24, 12)
    """
    quads = -(-rank // 4)
    tiles = -(-quads * 4 // _MOST_LANES)
    lanes = -(-quads // tiles) * 4
    return lanes * tiles, (0,) * lanes


class Lanes(types.Type):
    """The numba type of some quadruples of doubles."""

    def __init__(self, n_vectors: int) -> None:
        self.n_vectors = n_vectors
        super().__init__(name=f"Lanes({n_vectors})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.ArrayType(_VECTOR, lanes.n_vectors))


def _pack(builder: Any, vectors: Sequence[Any]) -> Any:
    packed = ir.Constant(ir.ArrayType(_VECTOR, len(vectors)), ir.Undefined)
    for position, vector in enumerate(vectors):
        packed = builder.insert_value(packed, vector, position)
    return packed


def _unpack(builder: Any, packed: Any, n_vectors: int) -> list[Any]:
    return [builder.extract_value(packed, position) for position in range(n_vectors)]


def _addresses(context: Any, builder: Any, array_type: Any, array: Any, index: Any, n_vectors: int) -> list[Any]:
    data = context.make_array(array_type)(context, builder, array).data
    first = builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())
    return [builder.gep(first, [ir.Constant(ir.IntType(64), position)]) for position in range(n_vectors)]


@_intrinsic
def load(typing_context: Any, array: Any, index: Any, prototype: Any) -> Any:
    """Read lanes from a flat array, beginning at an index."""
    n_vectors = prototype.count // 4

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        addresses = _addresses(context, builder, signature.args[0], arguments[0], arguments[1], n_vectors)
        return _pack(builder, [builder.load(address, align=8) for address in addresses])

    return Lanes(n_vectors)(array, types.intp, prototype), generate


@_intrinsic
def store(typing_context: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes into a flat array, beginning at an index."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        addresses = _addresses(context, builder, signature.args[0], arguments[0], arguments[1], lanes.n_vectors)
        for address, vector in zip(addresses, _unpack(builder, arguments[2], lanes.n_vectors), strict=True):
            builder.store(vector, address, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


def _elementwise(operation: str) -> Any:
    @_intrinsic
    def combine(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(*(_unpack(builder, argument, left.n_vectors) for argument in arguments), strict=True)
            return _pack(builder, [getattr(builder, operation)(*pair) for pair in pairs])

        return left(left, left), generate

    return combine


add = _elementwise("fadd")
multiply = _elementwise("fmul")


@_intrinsic
def total(typing_context: Any, lanes: Any) -> Any:
    """Return the sum over all lanes, always added in the same order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, *rest = _unpack(builder, arguments[0], lanes.n_vectors)
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
        return _pack(builder, [vector] * n_vectors)

    return Lanes(n_vectors)(types.float64, prototype), generate


if DISABLED:  # nothing is compiled, and only a compiler understands what stands above
    for _name in ("load", "store", "total", "spread", "add", "multiply"):
        globals()[_name] = getattr(plain_lanes, _name)
