"""Rows: softmax, layer norm and their like are one kernel, near the interpreter, the same for any number of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact, kernels_of_steps
from codegen.guarded_program import GuardedProgram
from codegen.loop_programs import inputs_for, main
from codegen.row_programs import LEAST, ZERO, attention, dense, layer_norm, random_rows, softmax
from zeropoint.codegen.group import group
from zeropoint.codegen.layout import layout
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize("size", [8, 19, 128, 700])
def test_a_layer_norm_is_one_kernel(isa: InstructionSet, size: int) -> None:
    program = layer_norm(5, size)
    assert kernels_of_steps(program) == ["Rows"]
    assert_native_is_exact(program, [inputs_for(program)], isa, threads=(1, 3))


def test_what_a_sweep_keeps_is_of_its_row_when_groups_of_rows_overlap() -> None:
    """A sum less its mean: the last sweep of a row reads what the first one has kept, and the next row's keeps."""
    whole, number = dense(33, 40), dense(33)
    program = main(
        f"%x: {whole}, %z: {whole}", whole, ZERO,
        f"%s = stablehlo.add %x, %z : {whole}",
        f"%r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1] : ({whole}, tensor<f32>)"
        f" -> {number}",
        f"%b = stablehlo.broadcast_in_dim %r, dims = [0] : ({number}) -> {whole}",
        f"%y = stablehlo.subtract %s, %b : {whole}",
    )  # fmt: skip
    assert kernels_of_steps(program) == ["Rows"]
    for isa in HERE:
        assert_native_is_exact(program, [inputs_for(program)], isa, threads=(1, 3))


@pytest.mark.parametrize("seed", range(16))
def test_random_rows_are_the_interpreters(seed: int) -> None:
    program = random_rows(seed, 33, int(np.random.default_rng(seed).integers(1, 200)))
    for isa in HERE[:2]:
        assert_native_is_exact(program, [inputs_for(program)], isa, threads=(1, 3))


@pytest.mark.parametrize("seed", range(24))
def test_numbers_of_rows_that_are_results_come_from_the_same_kernel(seed: int) -> None:
    program = random_rows(seed, 33, int(np.random.default_rng(seed).integers(8, 200)), shared=True)
    grouped = group(program, isa="portable")
    (kernel,) = (op for op in grouped.entry.ops if isinstance(op, KernelOp) and op.kind.data == "rows")
    assert len(kernel.values) >= 2
    assert_native_is_exact(program, [inputs_for(program)], HERE[seed % len(HERE)], threads=(1, 3))


def test_numbers_of_rows_survive_the_text_after_layout() -> None:
    whole, number = dense(5, 16), dense(5)
    program = main(
        f"%x: {whole}", whole, ZERO,
        f"%r = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : ({whole}, tensor<f32>)"
        f" -> {number}",
        f"%b = stablehlo.broadcast_in_dim %r, dims = [0] : ({number}) -> {whole}",
        f"%d = stablehlo.subtract %x, %b : {whole}",
        f"%p = stablehlo.dot_general %d, %d, contracting_dims = [1] x [1] : ({whole}, {whole}) -> {dense(5, 5)}",
        f"%q = stablehlo.dot_general %p, %r, contracting_dims = [1] x [0] : ({dense(5, 5)}, {number}) -> {number}",
        f"%y = stablehlo.broadcast_in_dim %q, dims = [0] : ({number}) -> {whole}",
    )  # fmt: skip
    laid = parse_program(print_program(layout(group(program, isa="portable")), inline_weights=True))
    (kernel,) = (op for op in laid.entry.ops if isinstance(op, KernelOp) and op.kind.data == "rows")
    assert len(kernel.outputs) == 2
    given = [*inputs_for(program).values()]
    native = NativeProgram(laid, isa=INSTRUCTION_SETS["portable"])
    np.testing.assert_array_equal(native.run_values(given)[0], NativeProgram(program).run_values(given)[0])


