"""Integer functions of rows against the float kernels of the same functions, in turns, one thread.

    python bench/functions.py [--rounds N]

Functions of one value are of `fxpmath` (tables), 8 and 16 bits. GELU, a quotient, softmax and layer norm are what
`cpu-integer` makes.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

import zeropoint
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.tensors import element_dtype
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program

ROWS, SIZE = 2048, 384
WHOLE, NUMBER = f"tensor<{ROWS}x{SIZE}xf32>", f"tensor<{ROWS}xf32>"
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


SOFTMAX = (
    _over_row("%x", "maximum", "0xFF800000", "m") + _op("d", "subtract", "%x", "%m") + _op("e", "exponential", "%d")
    + _over_row("%e", "add", "0.0", "s") + _op("r", "divide", "%e", "%s")
)  # fmt: skip
LAYER_NORM = (
    _over_row("%x", "add", "0.0", "s") + _splat("n", SIZE) + _op("mu", "divide", "%s", "%n")
    + _op("d", "subtract", "%x", "%mu") + _op("q", "multiply", "%d", "%d") + _over_row("%q", "add", "0.0", "v")
    + _op("va", "divide", "%v", "%n") + _splat("eps", 1e-5) + _op("ve", "add", "%va", "%eps")
    + _op("rs", "rsqrt", "%ve") + _op("r", "multiply", "%d", "%rs")
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


def _floats(body: str) -> str:
    return f"func.func @main(%x: {WHOLE}) -> {WHOLE} {{\n{body}\nreturn %r : {WHOLE}\n}}"


def _lowered(name: str, bits: int) -> NativeProgram:
    """A function of `fxpmath` on rows of integers."""
    kind = f"tensor<{ROWS}x{SIZE}x!quant.uniform<i{bits}:f32, {2.0 ** (4 - bits)}:{-128 if bits == 8 else 0}>>"
    op = f'%r = "fxpmath.real_unary_ew"(%x) <{{fn = "{name}"}}> : ({kind}) -> {kind}'
    body = f"func.func @main(%x: {kind}) -> {kind} {{\n{op}\nreturn %r : {kind}\n}}"
    program = parse_program(f'module attributes {{zeropoint.profile="fixed16"}} {{ {body} }}')
    return NativeProgram(integer_program(program))


def _pairs(x: np.ndarray) -> Iterator[tuple[str, NativeProgram, NativeProgram]]:
    for name, body in FUNCTIONS.items():
        floats = NativeProgram(zeropoint.load(_floats(body)).program)
        for bits in (8, 16):
            yield f"{name.lower()}, {bits} bits", floats, _lowered(name, bits)
    for name, body in MADE.items():
        made = NativeProgram(zeropoint.quantize(_floats(body), {"x": [x]}, target="cpu-integer", io="integer").program)
        types = " to ".join(str(element_dtype(port.type.element_type)) for port in (made.inputs[0], made.outputs[0]))
        yield f"{name}, {types}", NativeProgram(zeropoint.load(_floats(body)).program), made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    drawn = Table(title=f"{ROWS} rows of {SIZE}, us, least of {options.rounds} turns")
    for column in ("function", "float", "integer", "ratio"):
        drawn.add_column(column, justify="left" if column == "function" else "right")
    x = np.random.default_rng(0).normal(size=(ROWS, SIZE)).clip(-4, 4).astype(np.float32)
    for name, floats, integers in _pairs(x):
        dtype = element_dtype(integers.inputs[0].type.element_type)
        runs = (floats, x), (integers, np.rint(x * (np.iinfo(dtype).max // 4)).astype(dtype))
        least = [float("inf")] * 2
        for _ in range(options.rounds):
            for n, (program, array) in enumerate(runs):
                start = time.perf_counter()
                program({program.inputs[0].name: array})
                least[n] = min(least[n], time.perf_counter() - start)
        drawn.add_row(name, f"{1e6 * least[0]:.0f}", f"{1e6 * least[1]:.0f}", f"{least[1] / least[0]:.2f}")
    Console(width=120).print(drawn)


if __name__ == "__main__":
    main()
