"""Constants of every element type, and the names of inputs and outputs, return from exported StableHLO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.parser import Parser

from zeropoint.export.stablehlo import portable_artifact, stablehlo_text
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_op
from zeropoint.ir.context import new_context
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype
from zeropoint.ir.text import parse_program
from zeropoint.ir.weights import Weights

INTEGERS = ["i1", *(f"{sign}{width}" for sign in ("i", "ui") for width in (2, 4, 8, 16, 32, 64))]
FLOATS = ["f16", "bf16", "f32", "f64", "complex<f32>", "complex<f64>"]
NARROW = ["E5M2", "E4M3", "E3M4", "E4M3FN", "E5M2FNUZ", "E4M3FNUZ", "E4M3B11FNUZ"]
NARROWER = ["f6E2M3FN", "f6E3M2FN", "f4E2M1FN", "f8E8M0FNU"]
ELEMENTS = [*INTEGERS, *FLOATS, *(f"f8{name}" for name in NARROW), *NARROWER]
SHAPES = ((), (3,), (0,), (2, 0, 3), (33, 17))


def constants_of(element: str) -> Program:
    """Random constants of one type and several shapes, and one of many equal elements."""
    random, weights = np.random.default_rng(0), Weights()
    kind = Parser(new_context(), element).parse_type()
    dtype = np.dtype(element_dtype(kind))
    bits = int(element[2:] if element[:2] == "ui" else element[1:]) if element in INTEGERS else 0
    low, high = (
        (0, 1 << min(bits, 62))
        if element[0] == "u" or bits == 1
        else (-1 << bits - 1 if bits else 0, 1 << bits - 1 if bits else 0)
    )
    drawn = [random.integers(low, high, shape) if bits else np.abs(random.normal(0, 2, shape)) for shape in SHAPES]
    arrays = [array.astype(dtype) for array in (*drawn, np.ones((9, 40)) if low + 1 < high else np.zeros((9, 40)))]
    ops = [constant_op(np.asarray(array), weights, element_type=kind) for array in arrays]
    function = FuncOp("main", ([], []))
    function.body.block.add_ops([*ops, ReturnOp(*(op.output for op in ops))])
    function.update_function_type()
    return Program(ModuleOp([function]), weights)


@pytest.mark.parametrize("element", ELEMENTS)
def test_constants_return_from_text_and_artifact(element: str, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    program = constants_of(element)
    expected = Interpreter(program).run_values([])
    (tmp_path / "m.stablehlo.mlir").write_text(stablehlo_text(program))
    (tmp_path / "m.mlirbc").write_bytes(portable_artifact(program))
    for name in ("m.stablehlo.mlir", "m.mlirbc"):
        for one, other in zip(Interpreter(load_model(tmp_path / name)).run_values([]), expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "name", ['rows \\"of\\" x', "ü€", "new\\0Aline", "back\\\\slash", " ", "%x", "0", "x:0", "a/b.c"]
)
def test_names_return_from_text_and_artifact(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    program = parse_program(
        f'func.func @main(%x: tensor<2xf32> {{zeropoint.name = "{name}"}})'
        f' -> (tensor<2xf32> {{zeropoint.name = "{name} again"}}) {{ return %x : tensor<2xf32> }}'
    )
    (tmp_path / "m.stablehlo.mlir").write_text(stablehlo_text(program))
    (tmp_path / "m.mlirbc").write_bytes(portable_artifact(program))
    for file in ("m.stablehlo.mlir", "m.mlirbc"):
        loaded = load_model(tmp_path / file)
        assert [port.name for port in loaded.inputs] == [port.name for port in program.inputs]
        assert [port.name for port in loaded.outputs] == [port.name for port in program.outputs]
