"""Operands of sums and products as OpenVINO finds them in the file.

OpenVINO expresses one operand in units of the other, which depends on how the file casts them (`expressed`), on the ops
that compute them and on what else reads them.

Sources: `EltwiseBaseTransformation::getNotEmpty` and the converters in `export/onnx/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizeRegionOp,
    StorageCastOp,
    UniformQuantizedType,
    stored_array,
)
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.product_chains import is_in_chain
from zeropoint.solve.rescale import RESCALE_KERNEL
from zeropoint.targets.logical_kernels import CONTRACTIONS, PASSES_ELEMENTS

PRODUCTS = frozenset(CONTRACTIONS) - {"transpose_convolution"}
CASTING = ("average_pool", "mean", "transpose_convolution")
"""Kernels besides `PRODUCTS` in which OpenVINO casts their results."""
MATRICES = ("batch_matmul", "fully_connected")
CHANNELS = 2
"""The number of first dimensions along which a constant may have several numbers and still change a range."""
JOINED = "concatenate"
"""The kernel that files have on stored integers, without casts."""


@dataclass(frozen=True)
class FileOperand:
    """An operand of a binary op of a region's body, and the value that its op in the file reads."""

    kernel: MaterializedKernel
    value: SSAValue

    @property
    def argument(self) -> SSAValue | None:
        """The argument of the body; None if the body computes the operand."""
        made = self.value.owner
        found = made.operand if isinstance(made, hlo.BroadcastInDimOp) else self.value
        return found if found in self.kernel.arguments else None

    @property
    def kind(self) -> UniformQuantizedType:
        """The operand's type, also in a region that is not yet materialized."""
        assert self.argument is not None
        if self.argument in self.kernel.values:
            return self.kernel.type_of(self.argument)
        spec = self.kernel.region.input_specs.data[self.kernel.arguments.index(self.argument)]
        assert isinstance(spec, UniformQuantizedType)
        return spec

    @property
    def outer(self) -> SSAValue:
        """The operand of the region."""
        assert self.argument is not None
        return self.kernel.region.inputs[self.kernel.arguments.index(self.argument)]

    @property
    def source(self) -> SSAValue:
        """The value that is read in the file, where ops repeat their operands themselves."""
        return origin(self.outer)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the file."""
        made = self.value.owner
        return made.aligned_shape if isinstance(made, hlo.BroadcastInDimOp) else shape_of(self.source)

    @property
    def is_repeated(self) -> bool:
        """Whether the op in the file repeats the operand."""
        return self.shape != shape_of(self.value)

    @property
    def is_reshaped(self) -> bool:
        """Whether a reshape stands before the op in the file."""
        return self.shape != shape_of(self.source)

    @property
    def readings(self) -> list[Operation]:
        """The ops that read the source in the operand's type, once for each time."""
        return readings(self.source, self._spec)

    @property
    def _spec(self) -> Attribute:
        """The type in which the op in the file reads the source."""
        assert self.argument is not None
        value, spec = self.outer, self.kernel.region.input_specs.data[self.kernel.arguments.index(self.argument)]
        while value is not self.source:
            maker = defining_op(value)
            assert isinstance(maker, QuantizeRegionOp)  # otherwise it is the source
            value, spec = maker.inputs[0], maker.input_specs.data[0]
        return spec

    @property
    def is_alone(self) -> bool:
        """Whether no other op reads the operand in its type."""
        return self.is_reshaped or len(self.readings) == 1

    @property
    def maker(self) -> QuantizeRegionOp | None:
        """The region that computes the source; None for others, and for reshaped operands."""
        found = defining_op(self.source)
        return found if isinstance(found, QuantizeRegionOp) and not self.is_reshaped else None

    @property
    def is_cast(self) -> bool:
        """Whether the op in the file reads a pair of casts.

        Stored integers that are concatenated, clipped or inputs of the program are only dequantized.
        """
        maker = self.maker
        if maker is None:
            return self.is_reshaped or not _is_integer_input(self.source)
        return maker.logical_kernel.data != JOINED and not _is_clipped(maker, self.kernel.weights)

    @property
    def is_moved(self) -> bool:
        """Whether an op that moves stored integers stands before the casts."""
        maker = self.maker
        if maker is None:
            return self.is_reshaped
        kernel = maker.logical_kernel.data
        return kernel in PASSES_ELEMENTS or (kernel in CONTRACTIONS and not _is_last(maker))

    @property
    def is_stored(self) -> bool:
        """Whether OpenVINO reads stored integers.

        It drops the casts after an op that moves them, if they have zero point 0.
        """
        return not self.is_cast or (self.is_moved and self.kind.zero_point == 0)

    @property
    def is_apart(self) -> bool:
        """Whether OpenVINO reads stored integers, or a result that was cast in the kernel of another op."""
        maker = self.maker
        return self.is_stored or self.is_product or (maker is not None and maker.logical_kernel.data in CASTING)

    @property
    def is_folded(self) -> bool:
        """Whether OpenVINO expresses the operand in other units where it is quantized, which no other op may read."""
        return self.is_alone and not self.is_stored

    def is_followed(self, shape: Sequence[int]) -> bool:
        """Whether an elementwise op with a constant is computed in the convolution or product before the casts.

        The constant has one number, or one for each channel.
        """
        channels = len(shape) - 1 if _is_matrix(self.source) else 1
        is_by_channel = all(size == 1 for axis, size in enumerate(shape) if axis != channels)
        return is_by_channel and not self.is_reshaped and takes_followers(self.source, self.kind, self.kernel.weights)

    @property
    def is_product(self) -> bool:
        """Whether a convolution or product stands before the casts."""
        maker = self.maker
        return maker is not None and maker.logical_kernel.data in PRODUCTS and _is_last(maker) and self.is_cast


