"""Look-ups: every stored integer, in vectors and in what is left of a row."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact
from codegen.loop_programs import main
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.ir.text import parse_program


def hexadecimal(entries: np.ndarray) -> str:
    """The entries as MLIR writes large constants. Parsing decimal numbers took most of the time of these tests."""
    return f'"0x{entries.tobytes().hex()}"'


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("shape", [(3, 256), (5, 100), (1, 17)], ids=str)
def test_every_stored_integer_is_looked_up(isa: InstructionSet, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    entries = ", ".join(map(str, random.integers(-128, 128, 256)))
    type_ = f"tensor<{shape[0]}x{shape[1]}xi8>"
    program = main(
        f"%x: {type_}", type_,
        f"%t = stablehlo.constant dense<[{entries}]> : tensor<256xi8>",
        f"%n = stablehlo.negate %x : {type_}",
        f'%a = "fxpmath.table"(%n, %t) : ({type_}, tensor<256xi8>) -> {type_}',
        f'%b = "fxpmath.table"(%a, %t) : ({type_}, tensor<256xi8>) -> {type_}',
        f"%y = stablehlo.negate %b : {type_}",
    )  # fmt: skip
    texts = kernels_of(steps_of(program, isa)).texts.values()
    assert isa.look_up is None or any(isa.look_up in text for text in texts)
    x = np.resize(random.permutation(256) - 128, shape).astype(np.int8)
    assert_native_is_exact(program, [{"arg0": x}], isa, threads=(1, 3))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("shape", [(3, 256), (5, 100), (1, 17), (2, 3, 5, 7), (1,)], ids=str)
def test_look_ups_and_sums_of_the_callers_bytes_are_not_copied(isa: InstructionSet, shape: tuple[int, ...]) -> None:
    """One step each, which reads and writes the caller's arrays."""
    random, of = np.random.default_rng(5), f"tensor<{'x'.join(map(str, shape))}xi8>"
    entries = random.integers(-128, 128, 256).astype(np.int8)
    table = f"%t = stablehlo.constant dense<{hexadecimal(entries)}> : tensor<256xi8>"
    look_up = f'"fxpmath.table"(%x, %t) : ({of}, tensor<256xi8>) -> {of}'
    total = (
        f'"fxpmath.weighted_sum"(%x, %z) <{{multipliers = array<i64: 77, 51>, zero_points = array<i64: 3, -5>, '
        f"zero_point = 7, shift = 7, storage_min = -128, storage_max = 127}}> : ({of}, {of}) -> {of}"
    )
    inputs = [{"arg0": random.integers(-128, 128, shape).astype(np.int8)} for _ in range(2)]
    one = main(f"%x: {of}", of, table, f"%y = {look_up}")
    assert [step.name for step in steps_of(one, isa).steps] == ["fxpmath.table"]
    assert_native_is_exact(one, inputs, isa, threads=(1, 3))
    # The sum reads the caller's bytes and others, and writes the caller's.
    two = main(f"%x: {of}", of, table, f"%z = {look_up}", f"%y = {total}")
    assert [step.name for step in steps_of(two, isa).steps] == ["fxpmath.table", "fxpmath.weighted_sum"]
    assert_native_is_exact(two, inputs, isa, threads=(1, 3))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("shape", [(5, 13108), (1, 17)], ids=str)
def test_every_16_bit_integer_is_looked_up_in_a_table_of_bytes(isa: InstructionSet, shape: tuple[int, int]) -> None:
    random, of = np.random.default_rng(2), f"tensor<{shape[0]}x{shape[1]}x"
    entries = random.integers(-128, 128, 1 << 16).astype(np.int8)
    program = main(
        f"%x: {of}i16>", f"{of}i8>",
        f"%t = stablehlo.constant dense<{hexadecimal(entries)}> : tensor<65536xi8>",
        f"%n = stablehlo.not %x : {of}i16>",
        f'%y = "fxpmath.table"(%n, %t) : ({of}i16>, tensor<65536xi8>) -> {of}i8>',
    )  # fmt: skip
    x = np.resize(random.permutation(1 << 16) - (1 << 15), shape).astype(np.int16)
    assert_native_is_exact(program, [{"arg0": x}], isa, threads=(1, 3))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("first", "last"), [(0, 65535), (2000, 63000), (1024, 64511), (1023, 64512), (0, 8), (40000, 40001), (7, 7)]
)
def test_every_16_bit_integer_is_looked_up_in_a_table_with_equal_ends(
    isa: InstructionSet, first: int, last: int
) -> None:
    """Native code reads no entries but one of those before `first`, and of those after `last`."""
    entries = np.clip(np.arange(1 << 16), first, last) * 40503 % (1 << 16) - (1 << 15)
    program = main(
        "%x: tensor<5x13108xi16>", "tensor<5x13108xi16>",
        f"%t = stablehlo.constant dense<{hexadecimal(entries.astype(np.int16))}> : tensor<65536xi16>",
        '%y = "fxpmath.table"(%x, %t) : (tensor<5x13108xi16>, tensor<65536xi16>) -> tensor<5x13108xi16>',
    )  # fmt: skip
    x = np.resize(np.arange(-(1 << 15), 1 << 15), (5, 13108)).astype(np.int16)
    assert_native_is_exact(program, [{"arg0": x}], isa, threads=(1, 3))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(("entries", "width"), [(513, 16), (5, 16), (1025, 16), (513, 8)])
def test_every_16_bit_integer_is_interpolated(isa: InstructionSet, entries: int, width: int) -> None:
    random, dtype = np.random.default_rng(entries), np.dtype(f"i{width // 8}")
    limits = np.iinfo(dtype)
    table = random.integers(limits.min, limits.max + 1, entries).astype(dtype)
    table[-2:] = limits.min, limits.max
    program = parse_program(f"""
    func.func @main(%x: tensor<5x13108xi16>) -> tensor<5x13108xi{width}> {{
      %t = stablehlo.constant dense<{table.tolist()}> : tensor<{entries}xi{width}>
      %n = stablehlo.not %x : tensor<5x13108xi16>
      %y = "fxpmath.interpolate"(%n, %t) : (tensor<5x13108xi16>, tensor<{entries}xi{width}>) -> tensor<5x13108xi{width}>
      return %y : tensor<5x13108xi{width}>
    }}""")
    x = np.resize(np.arange(-(1 << 15), 1 << 15), (5, 13108)).astype(np.int16)
    assert_native_is_exact(program, [{"arg0": x}], isa, threads=(1, 3))
