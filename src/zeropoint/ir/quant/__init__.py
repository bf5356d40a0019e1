"""The quant dialect: types, casts, statistics, fake quantization, regions; `quantize` and `dequantize` of arrays."""

from xdsl.ir import Dialect

from zeropoint.ir.quant.casts import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.quant.evaluate import dequantize, quantize, stored_array, stored_bound
from zeropoint.ir.quant.fake_quant import ConstFakeQuantOp, ConstFakeQuantPerAxisOp
from zeropoint.ir.quant.parameters import UniformParameters
from zeropoint.ir.quant.quantile import QuantileParameters, QuantileType
from zeropoint.ir.quant.region import QuantizeRegionOp, ReturnOp
from zeropoint.ir.quant.statistics import CoupledRefOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.quant.storage import Storage
from zeropoint.ir.quant.types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantizedType,
    UniformQuantizedType,
)

__all__ = [
    "AnyQuantizedType",
    "CalibratedQuantizedType",
    "ConstFakeQuantOp",
    "ConstFakeQuantPerAxisOp",
    "CoupledRefOp",
    "DequantizeCastOp",
    "NoQuantizedType",
    "Quant",
    "QuantileParameters",
    "QuantileType",
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
    "dequantize",
    "quantize",
    "stored_array",
    "stored_bound",
]

Quant = Dialect(
    "quant",
    [
        ConstFakeQuantOp,
        ConstFakeQuantPerAxisOp,
        CoupledRefOp,
        DequantizeCastOp,
        QuantizeCastOp,
        QuantizeRegionOp,
        ReturnOp,
        StatisticsOp,
        StatisticsRefOp,
        StorageCastOp,
    ],
    [AnyQuantizedType, CalibratedQuantizedType, NoQuantizedType, QuantileType, UniformQuantizedType],
)
