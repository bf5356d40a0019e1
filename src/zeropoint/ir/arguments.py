"""The arrays that a program is given: whether they fit its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, IntegerType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from zeropoint.errors import Error
from zeropoint.ir.program import Port
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


class InputError(Error, ValueError):
    """The arrays given do not fit the program's inputs: a name, a shape or a dtype."""


def in_order(inputs: Mapping[str, Array], ports: Sequence[Port]) -> list[Array]:
    """Arrays by name in the order of the inputs. Raises InputError for other names than theirs."""
    if set(inputs) != {port.name for port in ports}:
        found = ", ".join(sorted(inputs)) or "no input"
        raise InputError(f"found inputs {found}; expected {signature(ports)}")
    return [inputs[port.name] for port in ports]


def checked_arguments(values: Sequence[Array], ports: Sequence[Port]) -> list[Array]:
    """The arrays, where they fit the inputs one by one. Raises InputError for another number, shape or dtype."""
    if len(values) != len(ports):
        raise InputError(f"found {len(values)} arrays, expected {len(ports)}: {signature(ports)}")
    return [
        checked_argument(np.asarray(value), port.type, f"input {port.name}")
        for value, port in zip(values, ports, strict=True)
    ]


def checked_argument(value: Array, found: Attribute, name: str) -> Array:
    """The array, where it fits the type of what it is given for.

    Raises InputError for another shape or dtype.
    """
    if isinstance(found, UnrankedTensorType | AnyFloat | IntegerType | UniformQuantizedType):
        wanted, is_scalar = (
            element_dtype(element_or_self(cast("Attribute", found))),
            not isinstance(found, UnrankedTensorType),
        )
        if value.dtype != wanted or (is_scalar and value.ndim):
            raise InputError(f"{name}: found {value.dtype} of shape {value.shape}, expected {found}; convert it")
        return value
    if not isinstance(found, TensorType):
        return value
    shape, dtype = shape_of(cast("Attribute", found)), element_dtype(element_of(cast("Attribute", found)))
    # A dynamic dimension takes any size.
    wanted = tuple(f if e in (DYNAMIC_INDEX, f) else e for e, f in zip(shape, value.shape, strict=False))
    if len(shape) != value.ndim or wanted != value.shape:
        raise InputError(f"{name}: found shape {value.shape}, expected {found}; reshape it")
    if value.dtype != dtype:
        raise InputError(
            f"{name}: found dtype {value.dtype}, expected {dtype} ({found}); convert it with .astype('{dtype}')"
        )
    return value


def signature(ports: Sequence[Port]) -> str:
    """Names and types, to be read."""
    return ", ".join(f"{port.name}: {port.type}" for port in ports) or "no input"
