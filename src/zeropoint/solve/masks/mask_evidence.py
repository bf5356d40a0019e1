"""Whether a term of a sum is an attention mask, or a bias, a distance or a log likelihood that may go as far down.

```mlir
%m = stablehlo.constant dense<[0.0, 0.0, -100.0]>      a mask: one number hides, far below all others
%b = stablehlo.constant dense<[0.0, -40.0, -90.0]>     a bias: a row may see only the last two, and tell them apart
%d = "quant.region"(%x) ({ negated sum of squares })   a distance, however far
%n = "quant.region"(%keep, %far) ({ multiply })        a mask, if %far is -1e9
```
A bias that is bounded like a mask loses the differences between all its numbers below the bound. If a row of a softmax
has no others, its result changes. The same holds for constants that are inserted beside scores: a table of many numbers
is no mask.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import EXTREMES, QUANTILES
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.masks.masked_scores import different_numbers
from zeropoint.targets.logical_kernels import CONTRACTIONS, NORMALIZATIONS, SQUARES

SCORES = frozenset({*CONTRACTIONS, *NORMALIZATIONS, *SQUARES, "average_pool", "mean", "sum"})
"""Kernels that compute scores, distances and likelihoods."""
APART = 4.0
"""Hidden numbers are at least this many times as far below 0 as visible ones. Those of a distribution are closer."""
SAME = 63 / 64
"""Observed numbers that differ by less are in one bin of a histogram."""


def least_visible(array: Array, limit: float) -> float | None:
    """The least number of a mask that hides nothing; None if the numbers are no mask's.

    Those that hide are below `limit`, and that far below the others. They are one number, or very negative.
    """
    found = np.unique(array.astype(np.float64))
    hidden = found <= (HIDDEN if found[0] <= HIDDEN else SAME * found[0])
    if hidden.all():
        return None
    nearest, visible = float(found[hidden].max()), float(found[~hidden].min())
    below = min(visible, 0.0)
    return visible if nearest < below + limit and nearest <= APART * below else None


def hides(array: Array, limit: float) -> bool:
    """Whether a constant inserted beside scores hides them: its numbers below `limit` are one, or very negative."""
    below = np.unique(array[array < limit])
    return bool(below.size) and (below.size == 1 or bool(below.max() <= HIDDEN))


def may_be_mask(value: SSAValue, ends: tuple[float, float], limit: float, weights: Weights) -> bool:
    """Whether a computed value or an input may be a mask. `ends` are the least and greatest number seen.

    Without a distribution, the ends decide.
    """
    if _computes_scores(value, weights):
        return False
    op = value.owner
    quantiles, extremes = (
        (_numbers(op, QUANTILES), _numbers(op, EXTREMES)) if isinstance(op, StatisticsOp) else ([], [])
    )
    seen = np.array([*quantiles, *(extremes or ends)] if quantiles else ends)
    return least_visible(seen, limit) is not None


def _numbers(op: StatisticsOp, name: str) -> list[float]:
    found = op.attributes.get(name)
    return [float(number) for number in found.get_values()] if isinstance(found, DenseIntOrFPElementsAttr) else []


def _computes_scores(value: SSAValue, weights: Weights) -> bool:
    """Whether a value follows from a kernel that computes scores, and no very negative constant takes part."""
    scores, pending, seen = False, [value], set[Operation]()
    while pending:
        op = pending.pop().owner
        if not isinstance(op, Operation) or op in seen:
            continue
        seen.add(op)
        if isinstance(op, StatisticsOp):
            pending.append(op.arg)
            continue
        inner = list(op.walk())
        known = [(each, different_numbers(each, weights)) for one in inner for each in one.operands]
        if any(array is not None and array.size and float(np.abs(array).max()) >= -HIDDEN for _, array in known):
            return False
        if isinstance(op, QuantizeRegionOp) and (op.logical_kernel.data in SCORES or _is_product(op, weights)):
            scores = True
        elif isinstance(op, QuantizeRegionOp):
            pending += op.inputs
    return scores


def _is_product(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether a region multiplies two computed values."""
    return region.logical_kernel.data == "multiply" and all(
        different_numbers(value, weights) is None for value in region.inputs
    )
