"""The quantized types: `!quant.uniform`, `!quant.any`, `!quant.calibrated`, `!quant.none`.

Source: the "'quant' Dialect" document, section "The !quant.uniform type"; the RFC on quantization transformations,
section "Model Constraints".

A type holds one immutable Python value (`Data`) instead of a tree of attributes. Its hash is computed once, so a
per-channel type of 512 channels is compared and hashed in constant time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from zeropoint.ir.floats import round_to
from zeropoint.ir.quant import checks, syntax
from zeropoint.ir.quant.parameters import AnyParameters, CalibratedParameters, Storage, UniformParameters
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.storage import StorageType, half_range


class QuantizedType(TypeAttribute):
    """Base class of the quantized types, with a storage and an expressed type."""

    @property
    def storage(self) -> Storage | None:
        """The storage, or None if the type does not specify it."""
        raise NotImplementedError

    @property
    def expressed_type(self) -> Attribute | None:
        """The expressed type, or None if the type does not specify it."""
        raise NotImplementedError


@irdl_attr_definition
class UniformQuantizedType(Data[UniformParameters], QuantizedType):
    """`!quant.uniform<i8:f32, 0.5:3>`, `!quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>`.

    All constructors raise VerifyException for parameters that upstream MLIR rejects.
    """

    name = "quant.uniform"

    @staticmethod
    def per_layer(
        storage: Storage, scale: float, zero_point: int = 0, *, expressed_type: AnyFloat = f32
    ) -> UniformQuantizedType:
        """One scale and zero point for the whole tensor."""
        return UniformQuantizedType(
            UniformParameters(storage, expressed_type, (float(scale),), (int(zero_point),)),
        )

    @staticmethod
    def per_channel(
        storage: Storage,
        axis: int,
        scales: Iterable[float],
        zero_points: Iterable[int] | None = None,
        *,
        expressed_type: AnyFloat = f32,
    ) -> UniformQuantizedType:
        """One scale and zero point for each index along `axis`; zero points default to 0."""
        # NumPy, not a Python loop: a layer may have thousands of channels.
        factors = np.fromiter(scales, np.float64)
        points = np.zeros(len(factors), np.int64) if zero_points is None else np.fromiter(zero_points, np.int64)
        return UniformQuantizedType(
            UniformParameters(storage, expressed_type, tuple(factors.tolist()), tuple(points.tolist()), axis)
        )

    @staticmethod
    def sub_channel(
        storage: Storage,
        blocks: Sequence[tuple[int, int]],
        scales: AnyArray,
        zero_points: AnyArray | None = None,
        *,
        expressed_type: AnyFloat = f32,
    ) -> UniformQuantizedType:
        """One scale and zero point for each block of elements.

        `blocks` are (axis, block size) pairs. `scales` and `zero_points` have the tensor's rank and one entry per
        block; along an axis without a block size, they have size 1. Scales are rounded to `expressed_type`.
        """
        scales = np.asarray(scales, np.float64)
        points = np.zeros(scales.shape, np.int64) if zero_points is None else np.asarray(zero_points)
        return UniformQuantizedType(
            UniformParameters(
                storage,
                expressed_type,
                tuple(round_to(float(scale), expressed_type) for scale in scales.reshape(-1)),
                tuple(int(point) for point in points.reshape(-1)),
                None,
                tuple((int(axis), int(size)) for axis, size in blocks),
                scales.shape,
            )
        )

    def verify(self) -> None:
        checks.check_uniform(self.data)

    @property
    def storage(self) -> Storage:
        return self.data.storage

    @property
    def expressed_type(self) -> AnyFloat:
        return self.data.expressed_type

    @property
    def axis(self) -> int | None:
        """The quantized axis of per-channel quantization, None otherwise."""
        return self.data.axis

    @property
    def blocks(self) -> tuple[tuple[int, int], ...] | None:
        """The (axis, block size) pairs of sub-channel quantization, None otherwise."""
        return self.data.blocks

    @property
    def is_per_channel(self) -> bool:
        """Whether there is one scale per index of an axis."""
        return self.data.axis is not None

    @property
    def is_sub_channel(self) -> bool:
        """Whether there is one scale per block of elements."""
        return self.data.blocks is not None

    @property
    def is_per_layer(self) -> bool:
        """Whether there is one scale for the whole tensor."""
        return self.data.axis is None and self.data.blocks is None

    @property
    def scale(self) -> float:
        """The scale of a per-layer type.

        Raises ValueError for another type.
        """
        if not self.is_per_layer:
            raise ValueError(f"{self} has more than one scale; use .scales")
        return self.data.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-layer type.

        Raises ValueError for another type.
        """
        if not self.is_per_layer:
            raise ValueError(f"{self} has more than one zero point; use .zero_points")
        return self.data.zero_points[0]

    @property
    def affine(self) -> AffineParameters:
        """The parameters for `zeropoint.numerics`: scalars for a per-layer type, else in the shape of `scales`."""
        scales, points = self.data.arrays()
        if self.is_per_layer:
            scales, points = scales.reshape(()), points.reshape(())
        return AffineParameters(scales, points, self.storage.minimum, self.storage.maximum)

    @property
    def scales(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The scales, f64, of shape [1] per layer, [channels] per channel, or one per block in the tensor's rank."""
        return self.data.arrays()[0]

    @property
    def zero_points(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The zero points, i64, in the shape of `scales`."""
        return self.data.arrays()[1]

    @property
    def signed(self) -> UniformQuantizedType:
        """The same real values in signed storage: half the range is subtracted from integers and zero points."""
        storage, half = self.storage, half_range(self.storage.type.width)
        if storage.type.signed:
            return self
        moved = Storage(StorageType(True, storage.type.width), storage.minimum - half, storage.maximum - half)
        points = tuple(point - half for point in self.data.zero_points)
        return UniformQuantizedType(replace(self.data, storage=moved, zero_points=points))

    @property
    def normalized(self) -> UniformQuantizedType:
        """The per-layer type for one block; the per-channel type for blocks of one index of an axis; else itself."""
        parameters = self.data
        if parameters.blocks is None:
            return self
        if len(parameters.scales) == 1:
            return UniformQuantizedType(replace(parameters, blocks=None, shape=()))
        long_axes = [axis for axis, count in enumerate(parameters.shape) if count != 1]
        if len(long_axes) == 1 and dict(parameters.blocks).get(long_axes[0]) == 1:
            return UniformQuantizedType(replace(parameters, axis=long_axes[0], blocks=None, shape=()))
        return self

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> UniformParameters:
        """Parse what follows `!quant.uniform`."""
        return syntax.parse_uniform(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what follows `!quant.uniform`."""
        syntax.print_uniform(printer, self.data)


@irdl_attr_definition
class AnyQuantizedType(Data[AnyParameters], QuantizedType):
    """`!quant.any<i8<-8:7>:f32>`: to be quantized with this storage; the parameters are not known yet."""

    name = "quant.any"

    @classmethod
    def of(cls, storage: Storage, expressed_type: AnyFloat | None = None) -> AnyQuantizedType:
        """`!quant.any` of a storage; without an expressed type, it fits every float type."""
        return cls(AnyParameters(storage, expressed_type))

    def verify(self) -> None:
        checks.check_any(self.data)

    @property
    def storage(self) -> Storage:
        return self.data.storage

    @property
    def expressed_type(self) -> AnyFloat | None:
        return self.data.expressed_type

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AnyParameters:
        """Parse what follows `!quant.any`."""
        return syntax.parse_any(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what follows `!quant.any`."""
        syntax.print_any(printer, self.data)


@irdl_attr_definition
class CalibratedQuantizedType(Data[CalibratedParameters], QuantizedType):
    """`!quant.calibrated<f32<-0.998:1.2321>>`: a range of real values; the storage is not chosen yet."""

    name = "quant.calibrated"

    def verify(self) -> None:
        checks.check_calibrated(self.data)

    @property
    def storage(self) -> None:
        return None

    @property
    def expressed_type(self) -> AnyFloat:
        return self.data.expressed_type

    @property
    def minimum(self) -> float:
        """The least real value that was observed."""
        return self.data.minimum

    @property
    def maximum(self) -> float:
        """The greatest real value that was observed."""
        return self.data.maximum

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> CalibratedParameters:
        """Parse what follows `!quant.calibrated`."""
        return syntax.parse_calibrated(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what follows `!quant.calibrated`."""
        syntax.print_calibrated(printer, self.data)


@irdl_attr_definition
class NoQuantizedType(Data[AnyFloat], QuantizedType):
    """`!quant.none<f32>`: stays float even if a quantized kernel exists. The RFC's NoQuantizedType."""

    name = "quant.none"

    def verify(self) -> None:
        checks.check_expressed(self.data)

    @property
    def storage(self) -> None:
        return None

    @property
    def expressed_type(self) -> AnyFloat:
        return self.data

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AnyFloat:
        """Parse what follows `!quant.none`."""
        return syntax.parse_none(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what follows `!quant.none`."""
        syntax.print_none(printer, self.data)
