"""Well-typed attributes in the place of others: of ops, arguments and results, and inside of lists."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from zeropoint.codegen.group import ISA
from zeropoint.codegen.values import CHANNEL
from zeropoint.ir import annotations
from zeropoint.ir.context import new_context
from zeropoint.ir.parser import ProgramParser
from zeropoint.ir.program import Program

NAMES = (
    *(found for name, found in vars(annotations).items() if name.isupper() and str(found).startswith("zeropoint.")),
    *("zeropoint.facts1", "zeropoint.stated", ISA, CHANNEL),
)
"""The names of all annotations."""
TEXTS = (
    *("", "zz", "-1", "0", "1e999", "nan", "inf", "99999999999999999999", "true", "x", "../x", "a\0b", "é", "w" * 9999),
    *("[1, -1]", "[nan, inf]", "!quant.uniform<", "!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i8:f32, 0.0>", "f32"),
    *("cpu", "litert", "tosa", "onnxruntime", "xnnpack", "fixed16", "fixed32", "avx2", "portable", "i8", "per_channel"),
    *("bits", "scale", "range", "quantize", "granularity", "block_size", "parameters", "kernel", "has", "required"),
    *("user", "calibrated", "default", "tanh", "conv2d", "matmul", "contraction", "inside", "after", "main"),
)
NUMBERS = (0, -1, 1, 2, 3, 4, 7, 8, 31, 32, 63, 64, 255, 10**6, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, -1.0, 0.5, 1e-45, 1e-300, 1e30, float("inf"), float("-inf"), float("nan"))
OTHERS = (
    *(
        '"zz"',
        "unit",
        "true",
        "5 : i64",
        "-1 : i32",
        "300 : i16",
        "1.0 : f32",
        "0x7FC00000 : f32",
        "0 : index",
        "@main",
    ),
    *("@nothing", "[]", "{}", "[{}]", "[5 : i64]", '["zz"]', "{a = 1 : i64}", "i8", "i64", "f32", "bf16", "index"),
    *("array<i64>", "array<i64: -1>", "array<i64: 0, 1, 2, 3>", "array<i64: 0, 0, 0, 0>", "array<i32: 1>", "array<i1>"),
    *("array<i64: 9223372036854775807, 1, 1, 1>", "array<i64: -9223372036854775808>", "array<f32: 1.0>", "none"),
    *("dense<1.0> : tensor<2xf32>", "dense<0x7FC00000> : tensor<2xf32>", "dense<[]> : tensor<0xf32>", "tensor<4xf32>"),
    *("dense<[0x7FC00000, 0xFF800000, 1.0]> : tensor<3xf32>", "dense<-1> : tensor<4xi64>", "dense<true> : tensor<i1>"),
    *("dense_resource<nothing> : tensor<4xf32>", "tensor<?x4xi8>", "tensor<*xf32>", "memref<4xi8>", "complex<f32>"),
    *("!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i8:f32, 1.0:-128>", "!quant.uniform<i4:f32, 1.0e-30>"),
    *("!quant.uniform<i32:f32:1, {1.0, 2.0}>", "!quant.uniform<u8:f32:9, {1.0}>", "!quant.uniform<i8:f32:0, {1.0}>"),
    *("!quant.any<i8:f32>", "() -> ()", "(tensor<4xf32>) -> tensor<4xf32>", "affine_map<(d0) -> (d0)>"),
    '[{name = "bits", salience = "user", source = "s", value = "zz"}]',
    '[{name = "scale", salience = "user", source = "s", value = "nan"}]',
    '[{name = "range", salience = "kernel", source = "", value = "[]"}]',
    '[{name = "quantize", salience = "user", source = "s", value = "maybe"}]',
    '[{name = "block_size", salience = "user", source = "s", value = "-1"}]',
    '[{name = "weight_bits", salience = "user", source = "s", value = "99999999999999999999"}]',
    '[{name = "parameters", salience = "user", source = "s", value = "!quant.uniform<i8:f32, nan>"}]',
    '[{name = "parameters", salience = "user", source = "s", value = "!quant.uniform<"}]',
    '[{name = "kernel", salience = "default", source = "", value = "zz"}]',
    '[{name = "has", salience = "default", source = "", value = "zz"}]',
)


@functools.cache
def others() -> tuple[Attribute, ...]:
    """Attributes of every kind."""
    return tuple(ProgramParser(new_context(), text, "others").parse_attribute() for text in OTHERS)


def inner(attribute: Attribute) -> Iterator[Attribute]:
    """An attribute and those inside of lists and dictionaries."""
    yield attribute
    if isinstance(attribute, ArrayAttr):
        for entry in cast("ArrayAttr[Attribute]", attribute):
            yield from inner(entry)
    elif isinstance(attribute, DictionaryAttr):
        for entry in attribute.data.values():
            yield from inner(entry)


def attributes_of(programs: Sequence[Program]) -> list[Attribute]:
    """All attributes and types of some programs, each once."""
    ops = [op for program in programs for op in program.module.walk()]
    found = [(*op.properties.values(), *op.attributes.values(), *(result.type for result in op.results)) for op in ops]
    return list(dict.fromkeys(each for given in found for attribute in given for each in inner(attribute)))


class Mutator:
    """Changes attributes of a program in place; `pool` are attributes to take, besides junk."""

    def __init__(self, pool: Sequence[Attribute], choose: random.Random):
        self._pool, self._choose = pool, choose

    def mutate(self, program: Program) -> None:
        """One change: of an attribute, of a type, or an annotation that was not there."""
        ops = list(program.module.walk())
        op = self._choose.choice(ops)
        chance = self._choose.random()
        if chance < 0.15:
            self._annotate(op if chance < 0.1 else next(each for each in ops if isinstance(each, FuncOp)))
        elif chance < 0.2 and op.results:
            result = self._choose.choice(list(op.results))
            result._type = self._alike(result.type)  # pyright: ignore[reportPrivateUsage] (a program of wrong types)
        else:
            holders = [held for op in ops for held in (op.attributes, op.properties) if held]
            held = self._choose.choice(holders)
            name = self._choose.choice(list(held))
            if self._choose.random() < 0.1:
                del held[name]
            else:
                held[name] = self.other(held[name])

    def _annotate(self, op: Operation) -> None:
        """An annotation with any value; on a function, on one of its arguments or results."""
        name, value = self._choose.choice(NAMES), self._any()
        ports = self._choose.choice((op.arg_attrs, op.res_attrs)) if isinstance(op, FuncOp) else None
        if not isinstance(ports, ArrayAttr) or not ports.data:
            op.attributes[name] = value
            return
        entries: list[Attribute] = list(ports.data)
        at = self._choose.randrange(len(entries))
        entry = entries[at]  # no dictionary after another change
        entries[at] = DictionaryAttr({**(entry.data if isinstance(entry, DictionaryAttr) else {}), name: value})
        cast("FuncOp", op).properties["arg_attrs" if ports is cast("FuncOp", op).arg_attrs else "res_attrs"] = (
            ArrayAttr(entries)
        )

    def other(self, attribute: Attribute) -> Attribute:
        """Another attribute: mostly of the same kind, and a list or a dictionary with another entry."""
        if self._choose.random() < 0.2:
            return self._any()
        match attribute:
            case DictionaryAttr() if attribute.data:
                return self._dictionary(attribute)
            case ArrayAttr() if len(attribute):
                return self._list(cast("ArrayAttr[Attribute]", attribute))
            case _:
                return self._alike(attribute)

    def _any(self) -> Attribute:
        return self._choose.choice(others() if self._choose.random() < 0.6 else self._pool)

    def _dictionary(self, attribute: DictionaryAttr) -> DictionaryAttr:
        entries = dict(attribute.data)
        name = self._choose.choice(list(entries))
        if self._choose.random() < 0.1:
            del entries[name]
        else:
            entries[name] = self.other(entries[name])
        return DictionaryAttr(entries)

    def _list(self, attribute: ArrayAttr[Attribute]) -> ArrayAttr[Attribute]:
        entries = list(attribute)
        at = self._choose.randrange(len(entries))
        match self._choose.randrange(8):
            case 0:
                del entries[at]
            case 1:
                entries.insert(at, self._choose.choice(entries))
            case _:
                entries[at] = self.other(entries[at])
        return ArrayAttr(entries)

    def _alike(self, attribute: Attribute) -> Attribute:
        """Another value of the same type, or another attribute of the same class."""
        try:
            match attribute:
                case IntegerAttr():
                    return IntegerAttr(self._integer(attribute.type), attribute.type)
                case FloatAttr():
                    return FloatAttr(self._choose.choice(FLOATS), attribute.type)
                case StringAttr():
                    return StringAttr(self._choose.choice(TEXTS))
                case DenseArrayBase():
                    return self._array(cast("DenseArrayBase[Any]", attribute))
                case _:
                    pass
        except VerifyException:  # a number that the type does not have
            return self._any()
        alike = [each for each in (*self._pool, *others()) if type(each) is type(attribute) and each != attribute]
        return self._choose.choice(alike) if alike else self._any()

    def _integer(self, kind: Attribute) -> int:
        bits = kind.width.data if isinstance(kind, IntegerType) else 63
        fitting = [number for number in NUMBERS if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)]
        return self._choose.choice(fitting or [0])

    def _array(self, attribute: DenseArrayBase[Any]) -> Attribute:
        numbers: list[Any] = list(attribute.get_values())
        if not isinstance(attribute.elt_type, IntegerType):
            return self._any()
        at = self._choose.randrange(len(numbers) + 1)
        if numbers and self._choose.random() < 0.7:
            numbers[at % len(numbers)] = self._integer(attribute.elt_type)
        elif numbers and self._choose.random() < 0.5:
            del numbers[at % len(numbers)]
        else:
            numbers.insert(at, self._integer(attribute.elt_type))
        return DenseArrayBase.from_list(attribute.elt_type, numbers)
