"""Rounding, affine maps, storage ranges, fixed-point multipliers and requantization. Depends on NumPy only.

Functions with the name of their module (`profile`, `requantize`, `table`) must be imported from that module, so that
`zeropoint.numerics.requantize` stays the module. The named behaviours are `QuantizeBehaviour`, `RequantizeBehaviour`
and `AddBehaviour`; a `Profile` names one of each.
"""

from zeropoint.numerics.accumulator import (
    accumulator_bound,
    accumulator_range,
    least_saturating_scale,
    least_weight_scale,
)
from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.elementwise import AddBehaviour, Addition, CommonScaleSum, addition
from zeropoint.numerics.multiplication import Multiplication
from zeropoint.numerics.profile import PROFILES, Profile
from zeropoint.numerics.ranges import SCALE_FLOOR, AffineParameters, asymmetric, fake_quant, minmax_nudged, symmetric
from zeropoint.numerics.requantize import Multiplier, Requantization, RequantizeBehaviour, accumulator_limit
from zeropoint.numerics.storage import StorageType
from zeropoint.numerics.table import apply_table

__all__ = [
    "PROFILES",
    "SCALE_FLOOR",
    "AddBehaviour",
    "Addition",
    "AffineParameters",
    "CommonScaleSum",
    "Multiplication",
    "Multiplier",
    "Profile",
    "QuantizeBehaviour",
    "Requantization",
    "RequantizeBehaviour",
    "StorageType",
    "accumulator_bound",
    "accumulator_limit",
    "accumulator_range",
    "addition",
    "apply_table",
    "asymmetric",
    "dequantize",
    "fake_quant",
    "least_saturating_scale",
    "least_weight_scale",
    "minmax_nudged",
    "quantize",
    "symmetric",
]
