"""Small programs, inputs for them, and numbers of all magnitudes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codegen.exactness import assert_same_bits, compiled
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program, split_input
from zeropoint.ir.verification import verify


def main(arguments: str, result: str, *lines: str) -> Program:
    """`@main` of these arguments, whose last value is %y."""
    body = "\n".join(lines)
    program = parse_program(
        f"module {{ func.func @main({arguments}) -> {result} {{\n{body}\nfunc.return %y : {result}\n}} }}"
    )
    verify(program.module)
    return program


def inputs_for(program: Program, seed: int = 0, scale: float = 2.0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for port in program.inputs:
        shape, dtype = shape_of(port.type), element_dtype(element_of(port.type))
        if dtype.kind == "f":
            values[port.name] = random.normal(0, scale, shape).astype(dtype)
        elif dtype.kind == "b":
            values[port.name] = random.random(shape) < 0.5
        else:
            info = np.iinfo(dtype)
            values[port.name] = random.integers(info.min, info.max, shape, dtype, endpoint=True)
    return values


TEXTS = split_input((Path(__file__).parent / "loops.mlir").read_text(), True)
INTEGERS = {text.strip().splitlines()[0].removeprefix("// "): parse_program(text) for text in TEXTS}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.7,
     -87.3, -103.9, -104.0, 89.0, 1e-8, -1e-8, 0.99999994, 1.0000001, 17.3, -17.3, 3.9, -3.9]
)  # fmt: skip


def reals(dtype: type[np.floating]) -> Array:
    """Numbers of all magnitudes, those near 1, and the special ones."""
    random = np.random.default_rng(0)
    magnitudes = np.exp(random.uniform(-100, 88, 3000)) * random.choice([-1, 1], 3000)
    return np.concatenate([SPECIAL, magnitudes, random.uniform(-10, 10, 4000), random.uniform(0.9, 1.1, 500)]).astype(
        dtype
    )


def check_ulp(program: Program, inputs: dict[str, Array], most: int) -> None:
    (expected,), (found,) = Interpreter(program)(inputs).values(), compiled(program)(inputs).values()
    if not most:
        assert_same_bits(found, expected)
        return
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(expected)
    word = np.int32 if expected.dtype == np.float32 else np.int64
    # The distance in steps of the format: floats of one sign are in the order of their bits.
    one, other = (np.where(a < 0, -np.abs(a).view(word), np.abs(a).view(word)) for a in (found, expected))
    distance = np.abs(one.astype(object)[known] - other.astype(object)[known])
    assert distance.max() <= most, f"{distance.max()} ulp at {next(iter(inputs.values()))[known][distance.argmax()]}"
