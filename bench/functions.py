"""Integer functions of rows against the float kernels of the same functions, in turns, one thread.

    python bench/functions.py [--rows 2048] [--rounds 100]

Functions of one value are of `fxpmath` (tables), 8 and 16 bits. GELU, a quotient, softmax and layer norm are what
`cpu-integer` makes, resizing what `cpu` (8 bits) and `cpu-integer` (16 bits) make. `float` reads and writes f32;
`between` is the float kernel between integers of the same widths, as in a network whose other kernels are integer.
2048 rows are read from memory or L3, 128 rows stay in L2.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import zeropoint
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.profiling import profile
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program

SIZE = 384
WHOLE, NUMBER, CHANNELS = f"tensor<ROWSx{SIZE}xf32>", "tensor<ROWSxf32>", f"tensor<{SIZE}xf32>"
FUNCTIONS = {
    "EXP": f"%r = stablehlo.exponential %x : {WHOLE}",
    "LOG": f"%r = stablehlo.log %x : {WHOLE}",
    "RSQRT": f"%r = stablehlo.rsqrt %x : {WHOLE}",
    "TANH": f"%r = stablehlo.tanh %x : {WHOLE}",
    "SIGMOID": f"%r = stablehlo.logistic %x : {WHOLE}",
}
"""Functions of `fxpmath.real_unary_ew`, and the same in f32."""


def _over_row(x: str, op: str, start: str, y: str) -> str:
    """Lines that reduce rows to %y, repeated along them."""
    return (
        f"%{y}i = stablehlo.constant dense<{start}> : tensor<f32>\n"
        f"%{y}n = stablehlo.reduce({x} init: %{y}i) applies stablehlo.{op} across dimensions = [1] "
        f": ({WHOLE}, tensor<f32>) -> {NUMBER}\n"
        f"%{y} = stablehlo.broadcast_in_dim %{y}n, dims = [0] : ({NUMBER}) -> {WHOLE}\n"
    )


def _op(y: str, op: str, *x: str) -> str:
    return f"%{y} = stablehlo.{op} {', '.join(x)} : {WHOLE}\n"


def _splat(y: str, number: float) -> str:
    return f"%{y} = stablehlo.constant dense<{number:e}> : {WHOLE}\n"


def _channels(y: str, low: float, high: float) -> str:
    """Lines with a number for each element of a row, repeated in every row."""
    numbers = ", ".join(f"{number:e}" for number in np.linspace(low, high, SIZE))
    return (
        f"%{y}c = stablehlo.constant dense<[{numbers}]> : {CHANNELS}\n"
        f"%{y} = stablehlo.broadcast_in_dim %{y}c, dims = [1] : ({CHANNELS}) -> {WHOLE}\n"
    )


SOFTMAX = (
    _over_row("%x", "maximum", "0xFF800000", "m") + _op("d", "subtract", "%x", "%m") + _op("e", "exponential", "%d")
    + _over_row("%e", "add", "0.0", "s") + _op("r", "divide", "%e", "%s")
)  # fmt: skip
LAYER_NORM = (
    _over_row("%x", "add", "0.0", "s") + _splat("n", SIZE) + _op("mu", "divide", "%s", "%n")
    + _op("d", "subtract", "%x", "%mu") + _op("q", "multiply", "%d", "%d") + _over_row("%q", "add", "0.0", "v")
    + _op("va", "divide", "%v", "%n") + _splat("eps", 1e-5) + _op("ve", "add", "%va", "%eps")
    + _op("rs", "rsqrt", "%ve") + _op("t", "multiply", "%d", "%rs")
    + _channels("g", 0.5, 1.5) + _op("u", "multiply", "%t", "%g")
    + _channels("b", -0.5, 0.5) + _op("r", "add", "%u", "%b")
)  # fmt: skip

GELU = (
    _splat("h", 0.7071067811865476) + _op("a", "multiply", "%x", "%h")
    + f"%e = chlo.erf %a : {WHOLE} -> {WHOLE}\n" + _splat("one", 1) + _op("b", "add", "%e", "%one")
    + _splat("half", 0.5) + _op("c", "multiply", "%x", "%half") + _op("r", "multiply", "%c", "%b")
)  # fmt: skip
RECIPROCAL = (
    _op("q", "multiply", "%x", "%x")
    + _splat("one", 1)
    + _op("p", "add", "%q", "%one")
    + _op("r", "divide", "%one", "%p")
)
"""1 / (x^2 + 1), a function without a pole."""
MADE = {"GELU": GELU, "1 / (x^2 + 1)": RECIPROCAL, "softmax": SOFTMAX, "layer norm": LAYER_NORM}


RESIZES = "linear", "cubic", "nearest"
"""Modes of ONNX's Resize, from 48x48 to 96x96 pixels of 64 channels."""
TOGETHER = 5
"""Runs in a turn."""


def _floats(body: str, rows: int) -> str:
    text = f"func.func @main(%x: {WHOLE}) -> {WHOLE} {{\n{body}\nreturn %r : {WHOLE}\n}}"
    return text.replace("ROWS", str(rows))


