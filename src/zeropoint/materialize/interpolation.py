"""Functions of one 16-bit value, as tables with linear interpolation (`numerics.interpolation`).

```mlir
%1 = "quant.region"(%x) ({ gelu }) {logical_kernel = "gelu"} : ...
```
becomes, for x of i16,
```mlir
%2 = quant.scast %x
%3 = "fxpmath.interpolate"(%2, %table) : (tensor<1x128xi16>, tensor<513xi16>) -> tensor<1x128xi16>
%1 = quant.scast %3
```
A result differs by at most one step from the rounded function of the dequantized value. The table is as long as this
requires. Functions with a jump, and functions of 8-bit values, become tables with an entry for every integer when they
are lowered (`lower/tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import evaluate_chain, is_function
from zeropoint.ir.fxpmath import InterpolateOp
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.tensors import Array, element_dtype, element_of, with_element
from zeropoint.materialize.elementwise import tabulated as in_table
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import expressed, is_plain, stored_input
from zeropoint.numerics.interpolation import BITS, tabulated
from zeropoint.numerics.storage import half_range


def function(kernel: MaterializedKernel) -> SSAValue:
    """An interpolated table for a signed 16-bit value with one scale.

    Other types, and functions with a jump, get whole tables.
    """
    given = kernel.values[kernel.arguments[0]]
    if not _is_of_words(kernel, given):
        return in_table(kernel)
    image = stored_array(_image(kernel, kernel.type_of(kernel.arguments[0])), kernel.output_type)
    entries = tabulated(image)
    if entries is None:
        return in_table(kernel)
    stored, storage = stored_input(kernel), kernel.output_type.storage.type
    table = kernel.constant(entries.astype(f"i{storage.width // 8}"))
    made = InterpolateOp(stored, table, with_element(stored, element_of(table)))
    return expressed(kernel, kernel.insert(made, kernel.region).result)


def _is_of_words(kernel: MaterializedKernel, given: SSAValue) -> bool:
    """Whether the kernel is a function of one 16-bit value, with a result of 8 or 16 bits."""
    kind = element_of(given)
    one = isinstance(kind, UniformQuantizedType) and kind.storage.type.width == BITS and len(kernel.arguments) == 1
    computes = (is_function(op) or splat_value(op.results[0], kernel.weights) is not None for op in kernel.body)
    return one and is_plain(kernel) and all(computes)


def _image(kernel: MaterializedKernel, given: UniformQuantizedType) -> Array:
    """The real results for every stored integer, and for the greatest plus 1, the end of the last segment."""
    (argument,) = kernel.arguments
    dtype = element_dtype(element_of(argument))
    stored = np.arange(-half_range(BITS), half_range(BITS) + 1)
    domain = (stored - given.zero_point).astype(dtype) * dtype.type(given.scale)
    with np.errstate(all="ignore"):
        return evaluate_chain(kernel.returned[0][0], argument, domain, kernel.weights)


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {"gelu": function}
"""By logical kernel. Other 16-bit functions have whole tables, which are exact but too large for a fast cache."""
