"""Rewrites the ops of a program into reference forms, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation

from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import (
    BitcastConvertOp,
    ConvolutionOp,
    MultiplyOp,
    ReduceOp,
    ReduceWindowOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.quant_passes.reference_forms.arithmetic import OPS, read_sum, write_arithmetic
from zeropoint.quant_passes.reference_forms.casts import read_storage_cast, write_cast, write_storage_cast
from zeropoint.quant_passes.reference_forms.convolutions import read_convolution, write_convolution
from zeropoint.quant_passes.reference_forms.padding import read_padding, write_padding
from zeropoint.quant_passes.reference_forms.products import read_product, write_product
from zeropoint.quant_passes.reference_forms.reductions import read_reduction, write_reduction
from zeropoint.quant_passes.reference_forms.rescales import read_rescale, write_rescale
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, quantized
from zeropoint.quant_passes.reference_forms.signedness import make_signed
from zeropoint.quant_passes.reference_forms.stored_weights import (
    read_dequantized,
    read_transposed,
    write_dequantized,
)

FormRule = tuple[tuple[type[Operation], ...], Callable[[Rewrite, Any], None]]
"""The ops that a rule looks at, and the rule: it replaces an op, or leaves it."""
WRITE: Sequence[FormRule] = (
    ((StorageCastOp,), write_storage_cast),
    ((DequantizeCastOp, QuantizeCastOp), write_cast),
    ((ConvolutionOp,), write_padding),
    ((ConvolutionOp,), write_convolution),
    ((ReduceOp, ReduceWindowOp), write_reduction),
    ((MultiplyOp,), write_product),
    (OPS, write_arithmetic),
    ((UniformQuantizeOp,), write_rescale),
    ((UniformDequantizeOp,), write_dequantized),
)
"""In this order: a convolution's sums are found before their requantization has several steps."""
READ: Sequence[FormRule] = (
    ((TransposeOp,), read_transposed),
    ((UniformDequantizeOp,), read_dequantized),
    ((UniformQuantizeOp,), read_rescale),
    ((UniformQuantizeOp,), read_sum),
    ((BitcastConvertOp,), read_reduction),
    ((BitcastConvertOp,), read_product),
    ((BitcastConvertOp,), read_storage_cast),
    ((ConvolutionOp,), read_convolution),
    ((ConvolutionOp,), read_padding),
)


def to_reference_forms(program: Program) -> Program:
    """Write the quantized ops that C++ StableHLO does not evaluate, or not exactly, in equal forms that it does.

    The program itself if it has no quantized values.
    """
    if not _has_quantized(program):
        return program
    program = program.for_change()
    make_signed(program)
    _rewrite(program, WRITE)
    return program


def from_reference_forms(program: Program) -> Program:
    """Undo `to_reference_forms`. The program itself if it has no quantized values."""
    if not _has_quantized(program):
        return program
    program = program.for_change()
    _rewrite(program, READ)
    return program


def _has_quantized(program: Program) -> bool:
    return any(quantized(value) for op in program.module.walk() for value in op.results)


def _rewrite(program: Program, rules: Sequence[FormRule]) -> None:
    for kinds, rule in rules:
        for op in [op for op in program.module.walk() if isinstance(op, kinds)]:
            if op.parent is not None:
                rule(Rewrite(op, program.weights), op)
    remove_dead_ops(program.entry)