def _quantized(bits: int) -> str:
    return f"tensor<ROWSx{SIZE}x!quant.uniform<i{bits}:f32, {2.0 ** (4 - bits)}:{-128 if bits == 8 else 0}>>"


def _native(arguments: str, result: str, body: str, rows: int) -> NativeProgram:
    """A quantized program as integers."""
    text = f"func.func @main(%x: {arguments}) -> {result} {{\n{body}\nreturn %y : {result}\n}}"
    program = parse_program(
        f'module attributes {{zeropoint.profile="fixed16"}} {{ {text} }}'.replace("ROWS", str(rows))
    )
    return NativeProgram(integer_program(program))


def _lowered(name: str, bits: int, rows: int) -> NativeProgram:
    """A function of `fxpmath` on rows of integers."""
    kind = _quantized(bits)
    op = f'%y = "fxpmath.real_unary_ew"(%x) <{{fn = "{name}"}}> : ({kind}) -> {kind}'
    return _native(kind, kind, op, rows)


def _between(body: str, given: int, made: int, rows: int) -> NativeProgram:
    """A float function between integers of some widths."""
    before, after = _quantized(given), _quantized(made)
    lines = (
        f"%real = stablehlo.uniform_dequantize %x : ({before}) -> {WHOLE}",
        body.replace("%x", "%real"),
        f"%y = stablehlo.uniform_quantize %r : ({WHOLE}) -> {after}",
    )
    return _native(before, after, "\n".join(lines), rows)


def _width(port: Port) -> int:
    return 8 * element_dtype(port.type.element_type).itemsize


Trial = tuple[str, Array, NativeProgram, NativeProgram | None, NativeProgram]
"""A name, the float input, and the three programs."""


def _row_trials(rows: int) -> Iterator[Trial]:
    x = np.random.default_rng(0).normal(size=(rows, SIZE)).clip(-4, 4).astype(np.float32)
    for name, body in FUNCTIONS.items():
        floats = NativeProgram(zeropoint.load(_floats(body, rows)).program)
        for bits in (8, 16):
            yield f"{name.lower()}, i{bits}", x, floats, None, _lowered(name, bits, rows)
    for name, body in MADE.items():
        text = _floats(body, rows)
        made = NativeProgram(zeropoint.quantize(text, {"x": [x]}, target="cpu-integer", io="integer").program)
        given, result = _width(made.inputs[0]), _width(made.outputs[0])
        floats = NativeProgram(zeropoint.load(text).program)
        # Elsewhere, a float function between integers is a table, too.
        between = _between(body, given, result, rows) if name in ("softmax", "layer norm") else None
        yield f"{name}, i{given} to i{result}", x, floats, between, made


def _resize(mode: str, shape: tuple[int, ...], size: tuple[int, ...]) -> ModelProto:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    sizes = numpy_helper.from_array(np.array([*shape[:2], *size]), "sizes")
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    graph = helper.make_graph([node], "resize", [given], [made], [sizes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _resize_trials() -> Iterator[Trial]:
    shape, size = (1, 64, 48, 48), (96, 96)
    for mode in RESIZES:
        x = np.random.default_rng(0).normal(size=shape).clip(-4, 4).astype(np.float32)
        model = _resize(mode, shape, size)
        floats = NativeProgram(zeropoint.load(model).program)
        for target in ("cpu", "cpu-integer"):
            made = NativeProgram(zeropoint.quantize(model, {"x": [x]}, target=target, io="integer").program)
            given, result = _width(made.inputs[0]), _width(made.outputs[0])
            yield f"resize, {mode}, i{given} to i{result}", x, floats, None, made


def _least(programs: Sequence[NativeProgram | None], x: Array, rounds: int) -> list[float]:
    """The least seconds of the kernels of each, without the call from Python, in turns."""
    least = [float("inf")] * len(programs)
    for n, program in itertools.chain.from_iterable([list(enumerate(programs))] * rounds):
        if program is not None:
            (port,) = program.inputs
            dtype = element_dtype(port.type.element_type)
            array = x if dtype == np.float32 else np.rint(x * (np.iinfo(dtype).max // 4)).astype(dtype)
            least[n] = min(least[n], sum(step.seconds for step in profile(program, {port.name: array}, TOGETHER)))
    return least


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    drawn = Table(title=f"{options.rows} rows of {SIZE}, us, least of {options.rounds} turns")
    for column in ("function", "float", "between", "integer", "integer / float", "integer / between"):
        drawn.add_column(column, justify="left" if column == "function" else "right")
    for name, x, *programs in itertools.chain(_row_trials(options.rows), _resize_trials()):
        times = _least(programs, x, options.rounds)
        cells = [*(f"{1e6 * each:.1f}" for each in times), *(f"{times[2] / each:.2f}" for each in times[:2])]
        drawn.add_row(name, *(("" if n % 3 == 1 and programs[1] is None else cell) for n, cell in enumerate(cells)))
    Console(width=120).print(drawn)


if __name__ == "__main__":
    main()
