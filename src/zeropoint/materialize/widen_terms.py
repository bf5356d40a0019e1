"""Results of contractions that only a sum reads keep 15 bits, so that the sum is rounded to 8 bits once.

```mlir
%1 = "quant.region"(%x, %w, %b) ({ convolution, add }) {output_specs = [!quant.uniform<i8:f32, 0.02:3>]}
%2 = "quant.region"(%1, %y) ({ add }) {input_specs = [i8, i8], output_specs = [!quant.uniform<i8:f32, 0.04:-5>]}
```
becomes
```mlir
%1 = "quant.region"(%x, %w, %b) ({ convolution, add })
       {output_specs = [!quant.uniform<i16<-16384:16383>:f32, 0.000625>]}
%2 = "quant.region"(%1, %y) ({ add }) {input_specs = [i16, i8], output_specs = [!quant.uniform<i8:f32, 0.04:-5>]}
```
The last contraction of a residual branch, for example. Native code computes the sum in the kernel of the contraction,
so the 15 bits are never stored. The scale is a power of two below that of the sum: its factor in the sum is exact. Of
two contractions that one sum reads, only the later one keeps 15 bits, because the other operand is read from memory.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from zeropoint.ir.annotations import DEMANDS, DEMANDS_ON_RESULTS, Fact, facts_of, state_facts
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, SubtractOp
from zeropoint.materialize.express_accumulators import OF_THE_OUTPUT, is_stated
from zeropoint.solve import is_quantized
from zeropoint.solve.widths.real_results import plain_contraction

GUARD = 6
"""The bits of a term below those of the sum."""
WORDS = Storage.of("i16", -(1 << 14), (1 << 14) - 1)


def widen_terms(program: Program) -> int:
    """Give terms of sums that are contractions with constant weights 15 bits, in place. Returns how many.

    Results of the program keep their types, and so do results whose parameters, range or bits are demanded. The
    target's kernels must be able to add 16 and 8 bits, under a profile with integer sums.
    """
    return sum(_widened(region) for region in regions_of(program))


def _widened(total: QuantizeRegionOp) -> bool:
    """Widen an operand of a sum, if there is one to widen."""
    first, *_ = total.body.block.ops
    if not is_quantized(total) or not isinstance(first, AddOp | SubtractOp) or len(total.inputs) != 2:
        return False
    kinds = [_bytes(spec) for spec in (*total.input_specs, *total.output_specs)]
    made = kinds[-1]
    if len(kinds) != 3 or None in kinds or made is None or total.inputs[0] is total.inputs[1]:
        return False
    found = [(index, region) for index, value in enumerate(total.inputs) if (region := _term(value.owner)) is not None]
    if not found:
        return False
    index, region = max(found, key=lambda entry: _place(entry[1]))
    given, scale = kinds[index], made.scale / 2**GUARD
    # The words hold whatever the 8 bits did.
    if given is None or given.affine.reach * given.scale > WORDS.maximum * scale:
        return False
    words = UniformQuantizedType.per_layer(WORDS, scale, expressed_type=given.expressed_type)
    region.output_specs = ArrayAttr[Attribute]([words])
    specs = list(total.input_specs.data)
    specs[index] = words
    total.input_specs = ArrayAttr[Attribute](specs)
    kept = (fact for fact in facts_of(region) if fact.name not in OF_THE_OUTPUT)
    state_facts(region, [*kept, Fact("parameters", str(words), "kernel", "a sum reads it")])
    return True


def _term(owner: object) -> QuantizeRegionOp | None:
    """The contraction of 8 bits that one kernel reads; None if it is something else, or has to be rounded."""
    if not isinstance(owner, QuantizeRegionOp) or not is_quantized(owner) or plain_contraction(owner) is None:
        return None
    demanded = any(fact.name in DEMANDS_ON_RESULTS for fact in facts_of(owner, DEMANDS))
    if demanded or is_stated(owner) or len(list(owner.outputs[0].uses)) != 1:
        return None
    specs = owner.input_specs.data[0], owner.output_specs.data[0]
    return None if None in map(_bytes, specs) else owner


def _bytes(spec: Attribute) -> UniformQuantizedType | None:
    """A type of 8 bits with one scale; None for another one."""
    if not isinstance(spec, UniformQuantizedType) or not spec.is_per_layer or spec.storage.type.width != 8:
        return None
    return spec


def _place(region: QuantizeRegionOp) -> int:
    """The position of a region in its block."""
    block = region.parent_block()
    return -1 if block is None else block.get_operation_index(region)
