"""If only float ops read a contraction, dequantizes its i32 accumulator directly.

```mlir
%1 = "quant.region"(%x, %w) ({ dot_general })
       {input_specs = [!quant.uniform<i8:f32, 0.5>, !quant.uniform<i8<-127:127>:f32:1, {0.1,0.2}>],
        output_specs = [!quant.uniform<i8:f32, 0.02:-128>]}
%2 = stablehlo.exponential %1
```
becomes
```mlir
%1 = "quant.region"(%x, %w) ({ dot_general })
       {input_specs = [!quant.uniform<i8:f32, 0.5>, !quant.uniform<i8<-127:127>:f32:1, {0.1,0.2}>],
        output_specs = [!quant.uniform<i32:f32:1, {0.05,0.1}>]}
%2 = stablehlo.exponential %1
```
Requantizing to 8 bits first would only lose precision. Results of the program keep their storage, because callers may
ask for it, until a correction decides otherwise (`express_results`). Other results that keep it: those whose parameters
or range the model or the user states, clamped results, products of two activations, and depthwise convolutions.

On a target without `real_results`, this is done where 8 bits are too few for a function that reads the result
(`unrounded_results`; propagation marks these regions). Kernels that read the result, too, get a cast.

Source: the RFC on quantization transformations, section "Export", code-gen kernel targets: extra primitives are
eliminated.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, Use

from zeropoint.ir.annotations import (
    DEMANDS,
    DEMANDS_ON_RESULTS,
    EXPRESSED_SUMS,
    REAL_RESULT,
    facts_of,
    state_facts,
)
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.materialize.contraction import accumulator_type
from zeropoint.solve import is_quantized
from zeropoint.solve.quantized_files.model_rounding import insert_rounding
from zeropoint.solve.widths.real_results import plain_contraction
from zeropoint.targets import Target

OF_THE_OUTPUT = ("range", "parameters", "least scale", "same scale", "zero point", "bits")


def _express(region: QuantizeRegionOp, program: Program, *, always: bool, results: bool = False) -> bool:
    """Give the output of a region its accumulator type if only float ops read it, or if it is marked.

    With `results`, the program may return it as well. Returns whether it has got the type.
    """
    marked = region.attributes.pop(REAL_RESULT, None) is not None
    contraction = plain_contraction(region) if always or marked else None
    if contraction is None or not is_quantized(region) or is_stated(region):
        return False
    if not marked and not _is_for_floats(region, results=results):
        return False
    lhs, rhs = region.input_specs.data[:2]
    if not isinstance(lhs, UniformQuantizedType) or not isinstance(rhs, UniformQuantizedType):
        return False
    if lhs.storage.type.width != 8 or rhs.storage.type.width > 8 or rhs.zero_points.any():
        return False
    given, accumulators = region.output_specs.data[0], accumulator_type(contraction, lhs, rhs)
    if given == accumulators:
        return False
    if isinstance(given, UniformQuantizedType) and any(map(_reads_storage, region.outputs[0].uses)):
        insert_rounding(program, region.outputs[0], given, _reads_storage)
    region.output_specs = ArrayAttr[Attribute]([accumulators])
    state_facts(region, [*(fact for fact in facts_of(region) if fact.name not in OF_THE_OUTPUT), EXPRESSED_SUMS])
    return True


def is_stated(region: QuantizeRegionOp) -> bool:
    """Whether the model or the user states the parameters or the range of the result, to which it has to be rounded."""
    return any(fact.salience == "user" and fact.name in ("parameters", "range") for fact in facts_of(region))


def _is_for_floats(region: QuantizeRegionOp, *, results: bool) -> bool:
    readers = [use.operation for use in region.outputs[0].uses]
    return bool(readers) and not any(_requires_storage(reader, results=results) for reader in readers)


def _reads_storage(use: Use) -> bool:
    """Whether a kernel reads a value as integers."""
    reader = use.operation
    return isinstance(reader, QuantizeRegionOp) and isinstance(reader.input_specs.data[use.index], UniformQuantizedType)


def _requires_storage(reader: Operation, *, results: bool) -> bool:
    if isinstance(reader, QuantizeRegionOp):
        return any(isinstance(spec, UniformQuantizedType) for spec in (*reader.input_specs, *reader.output_specs))
    return isinstance(reader, QuantizeCastOp) or (isinstance(reader, ReturnOp) and not results)


def express_accumulators(program: Program, target: Target) -> Program:
    """A copy in which the results of contractions with constant weights have the accumulator type if only floats read
    them.

    The program itself if the target's kernels cannot return real numbers.
    """
    if not target.real_results and not target.unrounded_results:
        return program
    program = program.for_change()
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            _express(op, program, always=target.real_results)
    return program


def express_results(program: Program) -> int:
    """Give results of the program that are contractions with constant weights their accumulator type, in place.

    Returns how many. The target's kernels must be able to return real numbers.
    """
    regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp) and not _is_demanded(op)]
    return sum(_express(region, program, always=True, results=True) for region in regions)


def _is_demanded(region: QuantizeRegionOp) -> bool:
    """Whether a recipe says how the result of a region is rounded."""
    return any(fact.name in DEMANDS_ON_RESULTS for fact in facts_of(region, DEMANDS))
