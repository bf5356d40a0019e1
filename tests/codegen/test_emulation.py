"""Functions that stand for other processors' instructions compute what those are specified to compute."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from codegen import contractions
from codegen.emulation import EVERYWHERE, STEPS, dot_name, emulated, emulated_name
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, compile_object, host
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.types import bytes_of, element
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.ir.tensors import Array

DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32}


def forms() -> list[InstructionSet]:
    """Every row of every width."""
    found: list[InstructionSet] = []
    for row in INSTRUCTION_SETS.values():
        form: InstructionSet | None = row
        while form is not None:
            found.append(form)
            form = form.narrower
    return found


def called(name: str, result: str, *arguments: tuple[str, Array]) -> Array:
    """What the function gives, as an array of the elements of its type."""
    module = Module()
    f = module.function("run", [*(("ptr", f"p{n}") for n in range(len(arguments))), ("ptr", "out")])
    *pointers, out = f.arguments
    values = [f.load(type_, pointer) for (type_, _), pointer in zip(arguments, pointers, strict=True)]
    f.store(f.call(result, name, *values), out)
    f.ret()
    code = Loaded([compile_object(str(module), host())], host())
    found = np.zeros(bytes_of(result) // np.dtype(DTYPES[element(result)]).itemsize, DTYPES[element(result)])
    held = [np.ascontiguousarray(array, DTYPES[element(type_)]) for type_, array in arguments]
    places = [array.ctypes.data for array in (*held, found)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(places))(code.address("run"))(*places)
    return found


def packed(low: Array, high: Array, bounds: tuple[int, int], dtype: type) -> Array:
    """Lanes of 128 bits: the lower vector's elements of each, then the higher one's, saturated."""
    lanes = low.nbytes // 16
    joined = np.concatenate([low.reshape(lanes, -1), high.reshape(lanes, -1)], axis=1)
    return np.clip(joined, *bounds).astype(np.int64).astype(dtype).reshape(-1)


def looked_up(entries: Array, index: Array) -> Array:
    """PSHUFB: by the low four bits inside of lanes, 0 where the highest bit is set."""
    by_lane, places = entries.reshape(-1, 16), index.reshape(-1, 16)
    found = np.take_along_axis(by_lane, (places & 15).astype(np.int64), axis=1)
    return np.where(places < 0, 0, found).reshape(-1)


def multiplied_high(a: Array, b: Array) -> Array:
    """PMULHRSW; SQRDMULH but for two times -2^15, which it saturates."""
    return ((a.astype(np.int64) * b + (1 << 14)) >> 15).astype(np.int16)


def multiplied_and_added(a: Array, b: Array) -> Array:
    """PMADDWD."""
    return (a.astype(np.int64) * b).reshape(-1, 2).sum(1).astype(np.int32)


def shifted(a: Array, b: Array) -> Array:
    """VPSLLVD: 0 for amounts beyond 31, which have no sign."""
    return np.where((b < 0) | (b > 31), 0, a.astype(np.int64) << np.clip(b, 0, 31)).astype(np.int32)


def doubled_high(a: Array, b: Array) -> Array:
    """SQRDMULH, which saturates two times -2^31."""
    return np.minimum((a.astype(np.int64) * b + (1 << 30)) >> 31, (1 << 31) - 1).astype(np.int32)


def rounded_shift(a: Array, b: Array) -> Array:
    """SRSHL, whose amount is the lowest byte. From 32 on to the left, and 33 to the right, nothing is left."""
    by = b.astype(np.int8).astype(np.int64)
    right = np.clip(-by, 0, 33)
    moved = np.where(by > 31, 0, a.astype(np.int64) << np.clip(by, 0, 31))
    return ((moved + ((1 << right) >> 1)) >> right).astype(np.int32)


MODELS: dict[str, tuple[str, str, Callable[[InstructionSet, Array, Array], Array]]] = {
    "pack_shorts": ("i32", "i16", lambda row, a, b: packed(a, b, (-(1 << 15), (1 << 15) - 1), np.int16)),
    "pack_bytes": ("i16", "i8", lambda row, a, b: packed(a, b, (0, 255) if row.unsigned else (-128, 127), np.int8)),
    "multiply_high": ("i16", "i16", lambda row, a, b: multiplied_high(a, b)),
    "multiply_add": ("i16", "i32", lambda row, a, b: multiplied_and_added(a, b)),
    "look_up": ("i8", "i8", lambda row, a, b: looked_up(a, b)),
    "shift_left": ("i32", "i32", lambda row, a, b: shifted(a, b)),
    "doubling_high": ("i32", "i32", lambda row, a, b: doubled_high(a, b)),
    "rounding_shift": ("i32", "i32", lambda row, a, b: rounded_shift(a, b)),
}


@pytest.mark.parametrize("row", forms(), ids=lambda row: f"{row.name} {row.width}")
def test_functions_are_what_instructions_compute(row: InstructionSet) -> None:
    random = np.random.default_rng(row.width)
    activations, weights = (random.integers(-128, 128, row.bytes).astype(np.int8) for _ in range(2))
    start = random.integers(-(1 << 31), 1 << 31, row.width).astype(np.int32)
    bytes_ = activations.view(np.uint8) if row.unsigned else activations
    pairs = (bytes_.astype(np.int64) * weights).reshape(-1, 2).sum(1)
    if row.name == "avx2":  # VPMADDUBSW
        pairs = np.clip(pairs, -(1 << 15), (1 << 15) - 1)
    total = start + pairs.reshape(-1, 2).sum(1)
    given = ((row.i32, start), (row.i8, activations), (row.i8, weights))
    np.testing.assert_array_equal(called(dot_name(row), row.i32, *given), total.astype(np.int32))
    for step in STEPS:
        intrinsic = getattr(row, step)
        if intrinsic is None:
            continue
        source, result, model = MODELS[step]
        bits = 8 * np.dtype(DTYPES[source]).itemsize
        # Of every size, so that some saturate and some do not.
        a, b = (
            (random.integers(-(1 << bits - 1), 1 << bits - 1, 8 * row.bytes // bits) >> random.integers(0, bits))
            .astype(DTYPES[source]) for _ in range(2)
        )  # fmt: skip
        found = called(emulated_name(intrinsic), getattr(row, result), *((getattr(row, source), x) for x in (a, b)))
        np.testing.assert_array_equal(found, model(row, a, b), err_msg=intrinsic)


def test_kernels_of_an_emulated_row_call_functions_of_every_width_and_no_intrinsics() -> None:
    row = emulated(INSTRUCTION_SETS["avx512-vnni"])
    graph = steps_of(contractions.depthwise(112, (3, 1), 3).program, row)
    text = "".join(kernels_of(graph).texts.values())
    assert "llvm.x86" not in text.replace(emulated_name("llvm.x86"), "")
    form: InstructionSet | None = INSTRUCTION_SETS["avx512-vnni"]
    while form is not None:
        assert dot_name(form) in text
        form = form.narrower


def test_every_instruction_set_runs_here() -> None:
    assert list(EVERYWHERE) == list(INSTRUCTION_SETS)
    for name, row in EVERYWHERE.items():
        theirs = INSTRUCTION_SETS[name]
        assert (row.width, row.registers, row.unsigned) == (theirs.width, theirs.registers, theirs.unsigned)
