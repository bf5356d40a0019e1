"""Programs of rows: softmax, attention, layer norm."""

from __future__ import annotations

import numpy as np

from codegen.loop_programs import main
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<f32>"
LEAST = "%least = stablehlo.constant dense<0xFF800000> : tensor<f32>"


def dense(*shape: int, of: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, (*shape, of)))}>"


def softmax(x: str, y: str, shape: tuple[int, ...], row: int) -> list[str]:
    """Lines that compute softmax of %x along one dimension; constants %zero and %least are there."""
    whole, kept = dense(*shape), [d for d in range(len(shape)) if d != row]
    number = dense(*(shape[d] for d in kept))
    across = f"across dimensions = [{row}] : ({whole}, tensor<f32>) -> {number}"
    return [
        f"%{y}m = stablehlo.reduce(%{x} init: %least) applies stablehlo.maximum {across}",
        f"%{y}n = stablehlo.broadcast_in_dim %{y}m, dims = {kept} : ({number}) -> {whole}",
        f"%{y}d = stablehlo.subtract %{x}, %{y}n : {whole}",
        f"%{y}e = stablehlo.exponential %{y}d : {whole}",
        f"%{y}s = stablehlo.reduce(%{y}e init: %zero) applies stablehlo.add {across}",
        f"%{y}t = stablehlo.broadcast_in_dim %{y}s, dims = {kept} : ({number}) -> {whole}",
        f"%{y} = stablehlo.divide %{y}e, %{y}t : {whole}",
    ]


def attention(shape: tuple[int, ...], *, stored: str = "i8:f32, 0.00390625:-128") -> Program:
    """Stored scores and a mask of every column to a stored softmax."""
    real, mask = dense(*shape), (*(1 for _ in shape[:-1]), shape[-1])
    scores, result = "!quant.uniform<i8:f32, 0.05:7>", f"!quant.uniform<{stored}>"
    return main(
        f"%q: {dense(*shape, of=scores)}, %k: {dense(*mask)}", dense(*shape, of=result), ZERO, LEAST,
        f"%r = stablehlo.uniform_dequantize %q : ({dense(*shape, of=scores)}) -> {real}",
        f"%b = stablehlo.broadcast_in_dim %k, dims = {list(range(len(shape)))} : ({dense(*mask)}) -> {real}",
        f"%x = stablehlo.add %r, %b : {real}",
        *softmax("x", "p", shape, len(shape) - 1),
        f"%y = stablehlo.uniform_quantize %p : ({real}) -> {dense(*shape, of=result)}",
    )  # fmt: skip


def random_rows(seed: int, rows: int, size: int, *, shared: bool = False) -> Program:
    """Random steps of two to four sweeps: elements with operands, elements seen before, and numbers of their row.

    Numbers that are `shared` are results, too.
    """
    rng = np.random.default_rng(seed)
    of, zero, least = [("f32", "0.0", "0xFF800000"), ("i32", "0", "-2147483648")][seed % 2]
    whole, number = dense(rows, size, of=of), dense(rows, of=of)
    lines = [f"%zero = stablehlo.constant dense<{zero}> : tensor<{of}>"]
    lines.append(f"%least = stablehlo.constant dense<{least}> : tensor<{of}>")
    known = ["%x", "%z"]

    def step(operand: str | None = None) -> None:
        first, second = known[-1], operand or known[rng.integers(len(known))]
        op = rng.choice(["add", "subtract", "maximum", "multiply"])
        lines.append(f"%v{len(lines)} = stablehlo.{op} {first}, {second} : {whole}")
        known.append(f"%v{len(lines) - 1}")

    for sweep in range(rng.integers(1, 4)):
        for _ in range(rng.integers(sweep == 0, 3)):
            step()
        op, start = ("add", "%zero") if rng.integers(2) else ("maximum", "%least")
        across = f"across dimensions = [1] : ({whole}, tensor<{of}>) -> {number}"
        lines.append(f"%r{sweep} = stablehlo.reduce({known[-1]} init: {start}) applies stablehlo.{op} {across}")
        lines.append(f"%n{sweep} = stablehlo.broadcast_in_dim %r{sweep}, dims = [0] : ({number}) -> {whole}")
        known.append(known[rng.integers(len(known))])
        step(f"%n{sweep}")
    lines.append(f"%y = stablehlo.add {known[-1]}, {known[-2]} : {whole}")
    if not shared:
        return main(f"%x: {whole}, %z: {whole}", whole, *lines)
    numbers = [f"%r{sweep}" for sweep in range(sum(line.startswith("%r") for line in lines))]
    kinds = ", ".join([whole, *[number] * len(numbers)])
    lines.append(f"return {', '.join(['%y', *numbers])} : {kinds}")
    return parse_program(f"func.func @main(%x: {whole}, %z: {whole}) -> ({kinds}) {{\n" + "\n".join(lines) + "\n}")


