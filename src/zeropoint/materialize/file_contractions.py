"""Contractions of a quantized file that its runtime computes of integers, although no row of the table describes them.

```mlir
%a = quant.dcast %q : ... to tensor<1x4x8x8xf32>
%1 = "quant.region"(%a, %w, %b) ({ convolution, add })    %w is pinned to i8; a float op reads %1
%2 = quant.qcast %1 : ... to tensor<1x4x8x8x!quant.uniform<u8:f32:1, {0.1,0.2,0.1,0.3}>>     or this cast does
```
Three keys of a target's table say what its runtime has:

- `unquantized_results`: contractions that return floats, which are sums of integers times a scale, if the file does not
  quantize them;
- `channel_scales`: what a depthwise convolution reads, and what a convolution returns, may have a scale per channel;
- `real_biases`: biases are added as real numbers. Without it, their steps have to be those of the products.

Propagation leaves such a region float. It gets the types of the file afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, OpResult, SSAValue, Use

from zeropoint.ir.annotations import DEMANDS, EXPRESSED_SUMS, FILE_HAS_FLOATS, FLOAT_REASON, PINNED, Fact, state_facts
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import ContractionOp, weight_channel_axis, weights_by_channel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import ConstantOp, ConvolutionOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.contraction import ACCUMULATOR, accumulator_type
from zeropoint.numerics.accumulator import accumulator_bound
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.solve.quantized_files.model_rounding import insert_rounding
from zeropoint.solve.weights import bias_type
from zeropoint.solve.widths.unrounded import UNROUNDED
from zeropoint.targets import Target

CHANNELS, BIAS = 1, 2
"""The dimension of channels, and the operand that is a bias."""
BYTE, WORD = 8, 32
CASTS = (QuantizeCastOp, UniformQuantizeOp)


@dataclass(frozen=True)
class FileContraction:
    """A float region with the types of its file. `result` is None if nothing but floats reads the result."""

    region: QuantizeRegionOp
    op: ContractionOp
    data: UniformQuantizedType
    filters: UniformQuantizedType
    result: UniformQuantizedType | None

    @staticmethod
    def of(region: QuantizeRegionOp, weights: Weights, target: Target) -> FileContraction | None:
        """The contraction of a float region; None if the target's runtime computes it of floats."""
        op = region.body.block.first_op
        if not _is_free(region, target) or not isinstance(op, ContractionOp):
            return None
        data, filters = read_type(region.inputs[0]), _pinned(region.inputs[1])
        if data is None or filters is None or constant_array(region.inputs[1], weights) is None:
            return None
        if not target.real_biases and not data.storage.type.signed:
            filters = filters.signed  # onnxruntime's products of u8 have weights of u8, too: zero point 128 is 0 in i8
        readers = set(map(type_at, region.outputs[0].uses))
        result = next(iter(readers)) if len(readers) == 1 else None
        if not target.channel_scales and readers != {None}:
            return None  # such a runtime has no kernel for a value that a cast and another op read
        found = FileContraction(region, op, data, filters, result)
        fits = found._has_bytes() and found._has_scales(target) and found._biases(weights, target) is not None
        if not fits or (result is not None and not found._is_clamped_by(result, weights)):
            return None
        return found if found._fits_32_bits(weights) else None

    def state(self, program: Program, target: Target) -> None:
        """Give the region the types of the file, in place. Kernels that read floats get a cast."""
        biases, output = self._biases(program.weights, target), self.region.outputs[0]
        assert biases is not None
        if self.result is None:
            kinds = [type_at(use) for use in output.uses if isinstance(use.operation, QuantizeRegionOp)]
            for kind in dict.fromkeys(kind for kind in kinds if kind is not None):
                insert_rounding(program, output, kind, lambda use, kind=kind: _reads(use, kind))
        sums = accumulator_type(self.op, self.data, self.filters)
        self.region.input_specs = ArrayAttr[Attribute]([self.data, self.filters, *biases])
        self.region.output_specs = ArrayAttr[Attribute]([self.result or sums])
        self.region.attributes.pop(FLOAT_REASON, None)
        stated = Fact("parameters", str(self.result), "user", "the model")
        state_facts(self.region, [EXPRESSED_SUMS if self.result is None else stated])

    def _has_bytes(self) -> bool:
        """Whether data, weights and result have 8 bits, and the weights zero point 0."""
        kinds = [kind for kind in (self.data, self.filters, self.result) if kind is not None]
        bytes_ = all(kind.storage.type.width == BYTE for kind in kinds)
        return bytes_ and not self.filters.is_sub_channel and not self.filters.zero_points.any()

    def _has_scales(self, target: Target) -> bool:
        """Whether data and result have one scale, or several that the runtime takes."""
        by_channel = [kind for kind in (self.data, self.result) if kind is not None and not kind.is_per_layer]
        if not by_channel:
            return True
        if not target.channel_scales or len(shape_of(self.region.outputs[0])) < CHANNELS + 2:
            return False
        if any(kind.axis != CHANNELS or (kind.zero_points != kind.zero_points.flat[0]).any() for kind in by_channel):
            return False
        return self.data.is_per_layer or self._has_a_channel_per_group()

    def _has_a_channel_per_group(self) -> bool:
        return isinstance(self.op, ConvolutionOp) and self.op.feature_group_count.value.data == len(self.data.scales)

    def _biases(self, weights: Weights, target: Target) -> Sequence[Attribute] | None:
        """The types of the biases: steps of the products, or floats; None if the kernel does not add them."""
        found: list[Attribute] = []
        for value in self.region.inputs[BIAS:]:
            whole = self._in_steps(value)
            if whole is not None:
                found.append(whole)
            elif target.real_biases and constant_array(value, weights) is not None:
                found.append(element_of(value))
            else:
                return None
        return found

    def _in_steps(self, bias: SSAValue) -> UniformQuantizedType | None:
        """The type of a bias with the steps of the products; None for another bias."""
        known = _pinned(bias)
        if known is None or len(shape_of(bias)) != 1 or not self.data.is_per_layer:
            return None
        made = bias_type(ACCUMULATOR, self.data, self.filters)
        mine, theirs = (np.ravel(kind.scales.astype(np.float32)) for kind in (known, made))
        return made if known.storage.type.width == WORD and np.array_equal(mine, theirs) else None

    def _fits_32_bits(self, weights: Weights) -> bool:
        array, axis = constant_array(self.region.inputs[1], weights), weight_channel_axis(self.op)
        if array is None or axis is None:
            return False
        terms, kind = weights_by_channel(stored_array(array, self.filters), axis), self.data
        return int(accumulator_bound(terms, kind.storage.minimum, kind.storage.maximum).max(initial=0)) <= INT32_MAX

    def _is_clamped_by(self, kind: UniformQuantizedType, weights: Weights) -> bool:
        """Whether the range of a type clamps the result as the body does."""
        bounds = Bounds()
        for op in self.region.body.block.ops:
            bounds.then(op, weights)
        if kind.is_per_layer:
            return True
        ends = [np.broadcast_to(np.float64(end), (len(kind.scales),)) for end in (bounds.low, bounds.high)]
        along = UniformQuantizedType.per_channel(kind.storage, 0, kind.scales.tolist(), kind.zero_points.tolist())
        low, high = (stored_array(end, along) for end in ends)
        return bool((low <= kind.storage.minimum).all() and (high >= kind.storage.maximum).all())