def test_a_number_that_an_input_of_its_rows_needs_is_no_further_result() -> None:
    whole, number = dense(8, 16), dense(8)
    program = main(
        f"%x: {whole}, %w: {dense(8, 8)}", whole, ZERO,
        f"%r = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : ({whole}, tensor<f32>)"
        f" -> {number}",
        f"%s = stablehlo.dot_general %r, %w, contracting_dims = [0] x [0] : ({number}, {dense(8, 8)}) -> {number}",
        f"%b = stablehlo.broadcast_in_dim %r, dims = [0] : ({number}) -> {whole}",
        f"%c = stablehlo.broadcast_in_dim %s, dims = [0] : ({number}) -> {whole}",
        f"%d = stablehlo.subtract %x, %b : {whole}",
        f"%y = stablehlo.multiply %d, %c : {whole}",
    )  # fmt: skip
    kernels = [op for op in group(program, isa="portable").entry.ops if isinstance(op, KernelOp)]
    assert [len(op.values) for op in kernels if op.kind.data == "rows"] == [1]
    assert_native_is_exact(program, [inputs_for(program)], HERE[0], threads=(1, 3))


def test_numbers_of_rows_are_stored_in_the_order_of_their_own_result() -> None:
    """Rows along the middle dimension: the loops over rows are in another order than the numbers."""
    whole, number = dense(3, 16, 5), dense(5, 3)
    program = main(
        f"%x: {whole}", number, ZERO,
        f"%s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : ({whole}, tensor<f32>)"
        f" -> {dense(3, 5)}",
        f"%b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : ({dense(3, 5)}) -> {whole}",
        f"%d = stablehlo.subtract %x, %b : {whole}",
        f"%m = stablehlo.reduce(%d init: %zero) applies stablehlo.maximum across dimensions = [1] : "
        f"({whole}, tensor<f32>) -> {dense(3, 5)}",
        f"%t = stablehlo.multiply %m, %s : {dense(3, 5)}",
        f"%y = stablehlo.transpose %t, dims = [1, 0] : ({dense(3, 5)}) -> {number}",
    )  # fmt: skip
    for isa in HERE:
        assert_native_is_exact(program, [inputs_for(program)], isa, threads=(1, 3))


@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (1, 2, 7, 50), (1, 1, 3, 300)], ids=str)
def test_a_softmax_of_stored_scores_is_one_kernel_with_its_mask_and_its_quantization(shape: tuple[int, ...]) -> None:
    program = attention(shape)
    assert kernels_of_steps(program) == ["Rows"]
    samples = [inputs_for(program, seed) for seed in range(2)]
    for isa in HERE:
        assert_native_is_exact(program, samples, isa)


def test_a_masked_softmax_is_exact_where_its_values_are() -> None:
    """Columns behind the mask are 0, equal scores are equal shares: no rounding decides."""
    program = attention((1, 2, 4, 16))
    scores = np.full((1, 2, 4, 16), 7, np.int8)
    mask = np.where(np.arange(16) < 4, 0.0, -10000.0).astype(np.float32).reshape(1, 1, 1, 16)
    assert_native_is_exact(program, [{"arg0": scores, "arg1": mask}], HERE[0], threads=(1, 2))


@pytest.mark.parametrize("program", [layer_norm(37, 530), attention((1, 3, 7, 590))], ids=["layer norm", "softmax"])
def test_any_number_of_threads_gives_the_same_bits(program: Program) -> None:
    sample = inputs_for(program)
    (expected,) = NativeProgram(program)(sample).values()
    for threads in (2, 3, 5):
        (found,) = NativeProgram(program, threads=threads)(sample).values()
        np.testing.assert_array_equal(found, expected)


def test_a_softmax_along_another_dimension_stays_loop_nests() -> None:
    shape = (3, 16, 19)
    program = main(f"%x: {dense(*shape)}", dense(*shape), ZERO, LEAST, *softmax("x", "y", shape, 1))
    assert "Rows" not in kernels_of_steps(program)
    assert_native_is_exact(program, [inputs_for(program)], HERE[0])


