"""Quantized contractions with constant weights and biases, in the form that corrections read and replace.

Corrections work on matrices (`geometry.py`). Their results go back into the program as float constants that are exact
multiples of their scale, so that quantizing them gives exactly the chosen integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.correct.geometry import Geometry, geometry_of
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array, constant_op, is_constant
from zeropoint.ir.contractions import adds_pairs, output_channel_axis, term_order, terms_by_channel
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.quant.evaluate import element_parameters
from zeropoint.ir.quant.storage import MAX_WIDTH
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Computed, Weights
from zeropoint.materialize.contraction import accumulator_type
from zeropoint.numerics import quantize
from zeropoint.numerics.accumulator import signed_sums
from zeropoint.numerics.dot_forms import without_saturation
from zeropoint.numerics.storage import smallest_dtype
from zeropoint.solve.equalizable import own_array
from zeropoint.solve.operands import product_scales
from zeropoint.solve.weights import bias_type, sum_limit, weight_type
from zeropoint.targets import Custom, KernelSignature, Role, Target

F32_STEP = 1 << 7
"""Bound on the rounding error of an integer of up to 2^31 that is stored as f32 in a float program."""
BYTE = 8


@dataclass(eq=False)
class ContractionKernel:
    """A quantized region with a contraction with constant weight and bias, followed by clamps (`bounds`)."""

    region: QuantizeRegionOp
    op: ConvolutionOp | DotGeneralOp
    weights: Weights
    geometry: Geometry
    bounds: Bounds
    limit: int
    """The maximum magnitude of products plus bias. It leaves one bit of the accumulator free (docs/architecture.md)."""
    scale_type: str
    is_fixed: bool
    """Whether the weight keeps its scales: the row or its function fixes them, or the weights are in blocks."""
    is_bounded: bool
    """Whether sums have to fit an accumulator of at most 32 bits. Kernels with 16-bit inputs may have 64 bits."""
    in_pairs: bool = False
    """Whether the products of adjacent terms are first added in 16 bits."""
    _rounded: tuple[SSAValue, UniformQuantizedType, Array] | None = field(default=None, repr=False)
    """The weight that was rounded last, its type, and its integers."""

    @property
    def name(self) -> str:
        """The name of the original op."""
        return location_text(self.region.location) or self.region.logical_kernel.data

    @property
    def input_type(self) -> UniformQuantizedType:
        return self._spec(0)

    @property
    def weight_type(self) -> UniformQuantizedType:
        return self._spec(1)

    @property
    def bias_type(self) -> UniformQuantizedType:
        return self._spec(2)

    def _spec(self, index: int) -> UniformQuantizedType:
        spec = self.region.input_specs.data[index]
        assert isinstance(spec, UniformQuantizedType)
        return spec

    def _array(self, index: int) -> Array:
        return self._given(index).astype(np.float64)

    def _given(self, index: int) -> Array:
        """A constant operand, f32."""
        array = constant_array(self.region.inputs[index], self.weights)
        assert array is not None
        return array

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """The sizes (groups, outputs, terms) of the weight as a matrix."""
        # Of an array that takes no memory.
        groups, outputs, terms = self.geometry.matrix(np.broadcast_to(np.uint8(0), shape_of(self.op.rhs))).shape
        return groups, outputs, terms

    @property
    def float_weight(self) -> Array:
        """The weight as a matrix (groups, outputs, terms), f64."""
        return self.geometry.matrix(self._array(1))

    @property
    def float_bias(self) -> Array:
        """The bias (channels,), f64."""
        return self._array(2)

    @property
    def given_bias(self) -> Array:
        """The bias (channels,), f32, as it is in the program."""
        return self._given(2)

    @cached_property
    def channels(self) -> int:
        """The number of output channels of all groups."""
        return len(self.float_bias)

    @property
    def is_fully_connected(self) -> bool:
        return isinstance(self.op, DotGeneralOp)

    @property
    def weight_scales(self) -> Array:
        """The scales of the weight (groups, outputs, 1), or (1, outputs, terms) for weights in blocks."""
        if self.weight_type.is_sub_channel:
            return self.geometry.matrix(element_parameters(shape_of(self.op.rhs), self.weight_type)[0])
        return np.broadcast_to(self.weight_type.scales, (self.channels,)).reshape(*self.shape[:2], 1)

    def integers(self) -> Array:
        """The weight as storage integers minus their zero point, (groups, outputs, terms), read-only."""
        weight, kind = self.region.inputs[1], self.weight_type
        if self._rounded is None or self._rounded[0] is not weight or self._rounded[1] != kind:
            made = rounded(self.geometry.matrix(self._given(1)), self.weight_scales, kind)
            made.flags.writeable = False
            self._rounded = weight, kind, made
        return self._rounded[2]

    def quantized_weight(self) -> Array:
        """The weight after quantizing and dequantizing, (groups, outputs, terms), f64."""
        return self.integers() * self.weight_scales

    def quantized_bias(self) -> Array:
        """The bias after quantizing and dequantizing, (channels,), f64."""
        scales = self.bias_type.scales
        return np.rint(self.float_bias / scales) * scales

    def set_bias(self, bias: Array) -> int:
        """Replace the bias (channels,) by real numbers, which are rounded to its scale.

        A channel keeps its bias if its sums would not fit the accumulator with the new one, or if the new one is not
        finite. Returns the number of such channels.
        """
        scales = np.broadcast_to(self.bias_type.scales, (self.channels,))
        found, before = np.rint(bias / scales), np.rint(self.float_bias / scales)
        # A mean of NaN or infinities on some sample must not reach the program.
        kept = ~np.isfinite(found)
        if self.is_bounded:
            # A bias that moves towards 0 is accepted even without room, because the sums only shrink.
            kept |= (np.abs(found) > self.room(self.integers())) & (np.abs(found) > np.abs(before))
        self._replace(2, np.where(kept, self.float_bias, np.where(kept, 0.0, found) * scales))
        return int(kept.sum())

    def room(self, integers: Array) -> Array:
        """The maximum |bias| of each channel, in steps, that fits the accumulator together with these weights.

        `integers` (groups, outputs, terms) are stored weights minus their zero point.
        """
        return self.limit - F32_STEP - magnitudes(integers).reshape(-1) * self.input_type.affine.reach

    def types_for(self, matrix: Array, bias: Array) -> UniformQuantizedType:
        """The types of weight and bias for other weights (groups, outputs, terms) and bias (channels,)."""
        axis, made = self.weight_type.axis, self.geometry.weight(matrix, self._array(1))
        return weight_type(
            made.astype(np.float32),
            self._channel_axis() if axis is None else axis,
            self.weight_type.storage,
            self.input_type,
            bias,
            self.limit,
            per_channel=self.weight_type.is_per_channel,
            scale_type=self.scale_type,
            pairs=terms_by_channel(self.op, made) if self.in_pairs else None,
        )

    def _channel_axis(self) -> int:
        if isinstance(self.op, ConvolutionOp):
            return self.op.dimension_numbers.data.kernel_output_feature_dimension
        used = self.op.dot_dimension_numbers.data.rhs_contracting_dimensions
        return next(dim for dim in range(len(shape_of(self.op.rhs))) if dim not in used)

    def set_weight(self, integers: Array, kind: UniformQuantizedType) -> None:
        """Replace the weight by integers minus zero point (groups, outputs, terms) of type `kind`.

        Updates the types of the bias and of an accumulator output. A large weight is kept as these integers.
        """
        integers = self._without_saturation(integers)
        products = accumulator_type(self.op, self.input_type, self.weight_type)
        specs, outputs = list(self.region.input_specs), self.region.output_specs.data
        bias = self.float_bias
        stored = self.geometry.weight(integers, self._array(1))
        stored = stored.astype(smallest_dtype(int(stored.min(initial=0)), int(stored.max(initial=0))))
        spread = [1] * stored.ndim
        if kind.axis is not None:
            spread[kind.axis] = -1
        scales = kind.scales.reshape(spread)

        def real() -> Array:
            return (stored * scales).astype(np.float32)

        specs[1], specs[2] = kind, bias_type(self.bias_type.storage, self.input_type, kind)
        self.region.input_specs = ArrayAttr[Attribute](specs)
        self._replace(1, real(), real)
        self._replace(2, bias)
        if outputs[0] == products:
            self.region.output_specs = ArrayAttr[Attribute]([accumulator_type(self.op, self.input_type, kind)])

    def restore(self, bias: Array, weight: tuple[Array, UniformQuantizedType] | None) -> None:
        """Set constants that a correction has chosen before: a bias, f32, and what `set_weight` took, if any."""
        if weight is not None:
            self.set_weight(*weight)
        self._replace(2, bias)

    def _without_saturation(self, integers: Array) -> Array:
        """The integers (groups, outputs, terms), changed so that no sum of two adjacent products saturates."""
        if not self.in_pairs:
            return integers
        weight = self.geometry.weight(integers, self._array(1))
        order = term_order(self.op)
        turned = weight.transpose(order)
        fitted = without_saturation(turned.reshape(len(turned), -1)).reshape(turned.shape)
        return self.geometry.matrix(fitted.transpose(np.argsort(order)))

    def _replace(self, index: int, array: Array, again: Computed | None = None) -> None:
        before = self.region.inputs[index]
        assert isinstance(before.owner, Operation) and self.region.parent is not None
        # A new constant, because other regions may read the old one.
        real = array.astype(np.float32, copy=False)
        made = constant_op(real, self.weights, location=before.owner.location, again=again)
        self.region.parent.insert_op_before(made, self.region)
        self.region.operands[index] = made.output


def rounded(matrix: Array, scales: Array, kind: UniformQuantizedType) -> Array:
    """Real weights as storage integers minus their zero point, rounded to nearest and saturated."""
    point = int(kind.zero_points.reshape(-1)[0])
    low, high = kind.storage.minimum, kind.storage.maximum
    stored = quantize(matrix, scales, point, low, high, expressed=np.float64)
    return stored if not point else (stored.astype(np.int64) - point).astype(smallest_dtype(low - point, high - point))


def magnitudes(integers: Array) -> Array:
    """The sum of |x| over the last axis, of integers or of whole numbers in f64."""
    if integers.dtype.kind == "f":
        return np.abs(integers).sum(axis=-1)
    positive, negative = signed_sums(integers)
    return positive + negative


def contraction_kernel(region: QuantizeRegionOp, weights: Weights, target: Target) -> ContractionKernel | None:
    """The contraction of a region; None if it is not quantized or has no constant weight and bias.

    Also None if the model pins the parameters of either, because that is the model's own quantization. Also None if the
    data is a constant, such as the zeros that a recurrent network starts from, because nothing is observed for it.
    """
    specs = (*region.input_specs, *region.output_specs)
    if len(region.inputs) != 3 or not all(isinstance(spec, UniformQuantizedType) for spec in specs):
        return None
    arguments = region.body.block.args
    first, *others = list(region.body.block.ops)[:-1]
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or (first.lhs, first.rhs) != (arguments[0], arguments[1]):
        return None
    # The walk passes activations only, and this region has none.
    if is_constant(region.inputs[0]):
        return None
    weight, bias = (own_array(value, weights) for value in region.inputs[1:])
    geometry, bounds = geometry_of(first), _bounds(others, arguments[2], weights)
    if weight is None or bias is None or bias.ndim != 1 or geometry is None or bounds is None:
        return None
    bits = _accumulator_bits(region, target)
    limit = sum_limit(bits)
    fixed, bounded = _is_fixed(region, target), bits <= MAX_WIDTH
    pairs = adds_pairs(first) and _in_pairs(region, target)
    made = ContractionKernel(region, first, weights, geometry, bounds, limit, target.scale_type, fixed, bounded, pairs)
    points = made.weight_type.zero_points
    # Corrections subtract one zero point from all integers.
    one_point = bool((points == points.reshape(-1)[0]).all())
    return made if bias.size == math.prod(made.shape[:2]) and one_point else None


def contraction_kernels(program: Program, target: Target) -> list[ContractionKernel]:
    """The contractions of a propagated program that corrections can change, in order."""
    found = (contraction_kernel(region, program.weights, target) for region in regions_of(program))
    return [kernel for kernel in found if kernel is not None]


def _is_fixed(region: QuantizeRegionOp, target: Target) -> bool:
    rows, weight = target.by_kernel.get(region.logical_kernel.data, ()), region.input_specs.data[1]
    in_blocks = isinstance(weight, UniformQuantizedType) and weight.is_sub_channel
    return in_blocks or any(isinstance(row.relation, Custom) or row.fixed(1, row.rule(1).storage) for row in rows)


def _in_pairs(region: QuantizeRegionOp, target: Target) -> bool:
    """Whether the row for the region's storages adds the products of adjacent terms in 16 bits first."""
    storages = [spec.storage for spec in region.input_specs.data if isinstance(spec, UniformQuantizedType)]
    row = target.row(region.logical_kernel.data, KernelSignature(tuple(storages)))
    return row is not None and row.pair_bits is not None


