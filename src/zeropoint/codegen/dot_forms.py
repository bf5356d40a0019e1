"""Choose how each contraction adds its products on an instruction set.

```mlir
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xi8>, tensor<8x3xi8>) -> tensor<4x3xi32>
```
becomes, for avx2 and weights up to 127,
```mlir
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {zeropoint.dot_form = "u8s16_pairs"} : ...
```
Products of two activations or in batches, and convolutions of several groups, have `u8s8_pairs_split` there. In a
product of two activations, as in attention, the second operand is read as weights up to 128. The zero point of the
first operand may be subtracted first (`convert(x) - z`). That of the second must be 0.

A form that the program names already is kept, if the instruction set has it and no sum in it can saturate. Native code
emits the named form, and the interpreter adds the products in the same form (`numerics.dot_forms`).
"""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import StringAttr, i8

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.contractions import ContractionOp, multiplies_bytes
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.dot_forms import FORMS, DotForm, dot_form


def forms_of(isa: InstructionSet) -> tuple[str, ...]:
    """The dot forms of an instruction set, the fastest first."""
    if isa.weight_limit < FORMS["u8s8_quads"].weight_limit:
        return "u8s8_pairs", "u8s16_pairs", "u8s8_pairs_split"
    return ("u8s8_quads",) if isa.unsigned else ("s8s8_quads",)


def choose_dot_forms(program: Program, isa: str) -> Program:
    """A copy in which contractions of 8-bit activations, with constant weights or with each other, name their form.

    Raises CodegenError for a form in the program that the instruction set does not have, or that may saturate.
    """
    program = program.clone()
    name_dot_forms(program, INSTRUCTION_SETS[isa])
    return program


def name_dot_forms(program: Program, isa: InstructionSet) -> None:
    """`choose_dot_forms` in place, also inside of kernels."""
    for op in program.entry.walk():
        if type(op) is not ConvolutionOp and type(op) is not DotGeneralOp:  # faster than isinstance
            continue
        greatest, named = _greatest(op, program.weights), op.attributes.get(DOT_FORM)
        if isinstance(named, StringAttr):
            _check(op, named.data, isa, greatest, program.weights)
        elif greatest is not None:
            fitting = (name for name in forms_of(isa) if _fits(FORMS[name], op, greatest, program.weights))
            op.attributes[DOT_FORM] = StringAttr(next(fitting))


def _fits(form: DotForm, op: ContractionOp, greatest: int, weights: Weights) -> bool:
    """Whether a kernel computes the op in a form without saturation."""
    return greatest <= form.weight_limit and (not form.wide or _takes_wide(op, weights))


def _takes_wide(op: ContractionOp, weights: Weights) -> bool:
    """Whether the kernel of a contraction takes numbers of 16 bits. Those of several groups or batches do not."""
    if constant_array(op.rhs, weights) is None:
        return False
    if isinstance(op, DotGeneralOp):
        return not op.dot_dimension_numbers.data.lhs_batching_dimensions
    return op.feature_group_count.value.data == 1


def _greatest(op: ContractionOp, weights: Weights) -> int | None:
    """The largest |weight| of a product of 8-bit integers; 128 for two activations; None for other products."""
    constant = constant_array(op.rhs, weights)
    if constant is None:
        return 128 if multiplies_bytes(op, partial(splat_value, weights=weights)) else None
    if element_of(op.lhs) != i8 or element_of(op.rhs) != i8:
        return None
    return max(int(constant.max(initial=0)), -int(constant.min(initial=0)))


def _check(op: ContractionOp, name: str, isa: InstructionSet, greatest: int | None, weights: Weights) -> None:
    try:
        limit = dot_form(name).weight_limit
    except ValueError as error:
        raise CodegenError(f"{describe(op)}: {error}", op) from error
    if greatest is None:
        raise CodegenError(
            f"{describe(op)}: found dot form '{name}' on a product that no kernel of bytes computes; "
            f"expected none: remove {DOT_FORM}",
            op,
        )
    if name not in forms_of(isa):
        listed = ", ".join(forms_of(isa))
        raise CodegenError(f"{describe(op)}: found dot form '{name}', expected one of {isa.name}: {listed}", op)
    if FORMS[name].wide and not _takes_wide(op, weights):
        raise CodegenError(
            f"{describe(op)}: found dot form '{name}', expected constant weights in one group and one batch; "
            f"remove {DOT_FORM}",
            op,
        )
    if greatest > limit:
        raise CodegenError(
            f"{describe(op)}: found weights up to {greatest}, expected at most {limit} in dot form '{name}', "
            "whose sums of two products could saturate",
            op,
        )
