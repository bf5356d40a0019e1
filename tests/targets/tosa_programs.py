"""Kernels of a table as TOSA's integer operators: a product and a RESCALE, a TABLE, operators that move data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zeropoint.check_target.models import Built, Port
from zeropoint.numerics.affine import dequantize, quantize
from zeropoint.numerics.elementwise import TosaAdd
from zeropoint.numerics.profile import profile
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier

PROFILE = profile("tosa-double")
UNIT = Multiplier.of(1.0, PROFILE.requantize(16), 16)


@dataclass(frozen=True)
class Value:
    """A value of the program: its name, shape and element type."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"


class Function:
    """@main under construction."""

    def __init__(self, *inputs: tuple[int, ...]):
        self.arguments = [Value(f"%x{i}", shape, "i8") for i, shape in enumerate(inputs)]
        self.lines: list[str] = []

    def _name(self) -> str:
        return f"%v{len(self.lines)}"

    def constant(self, array: Any, element: str) -> Value:
        array = np.asarray(array)
        value = Value(self._name(), array.shape, element)
        self.lines.append(
            f'{value.name} = "tosa.const"() {{values = dense<{array.tolist()}> : {value.type}}} : () -> {value.type}'
        )
        return value

    def sizes(self, *numbers: int) -> tuple[str, str]:
        """A constant shape: its name and type."""
        name, kind = self._name(), f"!tosa.shape<{len(numbers)}>"
        dense = f"dense<{list(numbers)}> : tensor<{len(numbers)}xindex>"
        self.lines.append(f"{name} = tosa.const_shape {{values = {dense}}} : () -> {kind}")
        return name, kind

    def insert(
        self,
        op: str,
        operands: Sequence[Value | tuple[str, str]],
        shape: Sequence[int],
        element: str,
        attributes: str = "",
    ) -> Value:
        """An op with one result."""
        pairs = [(operand.name, operand.type) if isinstance(operand, Value) else operand for operand in operands]
        value = Value(self._name(), tuple(shape), element)
        names, types = (", ".join(part) for part in zip(*pairs, strict=True))
        body = f" {{{attributes}}}" if attributes else ""
        self.lines.append(f"{value.name} = tosa.{op} {names}{body} : ({types}) -> {value.type}")
        return value

    def rescale(self, value: Value, multiplier: Multiplier, zero: int, result_zero: int, element: str) -> Value:
        """`value` times the multiplier, DOUBLE_ROUND, from one zero point to another."""
        assert multiplier.shift is not None
        numbers = np.atleast_1d(multiplier.multiplier), np.atleast_1d(multiplier.shift)
        operands = [value, self.constant(numbers[0], "i32"), self.constant(numbers[1], "i8")]
        operands += [self.constant([zero], value.element), self.constant([result_zero], element)]
        channels = str(multiplier.multiplier.ndim > 0).lower()
        attributes = (
            f"input_unsigned = false, output_unsigned = false, per_channel = {channels}, "
            "rounding_mode = DOUBLE_ROUND, scale32 = true"
        )
        return self.insert("rescale", operands, value.shape, element, attributes)

    def transposed(self, value: Value, order: Sequence[int]) -> Value:
        perms = f"perms = array<i32: {', '.join(map(str, order))}>"
        return self.insert("transpose", [value], [value.shape[d] for d in order], value.element, perms)

    def reshaped(self, value: Value, *shape: int) -> Value:
        return self.insert("reshape", [value, self.sizes(*shape)], shape, value.element)

    def text(self, result: Value) -> str:
        given = ", ".join(f"{value.name}: {value.type}" for value in self.arguments)
        body = "\n  ".join([*self.lines, f"return {result.name} : {result.type}"])
        return f"func.func @main({given}) -> {result.type} {{\n  {body}\n}}\n"


Program = Callable[[Function, Built], Value]
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def ports(made: Built) -> list[Port]:
    return [operand for operand in made.operands if isinstance(operand, Port)]


def _multiplier(real: Any) -> Multiplier:
    return PROFILE.multiplier(real, 8)


def _contraction(f: Function, made: Built, product: str, weight: np.ndarray, shape: Sequence[int], more: str) -> Value:
    """A product with a bias, and its rescale."""
    x, w, b = ports(made)
    y = made.results[0]
    assert b.value is not None
    operands = [f.arguments[0], f.constant(weight, "i8"), f.constant(b.value, "i32")]
    operands += [f.constant([x.zero_point], "i8"), f.constant([w.zero_point], "i8")]
    total = f.insert(product, operands, shape, "i32", f"acc_type = i32, {more}")
    return f.rescale(total, _multiplier(x.scale * np.asarray(w.scale) / y.scale), 0, y.zero_point, "i8")


def _window(pad: str = "0, 0, 0, 0", strides: str = "1, 1", kernel: str = "") -> str:
    shape = f", kernel = array<i64: {kernel}>" if kernel else ", dilation = array<i64: 1, 1>"
    return f"pad = array<i64: {pad}>, stride = array<i64: {strides}>{shape}"


def convolution(f: Function, made: Built) -> Value:
    n, h, w, _ = f.arguments[0].shape
    weight = ports(made)[1].value
    assert weight is not None
    return _contraction(f, made, "conv2d", weight.transpose(0, 2, 3, 1), (n, h - 2, w - 2, len(weight)), _window())


