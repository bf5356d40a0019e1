"""Turn inputs of a StableHLO program into constants.

func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>)        func.func @main(%x: tensor<4xf32>)
  %0 = stablehlo.multiply %x, %w                 becomes       %w = stablehlo.constant dense<...>
                                                               %0 = stablehlo.multiply %x, %w
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FunctionType

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.locations import name_location
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, element_dtype

Constant = Array | bool | int | float
"""The value of an input that becomes a constant. A number gets the type of the input."""


def typed(name: str, value: Constant, dtype: np.dtype[np.generic], sizes: Sequence[int | None]) -> Array:
    """The value of input `name` as an array. An array is returned unchanged.

    Raises ModelError for a number that the input's type cannot represent, and if the input has several elements.
    """
    if isinstance(value, np.ndarray):
        return value
    if any(size not in (None, 1) for size in sizes):
        given = ["?" if size is None else size for size in sizes]
        raise ModelError(f"found the number {value} for '{name}', expected an array of shape {given}")
    range_ = np.iinfo(dtype.name) if dtype.kind in "iu" else None
    if range_ is not None and (value != int(value) or not range_.min <= value <= range_.max):
        raise ModelError(f"found the number {value} for '{name}', expected one of {dtype}")
    return np.full([1] * len(sizes), value, dtype)


def with_constants(program: Program, constants: Mapping[str, Constant]) -> Program:
    """The program, changed in place, with inputs replaced by constants of the given values, by name.

    Raises ModelError for a name that is not an input, and an array of another shape or dtype.
    """
    ports = {port.name: (port, argument) for port, argument in zip(program.inputs, program.entry.args, strict=True)}
    main, first = program.main, program.entry.first_op
    assert first is not None  # the return
    attributes = None if main.arg_attrs is None else list(main.arg_attrs.data)
    for name, value in constants.items():
        if name not in ports:
            raise ModelError(f"found a value for '{name}', expected one of the inputs: {', '.join(ports)}")
        port, argument = ports[name]
        dtype = element_dtype(port.type.element_type)
        array = typed(name, value, dtype, port.type.get_shape())
        if array.shape != port.type.get_shape() or array.dtype != dtype:
            raise ModelError(f"input '{name}': found a value of {array.dtype}{list(array.shape)}, expected {port.type}")
        constant = ConstantOp(program.weights.attribute(array, port.type.element_type))
        constant.location = name_location(name)
        program.entry.insert_op_before(constant, first)
        argument.replace_all_uses_with(constant.results[0])
        if attributes is not None:
            del attributes[argument.index]
        program.entry.erase_arg(argument)
    main.function_type = FunctionType.from_lists(
        [argument.type for argument in program.entry.args], list(main.function_type.outputs)
    )
    if attributes is not None:
        main.arg_attrs = ArrayAttr(attributes)
    return program
