"""Prints values in the format of upstream's interpreter, and parses constants as values.

```
tensor<2x2xf32> {
  [
    [1.000000e+00, 2.000000e+00],
    [3.000000e+00, 4.000000e+00]
  ]
}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    TupleType,
    UnrankedTensorType,
    i1,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.errors import Error, reading
from zeropoint.ir.context import new_context
from zeropoint.ir.floats import format_float
from zeropoint.ir.parser import ProgramParser
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import inline_array

SHOWN_ELEMENTS = 4096
"""Tensors with more elements are not printed in full."""


def value_text(value: Any, found: Attribute) -> str:
    """The text of a value of tensor, tuple or token type. A quantized value is printed as its storage integers."""
    if isinstance(found, TupleType):
        parts = zip(cast("Sequence[Any]", value), found.types, strict=True)
        return "(" + ", ".join(value_text(part, part_type) for part, part_type in parts) + ")"
    array = np.asarray(value)
    if isinstance(found, UnrankedTensorType):
        found = TensorType(element_or_self(cast("Attribute", found)), array.shape)
    if isinstance(found, AnyFloat | IndexType | IntegerType | UniformQuantizedType):
        return f"{_element_text(array[()], cast('Attribute', found))} : {found}"
    if not isinstance(found, TensorType):
        return str(found)
    element = element_of(cast("Attribute", found))
    if array.size > SHOWN_ELEMENTS:
        return f"{found} {{{array.size} elements}}"
    if array.ndim == 0:
        return f"{found} {{{_element_text(array[()], element)}}}"
    return f"{found} {{\n{_nested_text(array, element, 1)}\n}}"


def _nested_text(array: Array, element: Attribute, depth: int) -> str:
    indent = "  " * depth
    if array.ndim == 1 or len(array) == 0:
        return f"{indent}[{', '.join(_element_text(entry, element) for entry in array.reshape(-1))}]"
    rows = ",\n".join(_nested_text(row, element, depth + 1) for row in array)
    return f"{indent}[\n{rows}\n{indent}]"


def _element_text(entry: Any, element: Attribute) -> str:
    if isinstance(element, AnyFloat):
        return format_float(float(entry), element)
    if isinstance(element, ComplexType):
        part_type = cast("Attribute", cast("ComplexType[Any]", element).element_type)
        return f"[{_element_text(entry.real, part_type)}, {_element_text(entry.imag, part_type)}]"
    return str(bool(entry)).lower() if element == i1 else str(entry)


class ValuesError(Error, ValueError):
    """A text of values that does not parse; the message is upstream's."""


def parse_values(text: str) -> list[Array]:
    """The arrays in `[dense<1> : tensor<2xi32>, dense<2.0> : tensor<f32>]`; a number is an array of rank 0.

    Raises ValuesError, with upstream's message, for any other text.
    """
    example = "i.e. --args=[dense<1> : tensor<2xi32>, ...]"
    with reading("--args"):
        return _parsed_values(text, example)


def _parsed_values(text: str, example: str) -> list[Array]:
    try:
        found = ProgramParser(new_context(), text, "--args").parse_attribute()
    except (ParseError, VerifyException):
        found = None
    if not isinstance(found, ArrayAttr):
        raise ValuesError(f"expected array attribute string for args, {example}")
    arrays: list[Array] = []
    for entry in cast("ArrayAttr[Attribute]", found):
        if isinstance(entry, FloatAttr | IntegerAttr):  # `1.5 : f32`, for an argument that is not a tensor
            number = cast("Any", entry)
            arrays.append(np.asarray(number.value.data).astype(element_dtype(number.type)))
            continue
        if not isinstance(entry, DenseIntOrFPElementsAttr):
            raise ValuesError(f"expected dense elements attribute for args elements, {example}")
        arrays.append(inline_array(cast("DenseIntOrFPElementsAttr[Any]", entry)))
    return arrays