def test_a_row_too_long_for_the_stack_is_several_kernels() -> None:
    shape = (2, 9000)
    program = main(f"%x: {dense(*shape)}", dense(*shape), ZERO, LEAST, *softmax("x", "y", shape, 1))
    assert len(kernels_of_steps(program)) > 1
    assert_native_is_exact(program, [inputs_for(program)], HERE[0])


def test_a_value_that_is_needed_outside_is_computed_once_before_the_rows() -> None:
    whole = dense(4, 32)
    program = main(
        f"%x: {whole}", whole, ZERO, LEAST, f"%a = stablehlo.exponential %x : {whole}",
        *softmax("a", "p", (4, 32), 1), *softmax("p", "q", (4, 32), 1), f"%y = stablehlo.multiply %q, %a : {whole}",
    )  # fmt: skip
    assert_native_is_exact(program, [inputs_for(program)], HERE[0], threads=(1, 2))


@pytest.mark.parametrize("size", [16, 300])
def test_what_is_the_same_in_all_rows_may_be_computed_from_a_number(size: int) -> None:
    """A mask computed as number - keep is computed once before the rows, from a number that is read."""
    shape, row, number = (6, size), dense(1, size), dense(1, 1)
    program = main(
        f"%x: {dense(*shape)}, %k: {row}, %n: {number}", dense(*shape), ZERO, LEAST,
        f"%all = stablehlo.broadcast_in_dim %n, dims = [0, 1] : ({number}) -> {dense(*shape)}",
        f"%keep = stablehlo.broadcast_in_dim %k, dims = [0, 1] : ({row}) -> {dense(*shape)}",
        f"%mask = stablehlo.subtract %all, %keep : {dense(*shape)}",
        f"%s = stablehlo.add %x, %mask : {dense(*shape)}",
        *softmax("s", "y", shape, 1),
    )  # fmt: skip
    assert kernels_of_steps(program) == ["Rows"]
    assert_native_is_exact(program, [inputs_for(program)], HERE[0], threads=(1, 2))


def test_integers_of_rows_are_the_interpreters() -> None:
    whole, number = dense(5, 37, of="i32"), dense(5, of="i32")
    across = f"across dimensions = [1] : ({whole}, tensor<i32>) -> {number}"
    wide = dense(5, 37, of="i64")
    program = main(
        f"%x: {whole}", wide,
        "%start = stablehlo.constant dense<17> : tensor<i32>",
        f"%s = stablehlo.reduce(%x init: %start) applies stablehlo.add {across}",
        f"%b = stablehlo.broadcast_in_dim %s, dims = [0] : ({number}) -> {whole}",
        f"%d = stablehlo.subtract %x, %b : {whole}",
        f"%m = stablehlo.reduce(%d init: %start) applies stablehlo.minimum {across}",
        f"%c = stablehlo.broadcast_in_dim %m, dims = [0] : ({number}) -> {whole}",
        f"%e = stablehlo.multiply %d, %c : {whole}",
        f"%y = stablehlo.convert %e : ({whole}) -> {wide}",
    )  # fmt: skip
    assert kernels_of_steps(program) == ["Rows"]
    for isa in HERE:
        assert_native_is_exact(program, [inputs_for(program)], isa, threads=(1, 2))


