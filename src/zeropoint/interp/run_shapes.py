"""Shapes that are known only when a program runs. An op is verified again with the shapes of its operands.

The verifier accepts a dynamic dimension beside any size. So the sizes in a run may contradict each other:

```mlir
%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
  : (tensor<2x?xf32>, tensor<?x2xf32>) -> tensor<2x2xf32>  // %x is 2x2 and %y is 3x2
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.interp.binding import Kernel
from zeropoint.interp.errors import InputError
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import BinaryOp
from zeropoint.ir.tensors import Array, element_of, shape_of


def block_arguments(operands: Sequence[SSAValue], arrays: Sequence[Array]) -> list[SSAValue]:
    """New block arguments with the element types of the operands and the shapes of the arrays.

    They stand for the operands, so that rules do not use the values of constants.
    """
    types: list[Attribute] = [
        TensorType(element_of(operand), array.shape) if isinstance(operand.type, TensorType) else operand.type
        for operand, array in zip(operands, arrays, strict=True)
    ]
    return list(Block(arg_types=types).args)


def verify_static(op: Operation, static: Operation, found: str) -> None:
    """Verify `static`, a copy of `op` with the shapes of a run. Raises InputError with the name of `op`."""
    try:
        static.verify_()
    except VerifyException as error:
        raise InputError(f"{describe(op)}: found {found}, which the op cannot take: {error}") from error


def verified_when_run(op: Operation, kernel: Kernel) -> Kernel:
    """The kernel. For a StableHLO op with a dynamic dimension, it raises InputError if the verifier rejects the shapes.

    Ops of other dialects are not verified again. Their verifiers require equal types, also for dynamic dimensions, and
    would reject every run.
    """
    dynamic = any(isinstance(value.type, TensorType) and DYNAMIC_INDEX in shape_of(value) for value in op.operands)
    if op.regions or not dynamic or not op.name.startswith("stablehlo."):
        return kernel
    accepted: set[tuple[tuple[int, ...], ...]] = set()

    def run(*arrays: Array) -> Any:
        shapes = tuple(array.shape if hasattr(array, "shape") else () for array in arrays)
        if shapes not in accepted:
            _verify(op, arrays, shapes)
            accepted.add(shapes)
        return kernel(*arrays)

    return run


def _verify(op: Operation, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> None:
    listed = " and ".join(str(shape) for shape in shapes)
    if isinstance(op, BinaryOp) and shapes[0] != shapes[1]:
        raise InputError(f"{describe(op)}: found operands of shapes {listed}, expected one shape")
    arguments = block_arguments(op.operands, arrays)
    static = op.clone(dict(zip(op.operands, arguments, strict=True)))
    verify_static(op, static, f"operands of shapes {listed}")
