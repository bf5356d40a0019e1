"""A program: a module and its weights. Every stage of the compiler is a function from one program to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from zeropoint.errors import Error
from zeropoint.ir.annotations import INDEX_BOUNDS, MASK, NAME, PROFILE
from zeropoint.ir.cloning import cloned
from zeropoint.ir.locations import text_position
from zeropoint.ir.tensors import Array, UnheldType, element_dtype, element_of, shape_of, tensor_of
from zeropoint.ir.weights import Weights


class NoEntry(Error, ValueError):
    """The module has no function `@main` with exactly one block."""


@dataclass(frozen=True)
class Port:
    """An input or output of a program.

    `index_bounds` are the least and the greatest valid value of an input of indices. If `is_mask`, -inf is a valid
    element.
    """

    name: str
    type: TensorType[Attribute]
    index_bounds: tuple[int, int] | None = None
    is_mask: bool = False

    @cached_property
    def plain(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """The shape and dtype of arrays that need no further check; None for a dynamic shape or a narrower type."""
        element, shape = element_of(self.type), shape_of(self.type)
        dtype = element_dtype(element)
        whole = isinstance(element, IntegerType) and element.bitwidth == 8 * dtype.itemsize
        return (shape, dtype) if (whole or isinstance(element, AnyFloat)) and DYNAMIC_INDEX not in shape else None

    def misfit(self, array: Array) -> str | None:
        """The reason why an array's values are out of range for this index input; None if they are valid."""
        if self.index_bounds is None or not array.size:
            return None
        low, high = self.index_bounds
        wrong = array[(array < low) | (array > high)]
        if not wrong.size:
            return None
        return f"found {wrong[0]}, expected indices from {low} to {high}; the model has no rows for others"


def _ranked(value: SSAValue, port: str, function: FuncOp) -> TensorType[Attribute]:
    """The type of a port. Raises UnheldType, with the name of the port, if it is not a ranked tensor."""
    try:
        return tensor_of(value)
    except UnheldType as error:
        named = UnheldType(f"{port}: {error}")
        named.position = text_position(function)
        raise named from error


def port_names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, prefix: str) -> list[str]:
    """The names in a function's argument or result attributes; `prefix` and the index if one has none."""
    names: list[str] = []
    for index in range(count):
        name = None if attributes is None else attributes.data[index].data.get(NAME)
        names.append(name.data if isinstance(name, StringAttr) else f"{prefix}{index}")
    return names


def name_attributes(
    names: list[str], index_bounds: Mapping[int, tuple[int, int]] | None = None
) -> ArrayAttr[DictionaryAttr]:
    """Argument or result attributes with the given names; `index_bounds` has those of arguments, by number."""
    found: list[DictionaryAttr] = []
    for number, name in enumerate(names):
        bounds = (index_bounds or {}).get(number)
        further = {} if bounds is None else {INDEX_BOUNDS: DenseArrayBase.from_list(i64, bounds)}
        found.append(DictionaryAttr({NAME: StringAttr(name), **further}))
    return ArrayAttr(found)


def with_orders(
    attributes: ArrayAttr[DictionaryAttr] | None, name: str, orders: Sequence[Sequence[int] | None]
) -> ArrayAttr[DictionaryAttr]:
    """Argument or result attributes with the order of each one's dimensions as the attribute `name`.

    None leaves the attributes as they are, and an order that moves nothing removes the attribute.
    """
    found: list[DictionaryAttr] = []
    for number, order in enumerate(orders):
        entries = {} if attributes is None else dict(attributes.data[number].data)
        if order is not None:
            entries.pop(name, None)
            if list(order) != sorted(order):
                entries[name] = DenseArrayBase.from_list(i64, list(order))
        found.append(DictionaryAttr(entries))
    return ArrayAttr(found)


def _index_bounds(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[tuple[int, int] | None]:
    """For each argument that holds indices, their bounds; None for other arguments."""
    if attributes is None:
        return [None] * count
    found = [attribute.data.get(INDEX_BOUNDS) for attribute in attributes]
    read = [tuple(map(int, one.iter_values())) if isinstance(one, DenseArrayBase) else () for one in found]
    return [(one[0], one[1]) if len(one) == 2 else None for one in read]


@dataclass(frozen=True)
class Program:
    """A module whose entry is `@main`, and the arrays behind its `dense_resource` handles."""

    module: ModuleOp
    weights: Weights = field(default_factory=Weights)
    is_temporary: bool = field(default=False, compare=False, repr=False)
    """Whether only a sequence of passes (`sequence.py`) refers to the program, so that the next pass may change it."""

    def clone(self) -> Program:
        """An independent copy of the module; the arrays are shared."""
        return Program(cloned(self.module), self.weights.copy())

    def for_change(self) -> Program:
        """A program that a pass may change: itself if it is temporary, else an independent copy."""
        return Program(self.module, self.weights) if self.is_temporary else self.clone()

    @property
    def main(self) -> FuncOp:
        """The entry function.

        Raises NoEntry, a ValueError, if there is none.
        """
        functions = [op for op in self.module.ops if isinstance(op, FuncOp)]
        for function in functions:
            if function.sym_name.data == "main":
                return function
        if len(functions) == 1:
            return functions[0]
        names = ", ".join(f"@{function.sym_name.data}" for function in functions) or "no function"
        raise NoEntry(f"found {names}; expected a function @main")

    @property
    def entry(self) -> Block:
        """The only block of the entry function.

        Raises NoEntry, a ValueError, if there is none.
        """
        main = self.main
        if len(main.body.blocks) != 1:
            raise NoEntry(f"found @{main.sym_name.data} with {len(main.body.blocks)} blocks, expected one with a body")
        return main.body.block

    @property
    def inputs(self) -> list[Port]:
        """The inputs, in order. Raises UnheldType if one is not a ranked tensor."""
        function = self.main
        names = port_names(function.arg_attrs, len(self.entry.args), "arg")
        bounds = _index_bounds(function.arg_attrs, len(names))
        masks = [False] * len(names) if function.arg_attrs is None else [MASK in e.data for e in function.arg_attrs]
        types = [_ranked(arg, f"input '{name}'", function) for arg, name in zip(self.entry.args, names, strict=True)]
        return [Port(*port) for port in zip(names, types, bounds, masks, strict=True)]

    @property
    def outputs(self) -> list[Port]:
        """The outputs, in order. Raises UnheldType if one is not a ranked tensor."""
        function = self.main
        terminator = self.entry.last_op
        assert isinstance(terminator, ReturnOp)
        names = port_names(function.res_attrs, len(terminator.operands), "result")
        ports = zip(names, terminator.operands, strict=True)
        return [Port(name, _ranked(value, f"output '{name}'", function)) for name, value in ports]

    @property
    def profile(self) -> str | None:
        """The name of the numerics profile that the program carries. Raises UnheldType if it is not a string."""
        attribute = self.module.attributes.get(PROFILE)
        if attribute is not None and not isinstance(attribute, StringAttr):
            raise UnheldType(f"attribute {PROFILE}: found {attribute}, expected a string")
        return attribute.data if attribute is not None else None
