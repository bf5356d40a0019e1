"""Constants: the array behind a value has the dtype of its type, inline or behind a handle."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_array, constant_op, is_constant, splat_value
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, UniformDequantizeOp
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.weights import Weights


def program_of(*ops: Operation, weights: Weights) -> Program:
    function = FuncOp("main", ([], [ops[-1].results[0].type]))
    function.body.block.add_ops([*ops, ReturnOp(ops[-1].results[0])])
    program = Program(ModuleOp([function]), weights)
    program.module.verify()
    return program


def quantized_program(storage: str, array: np.ndarray) -> Program:
    weights = Weights()
    constant = constant_op(array, weights, quantized=UniformQuantizedType.per_layer(Storage.of(storage), 0.5))
    return program_of(constant, UniformDequantizeOp(constant.output), weights=weights)


def first_constant(program: Program) -> np.ndarray:
    op = program.entry.first_op
    assert op is not None
    array = constant_array(op.results[0], program.weights)
    assert array is not None
    return array


@pytest.mark.parametrize("count", [4, 100])
@pytest.mark.parametrize(
    ("storage", "dtype"), [("i8", np.int8), ("u8", np.uint8), ("i32", np.int32), ("u16", np.uint16)]
)
def test_quantized_constants_keep_their_numbers_everywhere(storage: str, dtype: type, count: int, tmp_path) -> None:
    info = np.iinfo(dtype)
    array = np.linspace(info.min, info.max, count).astype(dtype)
    program = quantized_program(storage, array)
    save_program(program, tmp_path / "c.mlir")
    text = print_program(program, inline_weights=True)
    mlir.parse(text)
    for found in (program, parse_program(text), load_program(tmp_path / "c.mlir")):
        assert first_constant(found).dtype == dtype
        assert np.array_equal(first_constant(found), array)
        (result,) = Interpreter(found).run_values([])
        assert np.array_equal(result, (array * 0.5).astype(np.float32))


def test_four_bit_constants_are_read_by_upstream() -> None:
    program = quantized_program("i4", np.arange(-8, 8, dtype=np.int8))
    mlir.roundtrip(print_program(program, inline_weights=True))
    assert np.array_equal(first_constant(program), np.arange(-8, 8))


@pytest.mark.parametrize(("array", "expected"), [([2.0] * 100, 2.0), ([2.0, 3.0], None), ([], None)])
def test_splat_value(array: list[float], expected: float | None) -> None:
    weights = Weights()
    constant = constant_op(np.array(array, np.float32), weights)
    broadcast = BroadcastInDimOp(constant.output, with_shape(constant.output, (3, len(array))), [1])
    assert is_constant(constant.output)
    assert not is_constant(broadcast.result)
    assert splat_value(broadcast.result, weights) == expected


@pytest.mark.parametrize("form", ["constant", "cast"])
def test_the_bits_of_an_unsigned_constant_below_a_byte_are_its_value(form: str) -> None:
    """MLIR prints them signless: 15 of u4 is -1."""
    kind = "!quant.uniform<u4:f32, 0.5>"
    lines = {
        "constant": f'%q = "stablehlo.constant"() {{value = dense<[-1, 3]> : tensor<2xi4>}} : () -> tensor<2x{kind}>',
        "cast": f"""%c = stablehlo.constant dense<[-1, 3]> : tensor<2xi4>
          %q = quant.scast %c : tensor<2xi4> to tensor<2x{kind}>""",
    }
    program = parse_program(f"""func.func @main() -> tensor<2xf32> {{
      {lines[form]}
      %0 = stablehlo.uniform_dequantize %q : (tensor<2x{kind}>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }}""")
    assert Interpreter(program).run_values([])[0].tolist() == [7.5, 1.5]