def depthwise(f: Function, made: Built) -> Value:
    n, h, w, c = f.arguments[0].shape
    weight = ports(made)[1].value
    assert weight is not None
    return _contraction(f, made, "depthwise_conv2d", weight.transpose(2, 3, 0, 1), (n, h - 2, w - 2, c), _window())


def transposed_convolution(f: Function, made: Built) -> Value:
    """Our case reads its kernel forwards over a spread input; TOSA scatters, which reads it backwards."""
    n, h, w, _ = f.arguments[0].shape
    weight = ports(made)[1].value
    assert weight is not None
    kernel = weight.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
    shape = (n, 2 * h + 1, 2 * w + 1, len(kernel))
    more = "out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>"
    return _contraction(f, made, "transpose_conv2d", kernel, shape, more)


def fully_connected(f: Function, made: Built) -> Value:
    """TOSA 1.0 has it as a convolution of one pixel."""
    rows, terms = f.arguments[0].shape
    weight = ports(made)[1].value
    assert weight is not None
    f.arguments[0] = Value("%x0", (rows, 1, 1, terms), "i8")
    count = weight.shape[1]
    return _contraction(f, made, "conv2d", weight.T.reshape(count, 1, 1, terms), (rows, 1, 1, count), _window())


def batch_matmul(f: Function, made: Built) -> Value:
    (a, b), y = ports(made), made.results[0]
    zeros = [f.constant([port.zero_point], "i8") for port in (a, b)]
    (n, rows, _), columns = f.arguments[0].shape, f.arguments[1].shape[2]
    total = f.insert("matmul", [*f.arguments, *zeros], (n, rows, columns), "i32")
    return f.rescale(total, _multiplier(a.scale * b.scale / y.scale), 0, y.zero_point, "i8")


def multiply(f: Function, made: Built) -> Value:
    (a, b), y = ports(made), made.results[0]
    both = [f.rescale(value, UNIT, port.zero_point, 0, "i32") for value, port in zip(f.arguments, (a, b), strict=True)]
    total = f.insert("mul", [*both, f.constant([0], "i8")], both[0].shape, "i32")
    return f.rescale(total, _multiplier(a.scale * b.scale / y.scale), 0, y.zero_point, "i8")


def sum_of_two(op: str) -> Program:
    def build(f: Function, made: Built) -> Value:
        y = made.results[0]
        given = [AffineParameters(port.scale, port.zero_point, -128, 127) for port in (*ports(made), y)]
        ours = TosaAdd.of(given[:2], given[2], (1, -1 if op == "sub" else 1))
        both = [
            f.rescale(value, m, port.zero_point, 0, "i32")
            for value, m, port in zip(f.arguments, ours.operand_multipliers, ports(made), strict=True)
        ]
        total = f.insert(op, both, both[0].shape, "i32")
        return f.rescale(total, ours.output_multiplier, 0, y.zero_point, "i8")

    return build


def table(function: Callable[[np.ndarray], np.ndarray]) -> Program:
    """A function of one value, looked up by the stored integer."""

    def build(f: Function, made: Built) -> Value:
        (x,), y = ports(made), made.results[0]
        reals = function(dequantize(np.arange(-128, 128), x.scale, x.zero_point)).astype(np.float32)
        entries = quantize(reals, y.scale, y.zero_point, -128, 127, behaviour=PROFILE.quantize)
        return f.insert("table", [f.arguments[0], f.constant(entries, "i8")], f.arguments[0].shape, "i8")

    return build


def total(divide: bool) -> Program:
    """A sum over the last two dimensions, or their mean."""

    def build(f: Function, made: Built) -> Value:
        (x,), y = ports(made), made.results[0]
        value = f.rescale(f.arguments[0], UNIT, x.zero_point, 0, "i32")
        n, c, h, w = value.shape
        for axis, shape in ((2, (n, c, 1, w)), (3, (n, c, 1, 1))):
            value = f.insert("reduce_sum", [value], shape, "i32", f"axis = {axis} : i32")
        real = x.scale / (y.scale * (h * w if divide else 1))
        return f.reshaped(f.rescale(value, _multiplier(real), 0, y.zero_point, "i8"), n, c)

    return build


def pool(op: str, height: int, width: int) -> Program:
    def build(f: Function, made: Built) -> Value:
        (x,), y = ports(made), made.results[0]
        value = f.transposed(f.arguments[0], NHWC)
        n, h, w, c = value.shape
        average = op == "avg_pool2d"
        zeros = [f.constant([port.zero_point], "i8") for port in (x, y)] if average else []
        more = ("acc_type = i32, " if average else "") + _window(kernel=f"{height}, {width}")
        shape = (n, h - height + 1, w - width + 1, c)
        return f.transposed(f.insert(op, [value, *zeros], shape, "i8", more), NCHW)

    return build


def moved(op: str, shape: Sequence[int], *sizes: Sequence[int], attributes: str = "") -> Program:
    """Data movement with constant shapes behind its operands."""

    def build(f: Function, made: Built) -> Value:
        operands: list[Value | tuple[str, str]] = [*f.arguments, *(f.sizes(*numbers) for numbers in sizes)]
        if op == "pad":
            operands.append(f.constant([ports(made)[0].zero_point], "i8"))
        return f.insert(op, operands, shape, "i8", attributes)

    return build


def gather(indices: np.ndarray) -> Program:
    def build(f: Function, made: Built) -> Value:
        n, _, c = f.arguments[0].shape
        operands = [f.arguments[0], f.constant(indices, "i32")]
        return f.insert("gather", operands, (n, indices.shape[1], c), "i8")

    return build