@pytest.mark.parametrize("size", [37, 400])
def test_upper_halves_of_products_are_the_interpreters(size: int) -> None:
    """Of i32 with a number of their row, over the whole range."""
    whole, number, wide, narrow = (dense(5, size, of="i32"), dense(5, of="i32"), dense(5, size, of="i64"),
                                   dense(5, size, of="i16"))  # fmt: skip
    across = f"across dimensions = [1] : ({whole}, tensor<i32>) -> {number}"
    program = main(
        f"%x: {whole}, %q: {narrow}", whole,
        "%start = stablehlo.constant dense<-2147483648> : tensor<i32>",
        f"%n = stablehlo.constant dense<32> : {wide}",
        f"%y32 = stablehlo.convert %q : ({narrow}) -> {whole}",
        f"%m = stablehlo.reduce(%x init: %start) applies stablehlo.maximum {across}",
        f"%a = stablehlo.reduce(%y32 init: %start) applies stablehlo.maximum {across}",
        f"%mb = stablehlo.broadcast_in_dim %m, dims = [0] : ({number}) -> {whole}",
        f"%ab = stablehlo.broadcast_in_dim %a, dims = [0] : ({number}) -> {whole}",
        f"%d = stablehlo.add %y32, %ab : {whole}",
        f"%e = stablehlo.multiply %d, %mb : {whole}",
        f"%f = stablehlo.xor %e, %x : {whole}",
        *(f"%{v}64 = stablehlo.convert %{v} : ({whole}) -> {wide}" for v in ("f", "mb")),
        f"%p = stablehlo.multiply %f64, %mb64 : {wide}",
        f"%h = stablehlo.shift_right_arithmetic %p, %n : {wide}",
        f"%y = stablehlo.convert %h : ({wide}) -> {whole}",
    )  # fmt: skip
    assert kernels_of_steps(program) == ["Rows"]
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**31), 2**31, (5, size)).astype(np.int32)
    x[1], x[2, 1::2], x[3, ::2], x[3, 1::2] = -(2**31), 2**31 - 1, -1, -(2**31)
    y = rng.integers(-(2**15), 2**15, (5, size)).astype(np.int16)
    for isa in HERE:
        assert_native_is_exact(program, [{"arg0": x, "arg1": y}], isa, threads=(1, 2))


def _squared(size: int, *, kept: bool) -> Program:
    """Sums of i16 and of their squares, and (x - sum) k - sum; `kept` reads a part of the squares again."""
    whole, number, wide, narrow = (dense(5, size, of="i32"), dense(5, of="i32"), dense(5, of="i64"),
                                   dense(5, size, of="i16"))  # fmt: skip
    across = f"across dimensions = [1] : ({whole}, tensor<i32>) -> {number}"
    return main(
        f"%x: {narrow}", narrow,
        "%start = stablehlo.constant dense<0> : tensor<i32>",
        f"%w = stablehlo.convert %x : ({narrow}) -> {whole}",
        f"%s = stablehlo.reduce(%w init: %start) applies stablehlo.add {across}",
        f"%q = stablehlo.multiply %w, %w : {whole}",
        f"%c15 = stablehlo.constant dense<15> : {whole}",
        f"%c = stablehlo.constant dense<32767> : {whole}",
        f"%k = stablehlo.constant dense<32768> : {wide}",
        f"%hi = stablehlo.shift_right_arithmetic %q, %c15 : {whole}",
        f"%lo = stablehlo.and %q, %c : {whole}",
        f"%h = stablehlo.reduce(%hi init: %start) applies stablehlo.add {across}",
        f"%l = stablehlo.reduce(%lo init: %start) applies stablehlo.add {across}",
        *(f"%{v}64 = stablehlo.convert %{v} : ({number}) -> {wide}" for v in "hl"),
        f"%hk = stablehlo.multiply %h64, %k : {wide}",
        f"%t = stablehlo.add %hk, %l64 : {wide}",
        f"%seven = stablehlo.constant dense<7> : {wide}",
        f"%u = stablehlo.shift_right_arithmetic %t, %seven : {wide}",
        f"%v = stablehlo.convert %u : ({wide}) -> {number}",
        f"%vv = stablehlo.add %v, %{'l' if kept else 'v'} : {number}",
        *(f"%{v}b = stablehlo.broadcast_in_dim %{v}, dims = [0] : ({number}) -> {whole}" for v in ("s", "vv")),
        f"%d = stablehlo.subtract %w, %sb : {whole}",
        f"%e = stablehlo.multiply %d, %vvb : {whole}",
        f"%f = stablehlo.subtract %e, %sb : {whole}",
        "%low = stablehlo.constant dense<-30000> : tensor<i32>",
        "%high = stablehlo.constant dense<29999> : tensor<i32>",
        f"%g = stablehlo.clamp %low, %f, %high : (tensor<i32>, {whole}, tensor<i32>) -> {whole}",
        f"%y = stablehlo.convert %g : ({whole}) -> {narrow}",
    )  # fmt: skip


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("size", [17, 63, 64, 65, 127, 384, 389, 1100])
def test_sums_of_squares_are_the_interpreters(size: int, *, kept: bool) -> None:
    """Two squares of -2^15 are 2^31, which an i32 does not hold."""
    program = _squared(size, kept=kept)
    assert kernels_of_steps(program) == ["Rows"]
    rng = np.random.default_rng(size)
    x = rng.integers(-(2**15), 2**15, (5, size)).astype(np.int16)
    x[1], x[2], x[3, ::2], x[3, 1::2] = -(2**15), 2**15 - 1, -(2**15), 2**15 - 1
    x[4] //= 2000
    for isa in HERE:
        assert_native_is_exact(program, [{"arg0": x}], isa, threads=(1, 2))
        pairs = "pmadd" in "".join(kernels_of(steps_of(program, isa)).texts.values())
        assert pairs == (isa.multiply_add is not None)