def layer_norm(rows: int, size: int) -> Program:
    """(x - mean) / sqrt(variance + eps) * scale + shift, and x added to it."""
    whole, column, number, vector = dense(rows, size), dense(rows, 1), dense(rows), dense(size)
    across = f"across dimensions = [1] : ({whole}, tensor<f32>) -> {number}"
    return main(
        f"%x: {whole}, %g: {vector}, %c: {vector}", whole, ZERO,
        f"%size = stablehlo.constant dense<{size}.0> : {column}",
        f"%eps = stablehlo.constant dense<1.0e-5> : {column}",
        f"%s = stablehlo.reduce(%x init: %zero) applies stablehlo.add {across}",
        f"%s1 = stablehlo.reshape %s : ({number}) -> {column}",
        f"%m = stablehlo.divide %s1, %size : {column}",
        f"%mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : ({column}) -> {whole}",
        f"%d = stablehlo.subtract %x, %mb : {whole}",
        f"%dd = stablehlo.multiply %d, %d : {whole}",
        f"%v = stablehlo.reduce(%dd init: %zero) applies stablehlo.add {across}",
        f"%v1 = stablehlo.reshape %v : ({number}) -> {column}",
        f"%vm = stablehlo.divide %v1, %size : {column}",
        f"%ve = stablehlo.add %vm, %eps : {column}",
        f"%r = stablehlo.rsqrt %ve : {column}",
        f"%rb = stablehlo.broadcast_in_dim %r, dims = [0, 1] : ({column}) -> {whole}",
        f"%n = stablehlo.multiply %d, %rb : {whole}",
        f"%gb = stablehlo.broadcast_in_dim %g, dims = [1] : ({vector}) -> {whole}",
        f"%cb = stablehlo.broadcast_in_dim %c, dims = [1] : ({vector}) -> {whole}",
        f"%ng = stablehlo.multiply %n, %gb : {whole}",
        f"%nc = stablehlo.add %ng, %cb : {whole}",
        f"%y = stablehlo.add %nc, %x : {whole}",
    )  # fmt: skip


def float_programs() -> tuple[Program, ...]:
    """Batched products, functions with a row's sum, and a layer norm, all in f32."""
    product = main(
        "%a: tensor<2x3x9x17xf32>, %b: tensor<2x3x17x70xf32>", "tensor<2x3x9x70xf32>",
        "%n = stablehlo.negate %a : tensor<2x3x9x17xf32>",
        "%p = stablehlo.dot_general %n, %b, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]"
        " : (tensor<2x3x9x17xf32>, tensor<2x3x17x70xf32>) -> tensor<2x3x9x70xf32>",
        "%y = stablehlo.negate %p : tensor<2x3x9x70xf32>",
    )  # fmt: skip
    chain = main(
        "%x: tensor<3x37xf32>", "tensor<3x37xf32>",
        "%i = stablehlo.constant dense<0.0> : tensor<f32>",
        "%e = stablehlo.exponential %x : tensor<3x37xf32>",
        "%s = stablehlo.reduce(%e init: %i) applies stablehlo.add across dimensions = [1]"
        " : (tensor<3x37xf32>, tensor<f32>) -> tensor<3xf32>",
        "%t = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<3xf32>) -> tensor<3x37xf32>",
        "%q = stablehlo.divide %e, %t : tensor<3x37xf32>",
        "%y = stablehlo.tanh %q : tensor<3x37xf32>",
    )  # fmt: skip
    return product, chain, layer_norm(3, 70)
