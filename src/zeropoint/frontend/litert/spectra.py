"""RFFT2D, and what reads complex numbers: the parts of them are values of their own, as far as they are only moved.

Source: the LiteRT schema; TensorFlow's operators of these names.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.call import Call
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.spectra import along, transform
from zeropoint.ir.evaluation import MOVEMENT
from zeropoint.ir.stablehlo import AddOp, ComplexOp, ImagOp, MultiplyOp, RealOp, SqrtOp
from zeropoint.ir.tensors import element_of, shape_of, with_element


def rfft2d(call: Call) -> SSAValue:
    """RFFT2D: the transform of the last two dimensions, of which the last one has the bins of one side.

    A dimension is cropped, or filled with zeros, to the length of its transform. Each is a product with a constant
    matrix. The real and the imaginary part are products of their own, because often one of them is read.
    """
    value, lengths = call.operand(0), call.integers(1, "fft_length")
    shape = shape_of(value)
    if len(lengths) != 2 or min(lengths) < 1 or len(shape) < 2:
        raise NodeError(
            f"found a transform of {list(lengths)} elements of shape {list(shape)}, expected two lengths of 1 or more, "
            "and two dimensions or more"
        )
    (height, width), rank, build = lengths, len(shape), call.build
    value, axis = build.reshape(value, [*shape, 1]), rank - 1
    matrix = transform(shape[-1], 1, width, onesided=True, inverse=False)
    if height > 1 or shape[-2] > 1:
        value, axis = along(value, axis, matrix, build), rank - 2
        matrix = transform(shape[-2], 2, height, onesided=False, inverse=False)
    parts = [along(value, axis, matrix[..., part : part + 1], build) for part in (0, 1)]
    return build.insert(ComplexOp(*(build.reshape(part, shape_of(part)[:-1]) for part in parts)))


def part_of(value: SSAValue, part: type[RealOp | ImagOp], build: Builder) -> SSAValue:
    """The real or the imaginary part of complex numbers: a part of the numbers that they were moved from, moved."""
    op = value.owner
    if isinstance(op, ComplexOp):
        return op.lhs if part is RealOp else op.rhs
    if isinstance(op, Operation) and type(op) in MOVEMENT:
        parts = [part_of(operand, part, build) for operand in op.operands]
        kind = with_element(value, element_of(parts[0]))
        return build.insert(type(op).create(operands=parts, result_types=[kind], properties=dict(op.properties)))
    return build.insert(part(value))


def is_complex(value: SSAValue) -> bool:
    """Whether the elements of a value are complex numbers."""
    return isinstance(element_of(value), ComplexType)


def real(call: Call) -> SSAValue:
    """REAL."""
    return part_of(_numbers(call), RealOp, call.build)


def imaginary(call: Call) -> SSAValue:
    """IMAG."""
    return part_of(_numbers(call), ImagOp, call.build)


def magnitude(call: Call) -> SSAValue:
    """COMPLEX_ABS: the root of the sum of the squares of both parts."""
    parts = [part_of(_numbers(call), part, call.build) for part in (RealOp, ImagOp)]
    squares = [call.build.apply(MultiplyOp, part, part) for part in parts]
    return call.build.apply(SqrtOp, call.build.apply(AddOp, *squares))


def _numbers(call: Call) -> SSAValue:
    value = call.operand(0)
    if not is_complex(value):
        raise NodeError(f"found an operand of {call.tensor(0).type_name}, expected complex numbers")
    return value