def test_a_row_whose_sums_of_pairs_might_exceed_32_bits_has_sums_of_elements() -> None:
    for size, pairs in ((65535, 2), (65536, 1)):
        texts = kernels_of(steps_of(_squared(size, kept=False), INSTRUCTION_SETS["avx512-vnni"])).texts
        found = re.findall(r"lshr <[0-9]+ x i32> %v[0-9]+, splat \(i32 15\)", "".join(texts.values()))
        assert bool(found) == (pairs == 2)


def test_not_a_number_stays_in_its_row() -> None:
    shape = (6, 40)
    program = main(f"%x: {dense(*shape)}", dense(*shape), ZERO, LEAST, *softmax("x", "y", shape, 1))
    x = inputs_for(program)["arg0"]
    x[1, 3], x[2, 5], x[3, 7], x[4] = np.nan, np.inf, -np.inf, -np.inf
    assert_native_is_exact(program, [{"arg0": x}], HERE[0])


@pytest.mark.parametrize("isa", dict.fromkeys([HERE[0], INSTRUCTION_SETS["portable"]]), ids=lambda row: row.name)
def test_rows_stay_inside_of_their_buffers(isa: InstructionSet) -> None:
    for program in (layer_norm(3, 19), layer_norm(3, 601), attention((1, 2, 3, 21))):
        for high in (True, False):
            GuardedProgram(program, isa=isa, high=high)(inputs_for(program))


def test_reductions_of_what_reductions_gave_are_the_same_kernel() -> None:
    shape = (3, 24)
    lines = [*softmax("x", "a", shape, 1), *softmax("a", "y", shape, 1)]
    program = main(f"%x: {dense(*shape)}", dense(*shape), ZERO, LEAST, *lines)
    assert kernels_of_steps(program) == ["Rows"]
    assert_native_is_exact(program, [inputs_for(program)], HERE[0])


def test_rows_may_be_looked_up_and_requantized() -> None:
    """Rows of a table by indices, layer norm without its scale; sums of a row, requantized, against a threshold."""
    whole, number = dense(5, 24), dense(5)
    across = f"across dimensions = [1] : ({whole}, tensor<f32>) -> {number}"
    program = main(
        f"%t: {dense(7, 24)}, %i: {dense(5, of='i32')}", whole, ZERO,
        '%g = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 24>}> "
        f": ({dense(7, 24)}, {dense(5, of='i32')}) -> {whole}",
        f"%x = stablehlo.negate %g : {whole}",
        f"%s = stablehlo.reduce(%x init: %zero) applies stablehlo.add {across}",
        f"%b = stablehlo.broadcast_in_dim %s, dims = [0] : ({number}) -> {whole}",
        f"%y = stablehlo.subtract %x, %b : {whole}",
    )  # fmt: skip
    table = inputs_for(program)["arg0"]
    sample = {"arg0": table, "arg1": np.array([3, 0, 6, 6, 1], np.int32)}
    assert_native_is_exact(program, [sample], HERE[0], threads=(1, 2))

    stored, sums, one = dense(5, 24, of="i32"), dense(5, of="i32"), "tensor<1xi32>"
    bytes_ = dense(5, 24, of="i8")
    program = main(
        f"%x: {stored}", bytes_,
        "%i = stablehlo.constant dense<0> : tensor<i32>",
        "%m = stablehlo.constant dense<1518500250> : tensor<1xi32>",
        "%k = stablehlo.constant dense<40> : tensor<1xi32>",
        f"%s = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [1] : "
        f"({stored}, tensor<i32>) -> {sums}",
        f"%b = stablehlo.broadcast_in_dim %s, dims = [0] : ({sums}) -> {stored}",
        f"%d = stablehlo.minimum %x, %b : {stored}",
        '%y = "fxpmath.requantize"(%d, %m, %k) <{behaviour = "fixed32", storage_max = 127 : i64, '
        f"storage_min = -128 : i64, zero_point = 3 : i64}}> : ({stored}, {one}, {one}) -> {bytes_}",
    )  # fmt: skip
    for isa in HERE:
        assert_native_is_exact(program, [inputs_for(program)], isa)


