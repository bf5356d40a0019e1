"""A contraction with constant weights as matrices: rows of inputs, weights, results, at some of its output positions.

A convolution of G groups is y[g, p, o] = sum over t of x[g, p, t] * w[g, o, t] + b[g, o], where p is an output position
and t runs over the input features and the taps of a group; a fully connected layer is one group. Corrections are found
from these matrices, and what they find goes back into the program as constants: a bias that is rounded to its scale
already, a weight that is a multiple of its scale, so that quantizing them gives exactly the integers that were chosen.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.interp.convolution import Convolution
from zeropoint.interp.movement import padded
from zeropoint.ir.annotations import PINNED
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.quant.storage import MAX_WIDTH
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.contraction import accumulator_type
from zeropoint.numerics import quantize
from zeropoint.solve.weights import bias_type, weight_type
from zeropoint.targets import Role, Target

F32_STEP = 1 << 7
"""How far an integer of up to 2^31 may be from the f32 number that it is stored as in a float program."""
BYTE = 8


class Geometry(Protocol):
    """How inputs, weights and results of a contraction lie as matrices."""

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        """(groups, positions, terms) of an input; `fill` is what padding adds."""
        ...

    def matrix(self, weight: Array) -> Array:
        """(groups, outputs, terms) of a weight."""
        ...

    def weight(self, matrix: Array, like: Array) -> Array:
        """The weight of a matrix, in the shape of another weight."""
        ...

    def results(self, y: Array, positions: Array) -> Array:
        """(positions, channels) of a result; channels in the order of groups, then outputs."""
        ...

    def positions(self, shape: tuple[int, ...]) -> int:
        """How many output positions a result of a shape has."""
        ...


@dataclass(frozen=True)
class ConvolutionGeometry:
    """A convolution in any layout, with strides, padding, dilations and feature groups."""

    convolution: Convolution
    taps: tuple[int, ...]
    sizes: tuple[int, ...]
    """Of the output, in its spatial dimensions."""

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        layout, form = self.convolution.layout, self.convolution
        x = x.transpose(layout.input_batch_dimension, layout.input_feature_dimension, *layout.input_spatial_dimensions)
        if any(side for pair in form.padding for side in pair) or any(step > 1 for step in form.lhs_dilation):
            x = padded(x, [(0, 0), (0, 0), *form.padding], fill, [0, 0, *(step - 1 for step in form.lhs_dilation)])
        image, *corner = np.unravel_index(positions, (x.shape[0], *self.sizes))
        starts = [at * stride for at, stride in zip(corner, form.strides, strict=True)]
        found = np.empty((len(positions), x.shape[1], math.prod(self.taps)), x.dtype)
        for number, tap in enumerate(itertools.product(*map(range, self.taps))):
            indices = [at + step * by for at, step, by in zip(starts, tap, form.rhs_dilation, strict=True)]
            found[:, :, number] = x[(image, slice(None), *indices)]
        groups = form.feature_groups
        return found.reshape(len(positions), groups, -1).swapaxes(0, 1)

    def matrix(self, weight: Array) -> Array:
        made = self.convolution.weights(weight)
        return made.reshape(*made.shape[:2], -1)

    def weight(self, matrix: Array, like: Array) -> Array:
        made = np.empty(like.shape, matrix.dtype)
        positions: Array = np.arange(like.size)
        order = self.convolution.weights(positions.reshape(like.shape))
        made.reshape(-1)[order.reshape(-1)] = matrix.reshape(-1)
        return made

    def results(self, y: Array, positions: Array) -> Array:
        layout = self.convolution.layout
        dims = (layout.output_batch_dimension, *layout.output_spatial_dimensions)
        image, *indices = np.unravel_index(positions, [y.shape[dim] for dim in dims])
        y = y.transpose(
            layout.output_batch_dimension, layout.output_feature_dimension, *layout.output_spatial_dimensions
        )
        return y[(image, slice(None), *indices)]

    def positions(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape) // shape[self.convolution.layout.output_feature_dimension]


@dataclass(frozen=True)
class ProductGeometry:
    """A product with a matrix; `contracted` are the dimensions of the left side that it sums over."""

    contracted: tuple[int, ...]
    weight_contracted: tuple[int, ...]

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        terms = math.prod(x.shape[dim] for dim in self.contracted)
        return np.moveaxis(x, self.contracted, range(-len(self.contracted), 0)).reshape(-1, terms)[None, positions]

    def matrix(self, weight: Array) -> Array:
        terms = math.prod(weight.shape[dim] for dim in self.weight_contracted)
        last = range(-len(self.weight_contracted), 0)
        return np.moveaxis(weight, self.weight_contracted, last).reshape(1, -1, terms)

    def weight(self, matrix: Array, like: Array) -> Array:
        made = np.empty(like.shape, matrix.dtype)
        positions: Array = np.arange(like.size)
        order = self.matrix(positions.reshape(like.shape))
        made.reshape(-1)[order.reshape(-1)] = matrix.reshape(-1)
        return made

    def results(self, y: Array, positions: Array) -> Array:
        return y.reshape(-1, y.shape[-1])[positions]

    def positions(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[:-1])


def _geometry(op: ConvolutionOp | DotGeneralOp) -> Geometry | None:
    """None for products with batches, which have no constant weight, and convolutions with batch groups."""
    if isinstance(op, DotGeneralOp):
        dimensions = op.dot_dimension_numbers.data
        if dimensions.lhs_batching_dimensions:
            return None
        return ProductGeometry(
            tuple(dimensions.lhs_contracting_dimensions), tuple(dimensions.rhs_contracting_dimensions)
        )
    form = Convolution.of(op)
    if form.batch_groups != 1:
        return None
    rhs, out = shape_of(op.rhs), shape_of(op.result)
    taps = tuple(rhs[dim] for dim in form.layout.kernel_spatial_dimensions)
    return ConvolutionGeometry(form, taps, tuple(out[dim] for dim in form.layout.output_spatial_dimensions))


@dataclass(eq=False)
class ContractionKernel:
    """A quantized region that is a contraction with constant weights and a bias, and bounds behind it."""

    region: QuantizeRegionOp
    op: ConvolutionOp | DotGeneralOp
    weights: Weights
    geometry: Geometry
    bounds: Bounds
    limit: int
    """What sums of products and bias stay below; one bit of the accumulator is free (docs/architecture.md)."""
    scale_type: str

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
        array = constant_array(self.region.inputs[index], self.weights)
        assert array is not None
        return array.astype(np.float64)

    @property
    def float_weight(self) -> Array:
        """The weight as a matrix (groups, outputs, terms), f64."""
        return self.geometry.matrix(self._array(1))

    @property
    def float_bias(self) -> Array:
        """(channels,), f64."""
        return self._array(2)

    @cached_property
    def channels(self) -> int:
        """Output channels of all groups."""
        return len(self.float_bias)

    @property
    def is_fully_connected(self) -> bool:
        return isinstance(self.op, DotGeneralOp)

    @property
    def is_narrow(self) -> bool:
        """Whether its input has 8 bits, so that its sums have to fit the accumulator."""
        return self.input_type.storage.type.width <= BYTE

    @property
    def weight_scales(self) -> Array:
        """(groups, outputs, 1)."""
        shape = self.float_weight.shape[:2]
        return np.broadcast_to(self.weight_type.scales, (self.channels,)).reshape(*shape, 1)

    def integers(self) -> Array:
        """The weight as storage integers less their zero point, (groups, outputs, terms), f64."""
        return rounded(self.float_weight, self.weight_scales, self.weight_type)

    def quantized_weight(self) -> Array:
        """The weight as it comes back from storage, (groups, outputs, terms), f64."""
        return self.integers() * self.weight_scales

    def quantized_bias(self) -> Array:
        """The bias as it comes back from storage, (channels,), f64."""
        scales = self.bias_type.scales
        return np.rint(self.float_bias / scales) * scales

    def set_bias(self, bias: Array) -> int:
        """Replace the bias, rounded to its scale; how many channels keep theirs, as their sums would not fit.

        `bias` is (channels,), in real numbers. A channel keeps its bias too where the new one is not finite.
        """
        scales = np.broadcast_to(self.bias_type.scales, (self.channels,))
        found, before = np.rint(bias / scales), np.rint(self.float_bias / scales)
        kept = ~np.isfinite(found)
        if self.is_narrow:
            room = (
                self.limit - F32_STEP - np.abs(self.integers()).sum(axis=2).reshape(-1) * self.input_type.affine.reach
            )
            kept |= (np.abs(found) > room) & (np.abs(found) > np.abs(before))
        self._replace(2, np.where(kept, self.float_bias, np.where(kept, 0.0, found) * scales))
        return int(kept.sum())

    def types_for(self, matrix: Array, bias: Array) -> UniformQuantizedType:
        """The type that other weights of the kernel would have: (groups, outputs, terms) and (channels,)."""
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
        )

    def _channel_axis(self) -> int:
        if isinstance(self.op, ConvolutionOp):
            return self.op.dimension_numbers.data.kernel_output_feature_dimension
        used = self.op.dot_dimension_numbers.data.rhs_contracting_dimensions
        return next(dim for dim in range(len(shape_of(self.op.rhs))) if dim not in used)

    def set_weight(self, integers: Array, kind: UniformQuantizedType) -> None:
        """Replace the weight by integers (groups, outputs, terms) of a type; the types of bias and sums follow."""
        products = accumulator_type(self.op, self.input_type, self.weight_type)
        specs, outputs = list(self.region.input_specs), self.region.output_specs.data
        scales = np.broadcast_to(kind.scales, (self.channels,)).reshape(*integers.shape[:2], 1)
        bias = self.float_bias
        specs[1], specs[2] = kind, bias_type(self.bias_type.storage, self.input_type, kind)
        self.region.input_specs = ArrayAttr[Attribute](specs)
        self._replace(1, self.geometry.weight(integers * scales, self._array(1)))
        self._replace(2, bias)
        if outputs[0] == products:
            self.region.output_specs = ArrayAttr[Attribute]([accumulator_type(self.op, self.input_type, kind)])

    def _replace(self, index: int, array: Array) -> None:
        before = self.region.inputs[index]
        assert isinstance(before.owner, Operation) and self.region.parent is not None
        made = constant_op(array.astype(np.float32), self.weights, location=before.owner.location)
        self.region.parent.insert_op_before(made, self.region)
        self.region.operands[index] = made.output


def rounded(matrix: Array, scales: Array, kind: UniformQuantizedType) -> Array:
    """Real weights to storage integers less their zero point: to nearest, within the storage."""
    point = int(kind.zero_points.reshape(-1)[0])
    bounds = (kind.storage.minimum, kind.storage.maximum)
    return quantize(matrix, scales, point, *bounds, expressed=np.float64).astype(np.float64) - point


def contraction_kernel(region: QuantizeRegionOp, weights: Weights, target: Target) -> ContractionKernel | None:
    """The matrices of a region; None where it is no quantized contraction with constant weights and a bias.

    Nor where the model pins the parameters of either: these are the model's own quantization.
    """
    specs = (*region.input_specs, *region.output_specs)
    if len(region.inputs) != 3 or not all(isinstance(spec, UniformQuantizedType) for spec in specs):
        return None
    arguments = region.body.block.args
    first, *others = list(region.body.block.ops)[:-1]
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or (first.lhs, first.rhs) != (arguments[0], arguments[1]):
        return None
    weight, bias = (_own_constant(value, weights) for value in region.inputs[1:])
    geometry, bounds = _geometry(first), _bounds(others, arguments[2], weights)
    if weight is None or bias is None or bias.ndim != 1 or geometry is None or bounds is None:
        return None
    limit = (1 << (_accumulator_bits(region, target) - 2)) - 1
    made = ContractionKernel(region, first, weights, geometry, bounds, limit, target.scale_type)
    points = made.weight_type.zero_points
    one_point = bool((points == points.reshape(-1)[0]).all())
    return made if bias.size == math.prod(made.float_weight.shape[:2]) and one_point else None


def _own_constant(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a constant whose parameters are not pinned."""
    pinned = isinstance(value.owner, Operation) and PINNED in value.owner.attributes
    return None if pinned else constant_array(value, weights)


