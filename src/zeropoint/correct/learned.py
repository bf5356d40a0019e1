"""A block of kernels in f32 that imitates its integer form, with gradients for its weights and biases.

Weights and results are rounded to their grids during the computation (fake quantization). Rounding has the gradient of
the identity inside the grid, and 0 beyond its ends (straight-through estimation). Weights are learned in steps of their
scale, and biases in steps of the result's scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import OpResult, SSAValue

from zeropoint.correct.blocks import OpBlock
from zeropoint.correct.contraction_gradients import Differentiable, differentiable
from zeropoint.correct.contractions import ContractionKernel, contraction_kernel
from zeropoint.correct.op_gradients import RULES, Pullback, has_gradient
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array
from zeropoint.ir.isolation import activations
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve import is_quantized
from zeropoint.targets import Target

FINEST = 16
"""Results wider than this are not rounded here, because their steps are too small to matter."""
INSIDE = 0.499
"""The maximum distance between a latent weight and its integer, so that it is still rounded to it."""


@dataclass(frozen=True)
class RoundingGrid:
    """The grid of a quantized type as real numbers, limited by clamps before it. A step of 0 means that values are not
    rounded."""

    low: float
    high: float
    step: float = 0.0

    @staticmethod
    def of(kind: object, bounds: Bounds | None = None) -> RoundingGrid:
        """The grid of a result's type, after its kernel's clamps."""
        bounds = bounds or Bounds()
        if not isinstance(kind, UniformQuantizedType) or not kind.is_per_layer or kind.storage.type.width > FINEST:
            return RoundingGrid(bounds.low, bounds.high)
        ends = [(end - kind.zero_point) * kind.scale for end in (kind.storage.minimum, kind.storage.maximum)]
        low, high = (float(np.clip(end, bounds.low, bounds.high)) for end in ends)
        return RoundingGrid(low, high, kind.scale)

    def round(self, values: Array) -> tuple[Array, Array]:
        """The values clamped and rounded, and a mask of those that were not clamped. `values` is overwritten."""
        low, high = np.float32(self.low), np.float32(self.high)
        inside = (values > low) & (values < high)
        np.clip(values, low, high, out=values)
        if self.step:
            values *= np.float32(1 / self.step)
            np.rint(values, out=values)
            values *= np.float32(self.step)
        return values, inside


@dataclass(eq=False)
class LearnedKernel:
    """A contraction whose weight and bias are learned: `latent` (groups, outputs, terms) and `bias` (channels,)."""

    kernel: ContractionKernel
    form: Differentiable
    latent: Array
    bias: Array
    slopes: tuple[Array, Array] = field(init=False)
    """The sums of the gradients of `latent` and `bias` since `begin`."""

    @staticmethod
    def of(kernel: ContractionKernel) -> LearnedKernel | None:
        """The kernel with its current constants; None if its scales are fixed or it has no gradient."""
        form = differentiable(kernel.geometry)
        if form is None or kernel.is_fixed or not kernel.is_bounded:
            return None
        latent, bias = kernel.integers().astype(np.float32), kernel.quantized_bias().astype(np.float32)
        return LearnedKernel(kernel, form, latent, bias)

    def __post_init__(self) -> None:
        kind = self.kernel.weight_type
        point = int(kind.zero_points.reshape(-1)[0])
        self._ends = kind.storage.minimum - point, kind.storage.maximum - point
        self._scales = np.array(self.kernel.weight_scales, np.float32)
        self._grid = RoundingGrid.of(self.kernel.region.output_specs.data[0], self.kernel.bounds)
        self._shape = shape_of(self.kernel.op.result)

    @property
    def step(self) -> float:
        """The step of the result; 1 if it is not rounded."""
        return self._grid.step or 1.0

    def start_at(self, weight: Array) -> None:
        """Move the latent weights to those real weights (groups, outputs, terms) that have the same integers."""
        integers = self.integers()
        distance = weight / self._scales - integers
        self.latent[...] = integers + np.where(np.abs(distance) < INSIDE, distance, 0.0)

    def begin(self) -> None:
        """Round the weights and reset the gradients."""
        self._matrix = self.integers() * self._scales
        self.slopes = np.zeros_like(self.latent), np.zeros_like(self.bias)

    def integers(self) -> Array:
        """The weights as storage integers minus their zero point, (groups, outputs, terms), f32."""
        return np.clip(np.rint(self.latent), *self._ends)

    def finish(self) -> str:
        """Set the constants of the kernel to the learned ones. Returns a description."""
        kernel, before, after = self.kernel, self.kernel.integers(), self.integers().astype(np.float64)
        bias = self.bias.astype(np.float64)
        room = kernel.room(after) - np.maximum(
            *(np.abs(each) / kernel.bias_type.scales for each in (kernel.float_bias, bias))
        )
        after = np.where(room.reshape(*after.shape[:2], 1) < 0, before, after)
        kernel.set_weight(after, kernel.weight_type)
        kernel.set_bias(bias)
        return f"{100 * float((before != after).mean()):.1f} % of the weights changed"

    def __call__(self, given: Sequence[Array], through: Sequence[bool]) -> tuple[Array, Pullback]:
        """The result for an input. The returned function adds gradients to `slopes`."""
        sums, gradients = self.form.sums(given[0], self._matrix)
        sums += self.bias
        made, inside = self._grid.round(sums)

        def back(error: Array) -> list[Array]:
            error = self.form.sums_of(error) * inside
            weight, before = gradients(error, through[0])
            self.slopes[0][...] += weight * self._scales
            self.slopes[1][...] += error.sum(axis=0)
            return [] if before is None else [before]

        return self.form.result(made, self._shape), back


@dataclass(frozen=True, eq=False)
class PlainKernel:
    """A kernel without weights."""

    region: QuantizeRegionOp
    weights: Weights
    grid: RoundingGrid

    @staticmethod
    def of(region: QuantizeRegionOp, weights: Weights) -> PlainKernel | None:
        """The kernel; None if one of its ops has no gradient, or if it has several results."""
        ops = list(region.body.block.ops)[:-1]
        if len(region.results) != 1 or not all(isinstance(op, ConstantOp) or has_gradient(op) for op in ops):
            return None
        return PlainKernel(region, weights, RoundingGrid.of(region.output_specs.data[0]))

    def begin(self) -> None:
        """Does nothing, because nothing is learned here."""

    def __call__(self, given: Sequence[Array], through: Sequence[bool]) -> tuple[Array, Pullback]:
        """The result for the activations that the region reads, in their order."""
        block = self.region.body.block
        named = dict(zip(activations(self.region), given, strict=True))
        values: dict[SSAValue, Array] = {}
        for argument, value in zip(block.args, self.region.inputs, strict=True):
            array = named.get(value)
            values[argument] = self._constant(value) if array is None else array
        steps: list[tuple[SSAValue, Sequence[SSAValue], Pullback]] = []
        *ops, returned = block.ops
        for op in ops:
            if isinstance(op, ConstantOp):
                values[op.output] = self._constant(op.output)
                continue
            made, back = RULES[type(op)](op, [values[operand] for operand in op.operands])
            values[op.results[0]] = made
            steps.append((op.results[0], op.operands, back))
        result = returned.operands[0]
        made, inside = self.grid.round(np.array(values[result], np.float32, order="K"))

        def gradients(error: Array) -> list[Array]:
            errors = {result: error * inside}
            _pull(steps, errors)
            read = {value: argument for argument, value in zip(block.args, self.region.inputs, strict=True)}
            return [errors[read[value]] for value in named]

        return made, gradients

    def _constant(self, value: SSAValue) -> Array:
        array = constant_array(value, self.weights)
        assert array is not None
        return array


def _pull(steps: Sequence[tuple[SSAValue, Sequence[SSAValue], Pullback]], errors: dict[SSAValue, Array]) -> None:
    """Back-propagate: add the gradients of all values before the results of these steps, which are in order."""
    for result, operands, back in reversed(steps):
        if (error := errors.get(result)) is not None:
            for operand, part in zip(operands, back(error), strict=False):
                errors[operand] = part if operand not in errors else errors[operand] + part


@dataclass(frozen=True, eq=False)
class LearnedBlock:
    """A block with gradients. `kernels` has one entry per op."""

    block: OpBlock
    kernels: Sequence[LearnedKernel | PlainKernel]

    @staticmethod
    def of(block: OpBlock, program: Program, target: Target) -> LearnedBlock | None:
        """The block with its current constants; None if there is nothing to learn, or if some op has no gradient."""
        kernels: list[LearnedKernel | PlainKernel] = []
        for op in block.ops:
            if not isinstance(op, QuantizeRegionOp) or not is_quantized(op) or not _reads_as_made(op):
                return None
            contraction = contraction_kernel(op, program.weights, target)
            made = PlainKernel.of(op, program.weights) if contraction is None else LearnedKernel.of(contraction)
            if made is None:
                return None
            kernels.append(made)
        return LearnedBlock(block, kernels) if any(isinstance(one, LearnedKernel) for one in kernels) else None

    @property
    def learned(self) -> list[LearnedKernel]:
        """The kernels with weights."""
        return [kernel for kernel in self.kernels if isinstance(kernel, LearnedKernel)]

    def begin(self) -> None:
        """Begin a batch of samples."""
        for kernel in self.kernels:
            kernel.begin()

    def learn(self, given: Mapping[SSAValue, Array], wanted: Array, kept: Array | None, *, only_error: bool) -> float:
        """Add the gradients of the squared error on a sample, at the positions `kept`. Returns the error."""
        values, steps = dict(given), list[tuple[SSAValue, Sequence[SSAValue], Pullback]]()
        for op, kernel in zip(self.block.ops, self.kernels, strict=True):
            read = activations(op)
            made, back = kernel([values[value] for value in read], [value not in given for value in read])
            values[op.results[0]] = made
            steps.append((op.results[0], read, back))
        error = values[self.block.result] - wanted
        if kept is not None:
            error = error * kept
        if not only_error:
            _pull(steps, {self.block.result: error})
        return float(np.square(error).sum(dtype=np.float64))


def _reads_as_made(region: QuantizeRegionOp) -> bool:
    """Whether a region reads the values of other quantized kernels in the types that these give them."""
    return all(
        spec == value.op.output_specs.data[value.index]
        for value, spec in zip(region.inputs, region.input_specs, strict=True)
        if isinstance(value, OpResult) and isinstance(value.op, QuantizeRegionOp) and is_quantized(value.op)
    )