def test_a_row_of_one_number_repeated_is_summed() -> None:
    whole, number = dense(3, 21), dense(3)
    program = main(
        f"%x: {number}", whole, ZERO,
        f"%w = stablehlo.broadcast_in_dim %x, dims = [0] : ({number}) -> {whole}",
        f"%s = stablehlo.reduce(%w init: %zero) applies stablehlo.add across dimensions = [1] : "
        f"({whole}, tensor<f32>) -> {number}",
        f"%b = stablehlo.broadcast_in_dim %s, dims = [0] : ({number}) -> {whole}",
        f"%y = stablehlo.negate %b : {whole}",
    )  # fmt: skip
    assert_native_is_exact(program, [inputs_for(program)], HERE[0], threads=(1, 2))


def test_shifts_by_a_number_of_the_row_are_the_interpreters() -> None:
    """(x - m) 2^s - r for any s of 64 bits, of which 2^s has the lowest 32."""
    shifts = [0, 1, 15, 30, 31, 32, 33, 63, 64, 65, 1 << 32, (1 << 32) + 3, -1, -(1 << 62)]
    rows, size = len(shifts), 389
    whole, narrow = dense(rows, size, of="i32"), dense(rows, size, of="i16")
    number, wide = dense(rows, of="i32"), dense(rows, of="i64")
    program = main(
        f"%x: {narrow}, %s: {wide}", narrow,
        "%start = stablehlo.constant dense<0> : tensor<i32>",
        f"%w = stablehlo.convert %x : ({narrow}) -> {whole}",
        f"%m = stablehlo.reduce(%w init: %start) applies stablehlo.maximum across dimensions = [1] "
        f": ({whole}, tensor<i32>) -> {number}",
        f"%one = stablehlo.constant dense<1> : {wide}",
        f"%p = stablehlo.shift_left %one, %s : {wide}",
        f"%q = stablehlo.convert %p : ({wide}) -> {number}",
        *(f"%{v}b = stablehlo.broadcast_in_dim %{v}, dims = [0] : ({number}) -> {whole}" for v in "mq"),
        f"%d = stablehlo.subtract %w, %mb : {whole}",
        f"%e = stablehlo.multiply %d, %qb : {whole}",
        f"%f = stablehlo.subtract %e, %mb : {whole}",
        "%low = stablehlo.constant dense<-30000> : tensor<i32>",
        "%high = stablehlo.constant dense<29999> : tensor<i32>",
        f"%g = stablehlo.clamp %low, %f, %high : (tensor<i32>, {whole}, tensor<i32>) -> {whole}",
        f"%y = stablehlo.convert %g : ({whole}) -> {narrow}",
    )  # fmt: skip
    assert kernels_of_steps(program) == ["Rows"]
    x = np.random.default_rng(3).integers(-(2**15), 2**15, (rows, size)).astype(np.int16)
    for isa in HERE:
        assert_native_is_exact(program, [{"arg0": x, "arg1": np.array(shifts)}], isa, threads=(1, 2))
        raises = "psllv" in "".join(kernels_of(steps_of(program, isa)).texts.values())
        assert raises == (isa.shift_left is not None)