def _accumulator_bits(region: QuantizeRegionOp, target: Target) -> int:
    """The least width in which the target sums products of the kernel, 32 at most."""
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    return min([MAX_WIDTH, *(row.accumulator_bits for row in rows if row.accumulator_bits is not None)])


def _bounds(ops: list[Operation], bias: SSAValue, weights: Weights) -> Bounds | None:
    """The bounds behind a contraction and one sum with its bias; None where there is anything else."""
    bounds = Bounds()
    for op in ops:
        if not isinstance(op, AddOp | BroadcastInDimOp) and op.operands and not bounds.then(op, weights):
            return None
    added = [op for op in ops if isinstance(op, AddOp)]
    sources = [op.operand for op in ops if isinstance(op, BroadcastInDimOp)]
    return bounds if len(added) == 1 and (bias in sources or bias in added[0].operands) else None


def give_biases(program: Program, target: Target) -> None:
    """Give every quantized contraction that has none a bias of zeros, where the target's kernel takes one; in place."""
    for region in [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]:
        rows = target.by_kernel.get(region.logical_kernel.data, ())
        specs = (*region.input_specs, *region.output_specs)
        typed = len(region.inputs) == 2 and all(isinstance(spec, UniformQuantizedType) for spec in specs)
        if typed and any(len(row.inputs) > 2 and row.input_rule(2).role is Role.BIAS for row in rows):
            _give_bias(region, program.weights)


def _give_bias(region: QuantizeRegionOp, weights: Weights) -> None:
    block = region.body.block
    first = block.first_op
    given, weight = region.input_specs.data[:2]
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or first.lhs is not block.args[0]:
        return
    if _own_constant(region.inputs[1], weights) is None or element_of(first.result) != f32:
        return
    assert isinstance(given, UniformQuantizedType)
    assert isinstance(weight, UniformQuantizedType)
    axis = output_channel_axis(first)
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
    added = bias_type(Storage.of("i32"), given, weight)
    region.input_specs = ArrayAttr[Attribute]([*region.input_specs, added])
