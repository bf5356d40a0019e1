"""Contractions whose float bias is one constant of the file with that of another one.

OpenVINO adds such a bias in a kernel of its own, in which it also computes what follows. So it does not compute a sum
in the convolution. Biases of equal numbers that are several constants of the file are none.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import UnitAttr

from zeropoint.ir.annotations import SHARED_BIAS
from zeropoint.ir.locations import location_of, location_text
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.solve.quantized_files.quantized_at_load import BIAS


def state_shared_biases(regions: Iterable[QuantizeRegionOp]) -> None:
    """Mark the contractions with real biases, in place, whose bias another one of them has."""
    readers = dict[str, list[QuantizeRegionOp]]()
    for region in regions:
        name = location_text(location_of(region.inputs[BIAS]))
        if name:
            readers.setdefault(name, []).append(region)
    for sharing in readers.values():
        for region in sharing if len(sharing) > 1 else ():
            region.attributes[SHARED_BIAS] = UnitAttr()
