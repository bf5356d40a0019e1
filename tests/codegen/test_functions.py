"""Functions of numbers in native code: every bit is the interpreter's."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from codegen.exactness import HERE, assert_native_is_exact
from codegen.loop_programs import SPECIAL, check_ulp, main, reals
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError, assembly
from zeropoint.codegen.llvm.roundings import rounding_functions
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.runtime.native import sources_of
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

TRIGONOMETRIC = [
    "stablehlo.cosine", "stablehlo.sine", "stablehlo.tan", "chlo.acos", "chlo.acosh", "chlo.asin", "chlo.asinh",
    "chlo.atan", "chlo.atanh", "chlo.cosh", "chlo.sinh",
]  # fmt: skip
OF_ONE = ["exponential", "log", "logistic", "tanh", "rsqrt", "cosine", "exponential_minus_one", "log_plus_one"]
ANGLES = np.concatenate(
    [
        np.arange(-40, 41) * (math.pi / 4),  # where sines and cosines are smallest
        np.ldexp(1.0, np.arange(-60, 1000, 7)),
        # The f64 that is nearest to a multiple of pi / 2, of those above 1; and the greatest f64.
        [6381956970095103 * 2.0**797, 1.7976931348623157e308, 2.0**1023, 710.4, -710.4, 744.0, 1.0 - 2.0**-53],
    ]
)


@pytest.mark.parametrize(("dtype", "type_"), [(np.float32, "f32"), (np.float64, "f64")])
@pytest.mark.parametrize("name", TRIGONOMETRIC)
def test_trigonometric_functions_are_the_interpreters(name: str, dtype: type[np.floating], type_: str) -> None:
    with np.errstate(over="ignore"):
        x = np.concatenate([ANGLES.astype(dtype), reals(dtype), np.random.default_rng(1).uniform(-1, 1, 500)])
    x = x.astype(dtype)
    tensor = f"tensor<{x.size}x{type_}>"
    types = f"{tensor} -> {tensor}" if name.startswith("chlo") else tensor
    check_ulp(main(f"%x: {tensor}", tensor, f"%y = {name} %x : {types}"), {"arg0": x}, 0)


@pytest.mark.parametrize("isa", EVERYWHERE.values(), ids=lambda row: row.name)
def test_functions_are_the_same_bits_on_every_instruction_set(isa: InstructionSet) -> None:
    x = np.concatenate([reals(np.float32)[::7], ANGLES[:81].astype(np.float32), np.float32([0, -0.0, np.nan, np.inf])])
    tensor = f"tensor<{x.size}xf32>"
    lines = [f"%v{n} = stablehlo.{name} %x : {tensor}" for n, name in enumerate(OF_ONE)]
    lines += [f"%e = chlo.erf %x : {tensor} -> {tensor}", f"%p = stablehlo.power %v0, %x : {tensor}"]
    values = [f"%v{n}" for n in range(len(OF_ONE))] + ["%e", "%p"]
    program = parse_program(
        f"func.func @main(%x: {tensor}) -> ({', '.join([tensor] * len(values))}) {{\n" + "\n".join(lines)
        + f"\nfunc.return {', '.join(values)} : {', '.join([tensor] * len(values))} }}"
    )  # fmt: skip
    assert_native_is_exact(program, [{"arg0": x}], isa)


FLAGS = re.compile(r"\b(fast|contract|reassoc|nnan|ninf|nsz|arcp|afn)\b")
FUSED = re.compile(r"^\s+(vfn?m(add|sub)\w*|fn?m(add|sub)|fml[as])\s", re.MULTILINE)


@pytest.mark.parametrize("isa", INSTRUCTION_SETS.values(), ids=lambda row: row.name)
def test_no_multiplication_is_fused_with_an_addition(isa: InstructionSet) -> None:
    """A function, a sum of products and a scaled sum: LLVM rounds what is written, and as often."""
    whole, number = "tensor<6x40xf32>", "tensor<6xf32>"
    program = main(
        f"%x: {whole}", whole, "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%e = stablehlo.exponential %x : {whole}", f"%p = stablehlo.multiply %e, %x : {whole}",
        f"%s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [1] : "
        f"({whole}, tensor<f32>) -> {number}",
        f"%b = stablehlo.broadcast_in_dim %s, dims = [0] : ({number}) -> {whole}",
        f"%q = stablehlo.multiply %b, %e : {whole}", f"%y = stablehlo.add %q, %x : {whole}",
    )  # fmt: skip
    sources = kernels_of(steps_of(program, isa)).texts.values()
    assert sources
    for text in sources:
        assert not FLAGS.search(text)
        made = assembly(text, isa)
        assert re.search(r"^\s+v?f?mul", made, re.MULTILINE)
        assert not FUSED.search(made)


def pairs_of(values: Array) -> dict[str, Array]:
    """Every value with every other."""
    return dict(zip(("arg0", "arg1"), (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(values, values)),
                    strict=True))  # fmt: skip


def of_two(name: str, size: int, type_: str) -> str:
    return f"%y = {name} %x, %z : tensor<{size}x{type_}>"


@pytest.mark.parametrize(("dtype", "type_"), [(np.float32, "f32"), (np.float64, "f64")])
def test_atan2_is_the_interpreters(dtype: type[np.floating], type_: str) -> None:
    values = np.concatenate([SPECIAL.astype(dtype), reals(dtype)[::150]])
    inputs = pairs_of(values)
    size = len(inputs["arg0"])
    tensor = f"tensor<{size}x{type_}>"
    program = main(f"%x: {tensor}, %z: {tensor}", tensor, of_two("stablehlo.atan2", size, type_))
    check_ulp(program, inputs, 0)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(("dtype", "type_"), [(np.float32, "f32"), (np.float64, "f64")])
def test_the_remainder_of_floats_is_exact(isa: InstructionSet, dtype: type[np.floating], type_: str) -> None:
    random = np.random.default_rng(2)
    wide = np.exp(random.uniform(-80, 80, 60)) * random.choice([-1, 1], 60)
    ends = [np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny]
    inputs = pairs_of(np.concatenate([SPECIAL, wide, random.integers(-9, 9, 20), ends]).astype(dtype))
    size = len(inputs["arg0"])
    tensor = f"tensor<{size}x{type_}>"
    program = main(f"%x: {tensor}, %z: {tensor}", tensor, of_two("stablehlo.remainder", size, type_))
    assert_native_is_exact(program, [inputs], isa)


WIDTHS = [(signed, width) for signed in ("", "u") for width in (8, 16, 32, 64)]


@pytest.mark.parametrize(("signed", "width"), WIDTHS)
@pytest.mark.parametrize(
    "name", ["divide", "remainder", "power", "shift_left", "shift_right_logical", "shift_right_arithmetic"]
)
def test_integers_of_two_are_exact_at_their_ends(name: str, signed: str, width: int) -> None:
    dtype = np.dtype(f"{signed}int{width}")
    info = np.iinfo(dtype)
    random = np.random.default_rng(width).integers(info.min, info.max, 20, dtype, endpoint=True)
    small = np.arange(0 if signed else -9, 10).astype(dtype)
    ends = np.array([info.min, info.min + 1, info.max, info.max - 1, width - 1, width, width + 1], dtype)
    inputs = pairs_of(np.concatenate([small, ends, random]))
    size, type_ = len(inputs["arg0"]), f"{'ui' if signed else 'i'}{width}"
    tensor = f"tensor<{size}x{type_}>"
    program = main(f"%x: {tensor}, %z: {tensor}", tensor, of_two(f"stablehlo.{name}", size, type_))
    assert_native_is_exact(program, [inputs], HERE[0])


@pytest.mark.parametrize("isa", HERE[1:], ids=lambda row: row.name)
def test_integers_of_two_are_exact_on_every_instruction_set(isa: InstructionSet) -> None:
    tensor = "tensor<77xi32>"
    lines = [
        f"%{name} = stablehlo.{op} %x, %{other} : {tensor}"
        for name, op, other in (("a", "divide", "z"), ("b", "remainder", "z"), ("c", "power", "a"),
                                ("d", "shift_left", "b"), ("e", "shift_right_arithmetic", "d"))
    ]  # fmt: skip
    sums = [f"%f = stablehlo.add %c, %e : {tensor}", f"%y = stablehlo.xor %f, %b : {tensor}"]
    program = main(f"%x: {tensor}, %z: {tensor}", tensor, *lines, *sums)
    random = np.random.default_rng(0)
    samples = [
        {"arg0": random.integers(-most, most, 77).astype(np.int32), "arg1": random.integers(-9, 9, 77).astype(np.int32)}
        for most in (10, 1 << 31)
    ]
    assert_native_is_exact(program, samples, isa)


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
@pytest.mark.parametrize("isa", INSTRUCTION_SETS.values(), ids=lambda row: row.name)
def test_no_library_is_called(isa: InstructionSet, tmp_path: Path) -> None:
    """Neither for what machines have no instruction for: 128-bit products, remainders, f16."""
    tensor = "tensor<70xf32>"
    program = main(
        f"%x: {tensor}, %i: tensor<70xi64>", tensor,
        f"%a = stablehlo.sine %x : {tensor}", f"%b = stablehlo.remainder %a, %x : {tensor}",
        f"%c = stablehlo.power %b, %a : {tensor}", f"%d = stablehlo.atan2 %c, %b : {tensor}",
        "%j = stablehlo.divide %i, %i : tensor<70xi64>", "%k = stablehlo.power %j, %i : tensor<70xi64>",
        "%l = stablehlo.popcnt %k : tensor<70xi64>", f"%m = stablehlo.convert %l : (tensor<70xi64>) -> {tensor}",
        f"%e = stablehlo.add %d, %m : {tensor}", f"%h = stablehlo.convert %e : ({tensor}) -> tensor<70xf16>",
        "%n = stablehlo.tanh %h : tensor<70xf16>", f"%y = stablehlo.convert %n : (tensor<70xf16>) -> {tensor}",
    )  # fmt: skip
    found: set[str] = set()
    graph = steps_of(program, isa)
    for n, code in enumerate(objects_of(sources_of(graph, kernels_of(graph)), isa, cache=None).values()):
        file = tmp_path / f"{n}.o"
        file.write_bytes(code)
        listed = subprocess.run(["nm", "-u", file], capture_output=True, text=True)
        found |= {line.split()[-1] for line in listed.stdout.splitlines()}
    # Rounding to integers is in every library that needs it (`llvm/roundings.py`).
    outside = {name for name in found if not name.startswith(("kernel", "zeropoint_run"))}
    roundings = re.findall(r"define \w+ @(\w+)", rounding_functions())
    assert outside <= {"memset", "memcpy", "sched_yield", "syscall", *roundings}


@pytest.mark.parametrize(("signed", "width"), WIDTHS)
def test_counts_of_bits_are_exact(signed: str, width: int) -> None:
    dtype = np.dtype(f"{signed}int{width}")
    info = np.iinfo(dtype)
    x = np.concatenate([np.random.default_rng(0).integers(info.min, info.max, 90, dtype, endpoint=True),
                        np.array([0, 1, info.min, info.max], dtype)])  # fmt: skip
    tensor = f"tensor<{x.size}x{'ui' if signed else 'i'}{width}>"
    lines = [f"%{n} = stablehlo.{op} %x : {tensor}" for n, op in (("a", "popcnt"), ("b", "count_leading_zeros"))]
    program = main(f"%x: {tensor}", tensor, *lines, f"%y = stablehlo.subtract %a, %b : {tensor}")
    assert_native_is_exact(program, [{"arg0": x}], HERE[0])


@pytest.mark.parametrize(
    ("dtype", "source", "target"),
    [(np.float32, "f32", "i32"), (np.float32, "f32", "ui32"), (np.float64, "f64", "i64"), (np.int8, "i8", "ui8")],
)
def test_bits_are_kept_there_and_back(dtype: type[np.number], source: str, target: str) -> None:
    """Of floats, of zeros of both signs, of infinities and of the smallest numbers."""
    x = np.random.default_rng(0).integers(0, 256, 96, np.uint8).view(dtype)
    x = x[x == x]
    if issubclass(dtype, np.floating):
        x = np.concatenate([x, np.array([0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal], dtype)])
    given, bits = (f"tensor<{x.size}x{element}>" for element in (source, target))
    program = main(
        f"%x: {given}", bits,
        f"%a = stablehlo.bitcast_convert %x : ({given}) -> {bits}",
        f"%b = stablehlo.bitcast_convert %a : ({bits}) -> {given}",
        f"%c = stablehlo.maximum %b, %x : {given}",
        f"%d = stablehlo.bitcast_convert %c : ({given}) -> {bits}",
        f"%y = stablehlo.add %a, %d : {bits}",
    )  # fmt: skip
    assert_native_is_exact(program, [{"arg0": x}], HERE[0])


def test_bits_of_elements_of_other_widths_are_refused() -> None:
    program = main("%x: tensor<4xf32>", "tensor<4x4xi8>",
                   "%y = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4x4xi8>")  # fmt: skip
    with pytest.raises(CodegenError, match=r"found tensor<4xf32> to tensor<4x4xi8>; native code reinterprets integers"):
        steps_of(program, INSTRUCTION_SETS["portable"])
