"""Weights of a matrix product with one scale per block of a channel's terms (sub-channel quantization).

Column n of the weights has blocks of B terms with scales s[b, n]. Its sums and its bias have the scale g[n] = max_b
s[b, n] (`numerics.blockwise`). Only g has to suit the accumulator: if g has to grow, all blocks of the column grow by
the same factor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zeropoint.ir.annotations import BLOCK_SIZE, WEIGHT_BITS
from zeropoint.ir.contractions import is_matrix_product, weight_channel_axis
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.quant.channel_scales import channel_scales, with_least_scales
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.numerics.arrays import FloatArray
from zeropoint.numerics.ranges import held_scale, symmetric
from zeropoint.numerics.storage import signed_range


def demanded_storage(demands: Mapping[str, str]) -> Storage | None:
    """The storage of the weights that a recipe demands, without its least integer; None if it demands none."""
    if WEIGHT_BITS not in demands:
        return None
    width = int(demands[WEIGHT_BITS])
    # Without the least integer: the range of weights is symmetric around 0.
    return Storage.of(f"i{width}", -signed_range(width)[1])


def unfit_blocks(
    region: QuantizeRegionOp, demands: Mapping[str, str], pinned: UniformQuantizedType | None
) -> str | None:
    """The reason why the weights of a region cannot have the demanded or pinned blocks; None if they can."""
    product = next((op for op in region.body.block.ops if isinstance(op, DotGeneralOp)), None)
    name = region.logical_kernel.data
    if product is None or not is_matrix_product(product):
        return f"kernel '{name}' takes blocks of weights only in a product of rows with a matrix"
    (terms,) = product.dot_dimension_numbers.data.rhs_contracting_dimensions
    rows = shape_of(product.rhs)[terms]
    if pinned is None and rows % int(demands[BLOCK_SIZE]):
        return f"its weights have {rows} terms a channel, expected a multiple of block_size {demands[BLOCK_SIZE]}"
    return None


def unfit_channels(region: QuantizeRegionOp, pinned: UniformQuantizedType) -> str | None:
    """The reason why the weights of a region cannot have the pinned scales per channel; None if they can."""
    product = next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp)), None)
    axis = None if product is None else weight_channel_axis(product)
    if axis is None or pinned.axis in (axis, None):
        return None
    return (
        f"kernel '{region.logical_kernel.data}' requires a scale per output channel, dimension {axis} of its weights; "
        f"they are pinned to one per index of dimension {pinned.axis}"
    )


def block_type(weight: Array, axis: int, storage: Storage, size: int, scale_type: str) -> UniformQuantizedType:
    """The type of a matrix with output channels along `axis`: a symmetric scale for each block of `size` terms."""
    terms = 1 - axis
    count = weight.shape[terms] // size
    blocks = np.moveaxis(weight, terms, 0).astype(np.float64).reshape(count, size, -1)
    low, high = blocks.min(axis=1), blocks.max(axis=1)
    chosen = symmetric(low, high, storage.type, narrow=storage.minimum > storage.type.min).scale
    scales = np.moveaxis(np.asarray(held_scale(chosen, scale_type)), 0, terms)
    sizes = [(dimension, size if dimension == terms else 1) for dimension in range(2)]
    return UniformQuantizedType.sub_channel(storage, sizes, scales)


def with_room(kind: UniformQuantizedType, axis: int, least: FloatArray, scale_type: str) -> UniformQuantizedType:
    """The type with the scale of each channel raised to at least `least`, so that sums and biases fit the
    accumulator."""
    scales = channel_scales(kind, axis, len(least))
    if not (scales < least).any():
        return kind
    wanted = np.where(scales < least, held_scale(least, scale_type), scales)
    return with_least_scales(kind, axis, wanted)