def _accumulator_bits(region: QuantizeRegionOp, target: Target) -> int:
    """The least accumulator width of the target's rows that accept the input.

    Rows that state none have 32 bits for 8-bit inputs, and 64 bits for wider ones.
    """
    given = region.input_specs.data[0]
    assert isinstance(given, UniformQuantizedType)
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    default = MAX_WIDTH if given.storage.type.width <= BYTE else 2 * MAX_WIDTH
    taking = [row for row in rows if row.input_rule(0).accepts(given.storage)]
    return min([row.accumulator_bits or default for row in taking], default=default)


def _bounds(ops: list[Operation], bias: SSAValue, weights: Weights) -> Bounds | None:
    """The clamps after a contraction and its bias addition; None if there are other ops."""
    bounds = Bounds()
    for op in ops:
        if not isinstance(op, AddOp | BroadcastInDimOp) and op.operands and not bounds.then(op, weights):
            return None
    added = [op for op in ops if isinstance(op, AddOp)]
    sources = [op.operand for op in ops if isinstance(op, BroadcastInDimOp)]
    return bounds if len(added) == 1 and (bias in sources or bias in added[0].operands) else None


def with_biases(program: Program, target: Target) -> Program:
    """The program with biases as by `give_biases`: a copy, or the program itself if nothing gets one."""
    if not any(_may_have_bias(region, program.weights, target) for region in regions_of(program)):
        return program
    made = program.clone()
    give_biases(made, target)
    return made


