"""A program: a module and its weights. Every stage of the compiler is a function from one program to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block

from zeropoint.errors import Error
from zeropoint.ir.annotations import NAME, PROFILE
from zeropoint.ir.tensors import tensor_of
from zeropoint.ir.weights import Weights


class NoEntry(Error, ValueError):
    """A module without an entry function of one block."""


@dataclass(frozen=True)
class Port:
    """An input or output of a program."""

    name: str
    type: TensorType[Attribute]


def port_names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, prefix: str) -> list[str]:
    """The names in a function's argument or result attributes; `prefix` and the index where one has none."""
    names: list[str] = []
    for index in range(count):
        name = None if attributes is None else attributes.data[index].data.get(NAME)
        names.append(name.data if isinstance(name, StringAttr) else f"{prefix}{index}")
    return names


def name_attributes(names: list[str]) -> ArrayAttr[DictionaryAttr]:
    """Argument or result attributes that hold the given names."""
    return ArrayAttr([DictionaryAttr({NAME: StringAttr(name)}) for name in names])


@dataclass(frozen=True)
class Program:
    """A module whose entry is `@main`, and the arrays behind its `dense_resource` handles."""

    module: ModuleOp
    weights: Weights = field(default_factory=Weights)

    def clone(self) -> Program:
        """A program that may be changed without changing this one; the arrays are shared."""
        return Program(self.module.clone(), self.weights.copy())

    @property
    def main(self) -> FuncOp:
        """The entry function.

        Raises NoEntry, a ValueError, where there is none.
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

        Raises NoEntry, a ValueError, where there is none.
        """
        main = self.main
        if len(main.body.blocks) != 1:
            raise NoEntry(f"found @{main.sym_name.data} with {len(main.body.blocks)} blocks, expected one with a body")
        return main.body.block

    @property
    def inputs(self) -> list[Port]:
        """The inputs, in order."""
        function = self.main
        names = port_names(function.arg_attrs, len(self.entry.args), "arg")
        return [Port(name, tensor_of(argument)) for name, argument in zip(names, self.entry.args, strict=True)]

    @property
    def outputs(self) -> list[Port]:
        """The outputs, in order."""
        function = self.main
        terminator = self.entry.last_op
        assert isinstance(terminator, ReturnOp)
        names = port_names(function.res_attrs, len(terminator.operands), "result")
        return [Port(name, tensor_of(value)) for name, value in zip(names, terminator.operands, strict=True)]

    @property
    def profile(self) -> str | None:
        """The name of the numerics profile that the program carries."""
        attribute = self.module.attributes.get(PROFILE)
        return cast("StringAttr", attribute).data if attribute is not None else None
