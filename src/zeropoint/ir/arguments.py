"""Checks of the arrays passed to a program against its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, IntegerType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from zeropoint.errors import Error
from zeropoint.ir.program import Port
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.tensors import Array, booleans, element_dtype, element_of, shape_of
from zeropoint.numerics.storage import integer_range

Sample = Mapping[str, Array]
"""Maps the name of each input to an array of its shape and dtype."""


class InputError(Error, ValueError):
    """An array does not match the program's input: its name, shape or dtype is wrong."""


def in_order(inputs: Mapping[str, Array], ports: Sequence[Port]) -> list[Array]:
    """The named arrays in the order of the inputs. Raises InputError if a name is missing or unknown."""
    if set(inputs) != {port.name for port in ports}:
        found = f"inputs {', '.join(sorted(inputs))}" if inputs else "no inputs"
        raise InputError(f"found {found}; expected {signature(ports)}")
    return [inputs[port.name] for port in ports]


def checked_arguments(values: Sequence[Array], ports: Sequence[Port]) -> list[Array]:
    """The arrays, checked against the inputs. Raises InputError if the number, a shape or a dtype differs."""
    if len(values) != len(ports):
        raise InputError(f"found {len(values)} arrays, expected {len(ports)}: {signature(ports)}")
    return [_checked(np.asarray(value), port) for value, port in zip(values, ports, strict=True)]


def _checked(value: Array, port: Port) -> Array:
    # Reading a type takes as long as running a small network, so `Port.plain` caches shape and dtype.
    if port.plain == (value.shape, value.dtype):
        return value
    return checked_argument(value, port.type, f"input {port.name}")


def checked_argument(value: Array, found: Attribute, name: str) -> Array:
    """Check an array against the type `found` of the input `name`. Returns it, with booleans as bytes of 0 and 1.

    Raises InputError if its shape or dtype differs.
    """
    if isinstance(found, UnrankedTensorType | AnyFloat | IntegerType | UniformQuantizedType):
        wanted, is_scalar = (
            element_dtype(element_or_self(cast("Attribute", found))),
            not isinstance(found, UnrankedTensorType),
        )
        if value.dtype != wanted or (is_scalar and value.ndim):
            raise InputError(
                f"{name}: found {value.dtype} of shape {shape_text(value.shape)}, expected {found}; convert it"
            )
        return _of_bits(value)
    if not isinstance(found, TensorType):
        return value
    shape, dtype = shape_of(cast("Attribute", found)), element_dtype(element_of(cast("Attribute", found)))
    # A dynamic dimension takes any size.
    wanted = tuple(f if e in (DYNAMIC_INDEX, f) else e for e, f in zip(shape, value.shape, strict=False))
    if len(shape) != value.ndim or wanted != value.shape:
        raise InputError(
            f"{name}: found shape {shape_text(value.shape)}, expected {shape_text(shape)} ({found}); "
            f"{shape_fix(value.shape, shape)}"
        )
    if value.dtype != dtype:
        fix = f"convert it with .astype('{dtype}')"
        if value.dtype.kind in "iu" and dtype.kind not in "biu":
            fix = f"{fix}, and scale it as the model expects"
        if stores_reals(value.dtype, dtype):
            fix = STORE_IT
        raise InputError(f"{name}: found dtype {value.dtype}, expected {dtype} ({found}); {fix}")
    _check_stored(value, element_of(cast("Attribute", found)), f"{name} ({found})")
    return _of_bits(value)


def _check_stored(value: Array, element: Attribute, name: str) -> None:
    """Raise InputError for integers out of range, in a type narrower than its dtype, such as i4 or i8<-127:127>."""
    if isinstance(element, UniformQuantizedType):
        low, high = element.storage.minimum, element.storage.maximum
    elif isinstance(element, IntegerType) and element.bitwidth > 1:
        low, high = integer_range(element.bitwidth, signed=value.dtype.kind == "i")
    else:
        return
    whole = np.iinfo(value.dtype)
    # The proof that nothing overflows assumes inputs in the range of their types.
    if not value.size or (low <= whole.min and whole.max <= high):
        return
    wrong = value[(value < low) | (value > high)]
    if wrong.size:
        raise InputError(f"{name}: found {wrong[0]}, expected {low}..{high}; clip it")


STORED_BELOW = 4
"""Integers of fewer bytes store quantized reals. Token ids and counts have at least this many."""
STORE_IT = "quantize it as `explain` says of this input, or keep inputs float (io='float', --io float)"
"""The fix for floats passed to an input of stored integers. `astype` would truncate them instead of quantizing."""


def stores_reals(found: np.dtype[Any], expected: np.dtype[Any]) -> bool:
    """Whether floats were found where an input holds stored integers."""
    return found.kind == "f" and expected.kind in "iu" and expected.itemsize < STORED_BELOW


def shape_text(shape: Sequence[int | str]) -> str:
    """A shape as types and options write it: `1x3x224x224`, with `?` for a dynamic dimension."""
    return "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape) or "() (a scalar)"


def shape_fix(shape: Sequence[int], expected: Sequence[int]) -> str:
    """The fix for an array of another shape: a reshape if the number of elements is equal or not fixed."""
    if any(size == DYNAMIC_INDEX for size in expected) or prod(shape) == prod(expected):
        return "reshape it"
    return "it has another number of elements: resize, crop or pad it"


def _of_bits(value: Array) -> Array:
    return booleans(value) if value.dtype.kind == "b" else value


def signature(ports: Sequence[Port]) -> str:
    """Names and types of the ports, for messages."""
    return ", ".join(f"{port.name}: {port.type}" for port in ports) or "no input"
