"""The quant dialect: types, casts, statistics, regions."""

from xdsl.ir import Dialect

from zeropoint.ir.quant.casts import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.quant.parameters import Storage, UniformParameters
from zeropoint.ir.quant.region import QuantizeRegionOp, ReturnOp
from zeropoint.ir.quant.statistics import StatisticsOp, StatisticsRefOp
from zeropoint.ir.quant.types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    QuantizedType,
    UniformQuantizedType,
)

__all__ = [
    "AnyQuantizedType",
    "CalibratedQuantizedType",
    "DequantizeCastOp",
    "Quant",
    "QuantizeCastOp",
    "QuantizeRegionOp",
    "QuantizedType",
    "ReturnOp",
    "StatisticsOp",
    "StatisticsRefOp",
    "Storage",
    "StorageCastOp",
    "UniformParameters",
    "UniformQuantizedType",
]

Quant = Dialect(
    "quant",
    [
        DequantizeCastOp,
        QuantizeCastOp,
        QuantizeRegionOp,
        ReturnOp,
        StatisticsOp,
        StatisticsRefOp,
        StorageCastOp,
    ],
    [AnyQuantizedType, CalibratedQuantizedType, UniformQuantizedType],
)