def give_biases(program: Program, target: Target) -> None:
    """Add a zero bias, in place, to quantized contractions without one, if the target's kernel has a bias operand."""
    for region in regions_of(program):
        if _may_have_bias(region, program.weights, target):
            _give_bias(region, program.weights)


def _may_have_bias(region: QuantizeRegionOp, weights: Weights, target: Target) -> bool:
    """Whether a region is a quantized contraction without a bias whose kernel has an operand for one."""
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    specs = (*region.input_specs, *region.output_specs)
    typed = len(region.inputs) == 2 and all(isinstance(spec, UniformQuantizedType) for spec in specs)
    if not typed or not any(len(row.inputs) > 2 and row.input_rule(2).role is Role.BIAS for row in rows):
        return False
    first = region.body.block.first_op
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or first.lhs is not region.body.block.args[0]:
        return False
    return own_array(region.inputs[1], weights) is not None and element_of(first.result) == f32


def _give_bias(region: QuantizeRegionOp, weights: Weights) -> None:
    block = region.body.block
    first = block.first_op
    given, weight = region.input_specs.data[:2]
    assert isinstance(first, ConvolutionOp | DotGeneralOp)
    assert isinstance(given, UniformQuantizedType)
    assert isinstance(weight, UniformQuantizedType)
    axis = output_channel_axis(first)
    # A bias of 0 changes no result, but corrections can adjust it.
    zeros = constant_op(np.zeros(shape_of(first.result)[axis], np.float32), weights, location=region.location)
    assert region.parent is not None
    region.parent.insert_op_before(zeros, region)
    bias = block.insert_arg(zeros.output.type, 2)
    spread = BroadcastInDimOp(bias, first.result.type, [axis])
    total = AddOp(first.result, spread.result)
    spread.location = total.location = first.location
    block.insert_ops_after([spread, total], first)
    first.result.replace_uses_with_if(total.result, lambda use: use.operation is not total)
    region.operands = [*region.operands, zeros.output]
    added = bias_type(Storage.of("i32"), given, weight, product_scales(region, weight))
    region.input_specs = ArrayAttr[Attribute]([*region.input_specs, added])