def origin(value: SSAValue) -> SSAValue:
    """The value of a file that others repeat or only store in another type."""
    while isinstance(maker := defining_op(value), QuantizeRegionOp) and (_only_repeats(maker) or _only_stores(maker)):
        value = maker.inputs[0]
    return value


def readings(value: SSAValue, spec: object) -> list[Operation]:
    """The ops that read a value in a quantized type, once for each time. In a file, repetitions read nothing."""
    found = list[Operation]()
    for use in value.uses:
        reader = use.operation
        if isinstance(reader, QuantizeCastOp):
            found += _readings_of_cast(reader, spec)
        elif not isinstance(reader, QuantizeRegionOp):
            found += [] if isinstance(reader, hlo.UniformQuantizeOp) else [reader]
        elif (own := reader.input_specs.data[use.index]) == spec:
            moves = _only_repeats(reader) or _only_stores(reader)
            found += readings(reader.outputs[0], reader.output_specs.data[0]) if moves else [reader]
        elif not isinstance(own, UniformQuantizedType):  # a float op reads the cast value
            found.append(reader)
    return found


def _readings_of_cast(cast: QuantizeCastOp, spec: object) -> list[Operation]:
    """The ops that read a pair of casts of a type, before all casts have become types of regions."""
    if element_of(cast.result) != spec:
        return []
    readers = [use.operation for use in cast.result.uses]
    pairs = [reader for reader in readers if isinstance(reader, DequantizeCastOp)]
    return [
        *(reader for reader in readers if not isinstance(reader, DequantizeCastOp)),
        *(use.operation for pair in pairs for use in pair.result.uses),
    ]


def expressed(operands: tuple[FileOperand, FileOperand]) -> int:
    """The number of the operand that OpenVINO expresses in units of the other.

    It is the only one with casts, else the one that nothing else reads, else a convolution or product, else one with
    one number in each channel, else the first.
    """
    casts, alone, products, channels = (
        [fact(operand) for operand in operands]
        for fact in (_is_cast, _is_alone, _is_product, _has_one_number_per_channel)
    )
    # Without casts, numbers per channel count before other readers do.
    order = [casts, alone, products, channels] if any(casts) else [channels, alone]
    for facts in order:
        if facts[0] != facts[1] or (facts is channels and any(facts)):
            return facts.index(True)
    return 0


def _is_cast(operand: FileOperand) -> bool:
    return operand.is_cast


def _is_alone(operand: FileOperand) -> bool:
    return operand.is_alone


def _is_product(operand: FileOperand) -> bool:
    return operand.is_product


def _has_one_number_per_channel(operand: FileOperand) -> bool:
    shape = operand.shape
    return prod(shape[min(len(shape) - 1, 2) :]) == 1


def takes_followers(source: SSAValue, kind: UniformQuantizedType, weights: Weights) -> bool:
    """Whether OpenVINO computes an elementwise op with a constant in the convolution or product that makes its operand.

    That is so if nothing else reads the operand, and no zero point has to be subtracted.
    """
    maker = defining_op(source)
    if not isinstance(maker, QuantizeRegionOp) or maker.logical_kernel.data not in PRODUCTS:
        return False
    is_cast = _is_last(maker) and not _is_clipped(maker, weights)
    return is_cast and not kind.zero_points.any() and len(readings(source, kind)) == 1


