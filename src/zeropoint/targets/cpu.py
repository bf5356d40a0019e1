"""Our own native target: 8-bit activations with any zero point, 8-bit symmetric weights per channel, i32 biases.

Storage is `i8` on both sides because quantized StableHLO wants operands of one storage type; an instruction that
multiplies unsigned by signed bytes gets its operand by flipping the top bit.
"""

from __future__ import annotations

from zeropoint.ir.quant import Storage
from zeropoint.targets.kernels import (
    FixedScale,
    Free,
    KernelRow,
    MultiplierAccumulatorScale,
    PortRule,
    Relation,
    Role,
    SameScale,
    Target,
)

ACTIVATION = PortRule(Role.ACTIVATION, Storage.of("i8"))
# Narrow: the products of two weights with one activation fit the pairwise instructions, and negation is exact.
WEIGHT = PortRule(Role.WEIGHT, Storage.of("i8", -127), zero_point=0, per_channel=True)
BIAS = PortRule(Role.BIAS, Storage.of("i32"), zero_point=0, per_channel=True)
CONSTANT = PortRule(Role.CONSTANT, Storage.of("i8"))
# Quantized StableHLO wants zero point 0 on the right of a product; of two activations, one sum is left to correct.
CENTRED = PortRule(Role.ACTIVATION, Storage.of("i8"), zero_point=0)

_CONTRACTIONS = ("convolution", "depthwise_convolution", "fully_connected")
_SAME_SCALE = ("max_pool", "reshape", "transpose", "slice", "pad", "concatenate", "broadcast")
_FREE_UNARY = ("elementwise_unary", "average_pool", "mean", "sum")
_FREE_BINARY = ("add", "subtract", "multiply")


def _elementwise(kernel: str, relation: Relation) -> KernelRow:
    return KernelRow(kernel, (ACTIVATION,), ACTIVATION, relation)


ROWS = (
    *(
        KernelRow(kernel, (ACTIVATION, WEIGHT, BIAS), ACTIVATION, MultiplierAccumulatorScale(), accumulator_bits=32)
        for kernel in _CONTRACTIONS
    ),
    KernelRow("batch_matmul", (ACTIVATION, CENTRED), ACTIVATION, Free(), accumulator_bits=32),
    *(KernelRow(kernel, (CONSTANT,), ACTIVATION, Free()) for kernel in _FREE_BINARY),
    *(_elementwise(kernel, SameScale()) for kernel in _SAME_SCALE),
    *(_elementwise(kernel, Free()) for kernel in _FREE_UNARY),
    # Outputs in (0, 1) and (-1, 1): the range is known, nothing has to be observed.
    _elementwise("logistic", FixedScale(1 / 256, -128)),
    _elementwise("tanh", FixedScale(1 / 128, 0)),
)

CPU = Target("cpu", "fixed16", ROWS, "native code: i8 activations, i8 weights per channel, i32 accumulators")