def _is_free(region: QuantizeRegionOp, target: Target) -> bool:
    """Whether a region is float for no other reason than the types of the file."""
    reason = region.attributes.get(FLOAT_REASON)
    if region.logical_kernel.data not in target.unquantized_results:
        return False
    if region.is_quantized or DEMANDS in region.attributes:
        return False
    if isinstance(reason, StringAttr) and reason.data.startswith(UNROUNDED):
        return False
    marked = any(FILE_HAS_FLOATS in op.attributes for op in region.body.block.ops)
    # The marks are those of onnxruntime, which does not add biases as real numbers.
    return target.real_biases or not marked


def read_type(value: SSAValue) -> UniformQuantizedType | None:
    """The type in which a value is stored: that of a cast, or of the kernel that makes it."""
    kind: Attribute | None = None
    if isinstance(value.owner, DequantizeCastOp):
        kind = element_of(value.owner.input)
    elif isinstance(value, OpResult) and isinstance(value.op, QuantizeRegionOp):
        kind = value.op.output_specs.data[value.index]
    return kind if isinstance(kind, UniformQuantizedType) else None


def _pinned(value: SSAValue) -> UniformQuantizedType | None:
    found = value.owner.attributes.get(PINNED) if isinstance(value.owner, ConstantOp) else None
    return found if isinstance(found, UniformQuantizedType) else None


def _reads(use: Use, kind: UniformQuantizedType) -> bool:
    return isinstance(use.operation, QuantizeRegionOp) and type_at(use) == kind


def type_at(use: Use) -> UniformQuantizedType | None:
    """The type in which a cast or kernel reads a value; None for an op of floats."""
    op, kind = use.operation, None
    if isinstance(op, QuantizeRegionOp):
        kind = op.input_specs.data[use.index]
    elif isinstance(op, CASTS):
        kind = element_of(op.results[0])
    return kind if isinstance(kind, UniformQuantizedType) else None
