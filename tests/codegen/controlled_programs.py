"""Random programs with loops and branches: nested, of floats, images, integers, booleans and quantized values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify

FLOATS, IMAGE, BYTES, WORDS = "tensor<3x8xf32>", "tensor<1x3x5x5xf32>", "tensor<2x20xi8>", "tensor<5xi32>"
BITS, COUNT = "tensor<6xi1>", "tensor<i32>"
QUANTIZED = "tensor<2x20x!quant.uniform<i8:f32, 0.5:3>>"
TYPES = (FLOATS, IMAGE, BYTES, WORDS, BITS, COUNT, QUANTIZED)
Pool = dict[str, list[str]]


class Writer:
    """Writes ops one after the other; every value may be an operand of what follows in its block."""

    def __init__(self, seed: int, *, images: bool = True):
        self.random = np.random.default_rng(seed)
        self.types = [type_ for type_ in TYPES if images or type_ != IMAGE]
        self.lines: list[str] = []
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def pick(self, pool: Pool, type_: str) -> str:
        """A value of a type, rather a new one than an old one; a constant if there is none."""
        known = pool.setdefault(type_, [])
        if not known:
            known.append(self.constant(BYTES if type_ == QUANTIZED else type_))
            if type_ == QUANTIZED:
                known.append(self.op(f"quant.scast {known.pop()} : {BYTES} to {QUANTIZED}"))
        return known[-1 - int(min(self.random.geometric(0.4) - 1, len(known) - 1))]

    def constant(self, type_: str) -> str:
        number = {"f32": "0.75", "i8": "7", "i32": "2", "i1": "true"}[
            type_.removesuffix(">").split("x")[-1].split("<")[-1]
        ]
        return self.op(f"stablehlo.constant dense<{number}> : {type_}")

    def op(self, text: str) -> str:
        self.lines.append(f"{(made := self.name())} = {text}")
        return made

    def block(self, pool: Pool, count: int, depth: int) -> None:
        """Append some ops to the current block."""
        for _ in range(count):
            kinds: list[Callable[[Pool, int], None]] = [self._elementwise] * 4 + [self._other] * 3
            if depth:
                kinds += [self._while] * 2 + [self._case]
            kinds[self.random.integers(len(kinds))](pool, depth)

    def _elementwise(self, pool: Pool, depth: int) -> None:
        type_ = self.types[self.random.integers(len(self.types))]
        if type_ == QUANTIZED:
            pool.setdefault(type_, []).append(self.op(f"quant.scast {self.pick(pool, BYTES)} : {BYTES} to {QUANTIZED}"))
            return
        names = ["and", "xor"] if type_ == BITS else ["add", "multiply", "maximum", "subtract"]
        a, b = self.pick(pool, type_), self.pick(pool, type_)
        pool[type_].append(self.op(f"stablehlo.{names[self.random.integers(len(names))]} {a}, {b} : {type_}"))

    def _other(self, pool: Pool, depth: int) -> None:
        """A product with constant weights, a convolution, or an op that moves elements."""
        kinds = [self._product, self._reverse, self._compared, self._updated, self._stored, self._row]
        if IMAGE in self.types:
            kinds.append(self._convolution)
        kinds[self.random.integers(len(kinds))](pool)

    def _product(self, pool: Pool) -> None:
        w = self.op("stablehlo.constant dense<0.125> : tensor<8x8xf32>")
        x = self.pick(pool, FLOATS)
        text = f"stablehlo.dot_general {x}, {w}, contracting_dims = [1] x [0] : ({FLOATS}, tensor<8x8xf32>) -> {FLOATS}"
        pool[FLOATS].append(self.op(text))

    def _convolution(self, pool: Pool) -> None:
        w = self.op("stablehlo.constant dense<0.0625> : tensor<3x3x3x3xf32>")
        numbers = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"
        counts = "batch_group_count = 1 : i64, feature_group_count = 1 : i64"
        window = "window = {pad = [[1, 1], [1, 1]]}"
        types = f"({IMAGE}, tensor<3x3x3x3xf32>) -> {IMAGE}"
        x = self.pick(pool, IMAGE)
        made = self.op(f"stablehlo.convolution({x}, {w}) dim_numbers = {numbers}, {window} {{{counts}}} : {types}")
        pool[IMAGE].append(made)

    def _reverse(self, pool: Pool) -> None:
        type_ = (FLOATS, BYTES, WORDS)[self.random.integers(3)]
        pool[type_].append(self.op(f"stablehlo.reverse {self.pick(pool, type_)}, dims = [0] : {type_}"))

    def _compared(self, pool: Pool) -> None:
        x = self.op(f"stablehlo.slice {self.pick(pool, BYTES)} [0:1, 3:9] : ({BYTES}) -> tensor<1x6xi8>")
        x = self.op(f"stablehlo.reshape {x} : (tensor<1x6xi8>) -> tensor<6xi8>")
        zero = self.op("stablehlo.constant dense<3> : tensor<6xi8>")
        made = self.op(f"stablehlo.compare LT, {x}, {zero} : (tensor<6xi8>, tensor<6xi8>) -> {BITS}")
        pool.setdefault(BITS, []).append(made)

    def _updated(self, pool: Pool) -> None:
        """A row of one value written into another, at a computed place."""
        x, row, at = self.pick(pool, FLOATS), self.pick(pool, FLOATS), self.pick(pool, COUNT)
        row = self.op(f"stablehlo.slice {row} [1:2, 2:6] : ({FLOATS}) -> tensor<1x4xf32>")
        types = f"({FLOATS}, tensor<1x4xf32>, {COUNT}, {COUNT}) -> {FLOATS}"
        pool[FLOATS].append(self.op(f"stablehlo.dynamic_update_slice {x}, {row}, {at}, {at} : {types}"))

    def _stored(self, pool: Pool) -> None:
        pool.setdefault(BYTES, []).append(self.op(f"quant.scast {self.pick(pool, QUANTIZED)} : {QUANTIZED} to {BYTES}"))

    def _row(self, pool: Pool) -> None:
        """The sum of a row, as a count."""
        zero = self.op("stablehlo.constant dense<0> : tensor<i32>")
        types = f"({WORDS}, tensor<i32>) -> {COUNT}"
        x = self.pick(pool, WORDS)
        made = self.op(f"stablehlo.reduce({x} init: {zero}) applies stablehlo.add across dimensions = [0] : {types}")
        pool.setdefault(COUNT, []).append(made)

    def _types(self) -> list[str]:
        return [self.types[n] for n in self.random.integers(len(self.types), size=self.random.integers(1, 5))]

    def _returned(self, pool: Pool, types: list[str]) -> str:
        values = [self.pick(pool, type_) for type_ in types]
        return f"stablehlo.return {', '.join(values)} : {', '.join(types)}"

    def _while(self, pool: Pool, depth: int) -> None:
        """A loop that ends after some trips, or none. What it carries may change places."""
        types = [*self._types(), COUNT]
        initial = [self.pick(pool, type_) for type_ in types[:-1]]
        initial.append(self.op("stablehlo.constant dense<0> : tensor<i32>"))
        limit = self.op(f"stablehlo.constant dense<{self.random.integers(0, 5)}> : tensor<i32>")
        made, names = self.name(), [self.name() for _ in types]
        pairs = ", ".join(f"{name} = {value}" for name, value in zip(names, initial, strict=True))
        self.lines.append(f"{made}:{len(types)} = stablehlo.while({pairs}) : {', '.join(types)} cond {{")
        again = self.op(f"stablehlo.compare LT, {names[-1]}, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        self.lines.append(f"stablehlo.return {again} : tensor<i1> }} do {{")
        inner: Pool = {type_: list(values) for type_, values in pool.items()}
        for name, type_ in zip(names, types, strict=True):
            inner.setdefault(type_, []).append(name)
        self.block(inner, int(self.random.integers(1, 5)), depth - 1)
        returned = [self.pick(inner, type_) for type_ in types[:-1]]
        one = self.op("stablehlo.constant dense<1> : tensor<i32>")
        returned.append(self.op(f"stablehlo.add {names[-1]}, {one} : tensor<i32>"))
        self.lines.append(f"stablehlo.return {', '.join(returned)} : {', '.join(types)} }}")
        for number, type_ in enumerate(types):
            pool.setdefault(type_, []).append(f"{made}#{number}")

    def _case(self, pool: Pool, depth: int) -> None:
        """An `if`, or a `case` whose index may be out of range."""
        types, branches = self._types(), int(self.random.integers(1, 4))
        for type_ in types:
            self.pick(pool, type_)
        if branches == 2:
            row = self.op(f"stablehlo.slice {self.pick(pool, BITS)} [2:3] : ({BITS}) -> tensor<1xi1>")
            selector, name, of = self.op(f"stablehlo.reshape {row} : (tensor<1xi1>) -> tensor<i1>"), "if", "tensor<i1>"
        else:
            selector, name, of = self.pick(pool, COUNT), "case", COUNT
        made = self.name()
        self.lines.append(f'{made}:{len(types)} = "stablehlo.{name}"({selector}) ({{')
        for branch in range(branches):
            inner: Pool = {type_: list(values) for type_, values in pool.items()}
            self.block(inner, int(self.random.integers(0, 4)), depth - 1)
            self.lines.append(self._returned(inner, types))
            self.lines.append("}, {" if branch < branches - 1 else f"}}) : ({of}) -> ({', '.join(types)})")
        for number, type_ in enumerate(types):
            pool.setdefault(type_, []).append(f"{made}#{number}" if len(types) > 1 else f"{made}#0")


def controlled_program(seed: int) -> Program:
    """A random program of one loop or branch or more."""
    writer = Writer(seed, images=bool(seed % 2))
    given = [type_ for type_ in writer.types if type_ != QUANTIZED]
    pool: Pool = {type_: [f"%x{n}"] for n, type_ in enumerate(given)}
    writer.block(pool, 3, 2)
    writer._while(pool, 2)  # pyright: ignore[reportPrivateUsage] (every program has a loop)
    writer.block(pool, 3, 1)
    returned = [(writer.pick(pool, type_), type_) for type_ in given]
    arguments = ", ".join(f"%x{n}: {type_}" for n, type_ in enumerate(given))
    body, types = "\n".join(writer.lines), ", ".join(given)
    end = f"func.return {', '.join(value for value, _ in returned)} : {types}"
    program = parse_program(f"func.func @main({arguments}) -> ({types}) {{\n{body}\n{end}\n}}")
    verify(program.module)
    return program
