"""Constants of 2 and 4 bits. Native code holds them in bytes, so their conversions are computed at compile time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir.stablehlo import ConvertOp
from zeropoint.ir.tensors import element_of, with_element

NARROW = tuple(IntegerType(width, sign) for width in (2, 4) for sign in Signedness)


def is_narrow(op: ConvertOp) -> bool:
    """Whether an op converts integers of fewer bits than a byte."""
    return element_of(op.operand) in NARROW


def converted(emit: Emission, op: ConvertOp) -> Sequence[SSAValue] | None:
    """The narrow constant in bytes, converted to the result's type; None for a value that is not constant."""
    array = emit.array(op.operand)
    if array is None:
        return None
    made = emit.constant(np.asarray(array, np.uint8 if array.dtype.kind == "u" else np.int8))
    wanted = element_of(op.result)
    return [made if element_of(made) == wanted else emit.add(ConvertOp(made, with_element(made, wanted)))]
