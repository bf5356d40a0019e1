"""The quantized types: `!quant.uniform`, `!quant.any`, `!quant.calibrated`.

Source: the "'quant' Dialect" document, sections "Per-layer quantization" and "Per-channel quantization"; the RFC on
quantization transformations, section "Model Constraints".

A type holds one immutable Python value (`Data`) instead of a tree of attributes: a per-channel type of 512 channels is
compared and hashed in constant time, because the hash is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from zeropoint.ir.quant import syntax
from zeropoint.ir.quant.parameters import AnyParameters, CalibratedParameters, Storage, UniformParameters


class QuantizedType(TypeAttribute):
    """What all quantized types share: a storage and an expressed type."""

    @property
    def storage(self) -> Storage | None:
        """The storage, or None where the type leaves it open."""
        raise NotImplementedError

    @property
    def expressed_type(self) -> Attribute | None:
        """The floating-point type of the value expressed, or None where the type leaves it open."""
        raise NotImplementedError


@irdl_attr_definition
class UniformQuantizedType(Data[UniformParameters], QuantizedType):
    """`!quant.uniform<i8:f32, 0.5:3>`, `!quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>`."""

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
        scales = tuple(float(scale) for scale in scales)
        points = (0,) * len(scales) if zero_points is None else tuple(int(point) for point in zero_points)
        return UniformQuantizedType(UniformParameters(storage, expressed_type, scales, points, axis))

    @property
    def storage(self) -> Storage:
        return self.data.storage

    @property
    def expressed_type(self) -> AnyFloat:
        return self.data.expressed_type

    @property
    def axis(self) -> int | None:
        """The quantized axis, None for per-layer quantization."""
        return self.data.axis

    @property
    def is_per_channel(self) -> bool:
        """Whether there is one scale per index of an axis."""
        return self.data.axis is not None

    @property
    def scale(self) -> float:
        """The scale of a per-layer type.

        Raises ValueError for a per-channel type.
        """
        if self.is_per_channel:
            raise ValueError(f"{self} has a scale per channel; use .scales")
        return self.data.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-layer type.

        Raises ValueError for a per-channel type.
        """
        if self.is_per_channel:
            raise ValueError(f"{self} has a zero point per channel; use .zero_points")
        return self.data.zero_points[0]

    @property
    def scales(self) -> np.ndarray:
        """The scales, f64, one per channel (one entry when per layer)."""
        return np.array(self.data.scales, dtype=np.float64)

    @property
    def zero_points(self) -> np.ndarray:
        """The zero points, i64, one per channel (one entry when per layer)."""
        return np.array(self.data.zero_points, dtype=np.int64)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> UniformParameters:
        """Parse what follows `!quant.uniform`."""
        return syntax.parse_uniform(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what follows `!quant.uniform`."""
        syntax.print_uniform(printer, self.data)


@irdl_attr_definition
class AnyQuantizedType(Data[AnyParameters], QuantizedType):
    """`!quant.any<i8<-8:7>:f32>`: to be quantized with this storage, parameters not known yet."""

    name = "quant.any"

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
    """`!quant.calibrated<f32<-0.998:1.2321>>`: a range of real values, storage not chosen yet."""

    name = "quant.calibrated"

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