def shape_in_file(
    constant: Sequence[int], result: Sequence[int], source: SSAValue, kind: UniformQuantizedType, weights: Weights
) -> tuple[int, ...]:
    """The shape of a constant operand of a sum or product with `source`.

    In the kernel of a product of matrices, OpenVINO 2026.4.1 reads numbers of channels along the columns. Those in the
    kernel of a convolution have another rounding. So files repeat them in each column, which is computed apart.
    """
    if not takes_followers(source, kind, weights):
        return tuple(constant)
    return tuple(result) if len(constant) <= CHANNELS else (*constant[:-1], result[-1])


def channel_axis(operands: Sequence[FileOperand]) -> int | None:
    """The dimension along which computed operands have a scale per channel."""
    return next((operand.kind.axis for operand in operands if operand.kind.axis is not None), None)


def has_channels(operands: Sequence[FileOperand]) -> bool:
    """Whether two values of 8 bits are computed of which one or both have a scale for each index of one dimension."""
    kernel, axis = operands[0].kernel, channel_axis(operands)
    result = kernel.output_type
    if axis is None or not result.is_per_layer or result.storage.type.width != 8:
        return False
    return all(
        operand.kind.storage.type.width == 8
        and operand.kind.axis in (None, axis)
        and not operand.kind.is_sub_channel
        and len(shape_of(operand.outer)) == len(shape_of(operand.value))
        and constant_array(kernel.values[operand.argument], kernel.weights) is None
        for operand in operands
        if operand.argument is not None
    )


def is_by_channel(shape: Sequence[int]) -> bool:
    """Whether OpenVINO changes the range of the result by a constant, instead of computing with its elements.

    It does so by one number, or by one for each element of the first two dimensions.
    """
    return all(size == 1 for size in shape[CHANNELS:])


def _is_matrix(source: SSAValue) -> bool:
    """Whether a value is a product of matrices."""
    maker = defining_op(source)
    return isinstance(maker, QuantizeRegionOp) and maker.logical_kernel.data in MATRICES


def _is_integer_input(value: SSAValue) -> bool:
    """Whether a value is an input of the program that is stored integers."""
    cast = value.owner.input.owner if isinstance(value.owner, DequantizeCastOp) else value.owner
    return isinstance(cast, StorageCastOp)


def _only_repeats(region: QuantizeRegionOp) -> bool:
    """Whether a region is a broadcast that keeps the number of dimensions, which a file leaves to its readers."""
    if region.logical_kernel.data != "broadcast":
        return False
    op = region.body.block.first_op
    return isinstance(op, hlo.BroadcastInDimOp) and op.aligned_shape == shape_of(region.inputs[0])


def _only_stores(region: QuantizeRegionOp) -> bool:
    """Whether a region only makes i8 of u8, or u8 of i8, of the same numbers, which no file has."""
    given, made = region.input_specs.data[0], region.output_specs.data[0]
    if region.logical_kernel.data != RESCALE_KERNEL or not isinstance(given, UniformQuantizedType):
        return False
    if not isinstance(made, UniformQuantizedType) or given.storage.type.width != made.storage.type.width:
        return False
    low, high = (kind.zero_points - kind.storage.minimum for kind in (given, made))
    return given != made and np.array_equal(given.scales, made.scales) and np.array_equal(low, high)


def _is_clipped(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether the file clips the stored integers of a result."""
    kind, bounds = region.output_specs.data[0], Bounds()
    if not isinstance(kind, UniformQuantizedType):
        return False
    for op in region.body.block.ops:
        bounds.then(op, weights)
    shape = () if kind.axis is None else (*[1] * kind.axis, kind.scales.size)
    low, high = (stored_array(np.full(shape, bound), kind) for bound in (bounds.low, bounds.high))
    storage = kind.storage
    return not storage.is_full_range or bool((low > storage.minimum).any() or (high < storage.maximum).any())


def _is_last(region: QuantizeRegionOp) -> bool:
    """Whether a file has a convolution or product right before the casts of its result, without a reshape between."""
    kernel, (first, *others) = region.logical_kernel.data, region.body.block.ops
    if isinstance(first, hlo.ConvolutionOp):
        numbers = first.dimension_numbers.data
        made = (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions)
        return made == (*range(len(made)),)
    rank = len(shape_of(region.outputs[0]))
    if kernel == "fully_connected":
        is_batched = is_in_chain(region) or not any(isinstance(op, hlo.AddOp) for op in others)
        return rank == (3 if is_batched else 2) and (not is_batched or shape_of(region.outputs[0])[0] == 1)
    return all(len(shape_of(value)) == rank for value in region.inputs[:2])
