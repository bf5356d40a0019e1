"""Check that an accumulator holds the sums of products of two activations.

The check assumes the worst case: every factor is as far from its zero point as its storage allows. Products with
constant weights need no check. Their sums are bounded from the weights: the scale of a channel grows until its sums fit
(`weights.py`).
"""

from __future__ import annotations

from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.tensors import shape_of
from zeropoint.numerics.storage import half_range
from zeropoint.targets import DATA, KernelRow, PortRule


def greatest_sum(region: QuantizeRegionOp, row: KernelRow) -> int:
    """The maximum |sum of (q - z) (q' - z')| of a product of two activations; 0 for other kernels."""
    product = region.body.block.first_op
    rules = [row.input_rule(index) for index in range(2)]
    if not isinstance(product, DotGeneralOp) or any(rule.role not in DATA or rule.wildcard for rule in rules):
        return 0
    bound = 1
    for dim in product.dot_dimension_numbers.data.lhs_contracting_dimensions:
        bound *= shape_of(product.lhs)[dim]
    return bound * _reach(rules[0]) * _reach(rules[1])


def sums_fit(region: QuantizeRegionOp, row: KernelRow) -> bool:
    """Whether the accumulator of the row holds every sum. True for rows that state no accumulator."""
    return row.accumulator_bits is None or greatest_sum(region, row) < half_range(row.accumulator_bits)


def _reach(rule: PortRule) -> int:
    """The maximum |q - z| of a port."""
    low, high = rule.storage.minimum, rule.storage.maximum
    if rule.zero_point is None:
        # A free zero point may be at either end of the storage.
        return high - low
    return max(high - rule.zero_point, rule.zero_point - low)
