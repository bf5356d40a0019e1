"""As few casts as possible: counted against what every program needs, for transform, instrument and simplify.

A value exists in up to three forms: real (f32), quantized (of one type), and its storage integers. Casts go from one
to the next: `qcast`/`dcast` (or `uniform_quantize`/`uniform_dequantize`) between real and quantized, `scast` between
quantized and storage. Given the form in which each op works, a value that is made in one form and read in others needs
a cast for each other form that is read, and for the quantized one in the middle where real and storage meet. No
program has fewer; a program with that many has none twice, none that undoes another, none that nobody reads.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from networks import Network
from property_cases import some
from random_networks import Case, cases
from solve.rfc import solved
from zeropoint.calibrate import instrument
from zeropoint.fuse import fuse
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    StorageCastOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import (
    AddOp,
    LogisticOp,
    SliceOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import element_of
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize, transform
from zeropoint.quant_passes import canonicalize_quant
from zeropoint.simplify import simplify

FEW = some(6, phases=[Phase.generate])
CASTS = (QuantizeCastOp, DequantizeCastOp, StorageCastOp, UniformDequantizeOp, UniformQuantizeOp)


def is_cast(op: object) -> bool:
    """Whether an op changes the form of a value; a `uniform_quantize` of a quantized value changes its parameters."""
    if isinstance(op, UniformQuantizeOp):
        return not isinstance(element_of(op.operand), UniformQuantizedType)
    return isinstance(op, CASTS)


def rank(element: Attribute) -> int:
    """Real 0, quantized 1, storage 2."""
    return 0 if isinstance(element, AnyFloat) else 1 if isinstance(element, QuantizedType) else 2


def origin(value: SSAValue) -> SSAValue:
    """The value that the casts behind a value only changed the form of.

    The real value behind a quantization is another one: what is rounded is not what it was.
    """
    while isinstance(op := value.owner, Operation) and is_cast(op) and not _rounds(op):
        value = op.operands[0]
    return value


def _rounds(op: Operation) -> bool:
    """Whether a cast makes a new value: a quantization, unless it only undoes what made the real value."""
    return isinstance(op, QuantizeCastOp | UniformQuantizeOp)


def least(program: Program) -> int:
    """The casts that no program with these ops can do without."""
    needed: dict[SSAValue, set[Attribute]] = {}
    rounded: set[tuple[SSAValue, Attribute]] = set()
    for op in program.entry.ops:
        for value in () if is_cast(op) else op.operands:
            source = origin(value)
            needed.setdefault(source, set()).add(element_of(value))
    pending = list(needed)
    while pending:  # what is quantized is made from a real value, which some cast may have to make first
        source = pending.pop()
        if isinstance(source.owner, Operation) and is_cast(source.owner):
            behind = origin(source.owner.operands[0])
            rounded.add((behind, element_of(source)))
            if behind not in needed:
                pending.append(behind)
            needed.setdefault(behind, set()).add(element_of(source.owner.operands[0]))
    count = len(rounded)
    for source, forms in needed.items():
        ranks = {rank(form) for form in forms} | {rank(element_of(source))}
        count += max(ranks) - min(ranks)
    return count


def casts(program: Program) -> int:
    return sum(is_cast(op) for op in program.entry.ops)


def movements() -> Program:
    """Two movements in a row, a third of what they made, a sum, a function of what was moved."""
    net = Network([(2, 3)])
    moved = net.insert(TransposeOp(net.insert(TransposeOp(net.values[0], [1, 0])), [1, 0]))
    part = net.insert(SliceOp(moved, [0, 0], [1, 3], [1, 1]))
    total = net.insert(AddOp(part, net.constant(np.arange(3.0).reshape(1, 3))))
    return net.finish([total, net.insert(LogisticOp(moved))])


SAMPLE = {"x0": np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)}


def test_the_count_of_a_program_is_what_is_counted_by_hand() -> None:
    """In: quantized, to storage. Out: to quantized twice, to real twice; the function between real values: one more."""
    program = transform(materialize(solved(movements(), [SAMPLE])))
    kinds = [op.name.removeprefix("quant.") for op in program.entry.ops if is_cast(op)]
    assert sorted(kinds) == ["dcast", "dcast", "dcast", "qcast", "qcast", "scast", "scast", "scast"]
    assert least(program) == 8


WASTEFUL = {
    "the same twice": """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %a = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %b = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %0 = stablehlo.add %a, %b : tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  return %1 : tensor<4xf32>
}""",
    "there and back": """
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %a = quant.scast %x : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xi8>
  %b = quant.scast %a : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  return %b : tensor<4x!quant.uniform<i8:f32, 0.5>>
}""",
    "nobody reads it": """
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %a = quant.dcast %x : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  return %x : tensor<4x!quant.uniform<i8:f32, 0.5>>
}""",
}


@pytest.mark.parametrize("waste", WASTEFUL)
def test_what_is_too_much_is_seen(waste: str) -> None:
    program = parse_program(WASTEFUL[waste])
    assert casts(program) > least(program)
    assert casts(canonicalize_quant(program)) == least(canonicalize_quant(program)) == least(program)


@FEW
@given(case=cases())
def test_transform_leaves_the_fewest_casts(case: Case) -> None:
    program = transform(materialize(solved(case.program, case.calibration)))
    assert casts(program) == least(program)


@FEW
@given(case=cases())
def test_the_integer_program_has_the_fewest_casts(case: Case) -> None:
    program = integer_program(materialize(solved(case.program, case.calibration)))
    assert casts(program) == least(program)
    # Integers inside: a real value is made at the edges only, at most one for each output.
    real = [op for op in program.entry.ops if any(rank(element_of(value)) == 0 for value in op.results)]
    assert len(real) <= len(program.outputs)


@pytest.mark.parametrize("name", ["litert", "onnxruntime", "tosa", "stablehlo"])
@FEW
@given(case=cases(most_layers=5))
def test_programs_with_float_islands_have_the_fewest_casts(name: str, case: Case) -> None:
    program = transform(materialize(solved(case.program, case.calibration, name)))
    assert casts(program) == least(program)


@FEW
@given(case=cases())
def test_instrument_adds_none(case: Case) -> None:
    fused = fuse(simplify(case.program))
    assert casts(instrument(fused)) == casts(fused) == 0
