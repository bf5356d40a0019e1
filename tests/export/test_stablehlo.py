"""Quantized StableHLO leaves as text and as a portable artifact that C++ StableHLO reads, verifies and evaluates."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from digits import DIGITS, images, quantized_digits
from interp.programs import upstream
from oracle import mlir
from row_scaled import RowProduct
from zeropoint.calibrate import samples
from zeropoint.cli import main
from zeropoint.export import ExportError, export_program
from zeropoint.export.stablehlo import portable_artifact, stablehlo_text
from zeropoint.frontend import ModelError, artifact, load_model
from zeropoint.frontend.artifact import load_artifact
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize


@pytest.fixture(scope="module")
def quantized() -> Quantization:
    return quantized_digits("stablehlo", count=8)


def test_the_text_verifies_and_holds_every_constant(quantized: Quantization) -> None:
    mlir.require()
    text = stablehlo_text(quantized.quantized)
    assert re.findall(r"zeropoint\.\w+ = .*?}", text) == [
        'zeropoint.origin = {profile = "float32-rne", target = "stablehlo"}',
        'zeropoint.name = "image"}',
        'zeropoint.name = "probabilities"}',
    ]
    assert "dense_resource" not in text
    assert not mlir.needs_unregistered(text)
    mlir.canonical(text)
    sample = dict(next(iter(samples(DIGITS / "test.npz", load_model(DIGITS / "digits.onnx").inputs))))
    (mine,) = Interpreter(quantized.quantized)(sample).values()
    (again,) = Interpreter(parse_program(text)).run_values(list(sample.values()))
    np.testing.assert_array_equal(again, mine)


DENSE = """func.func @main(%x: tensor<2x4xf32> {zeropoint.name = "x"}) -> (tensor<2x3xf32> {zeropoint.name = "y"}) {
  %w = stablehlo.constant dense<[[0.5, 1.0, -1.0], [0.25, 2.0, 1.5], [1.0, 0.0, 0.0], [3.0, 1.0, 0.5]]>
    : tensor<4x3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims=[1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}"""


def test_c_plus_plus_stablehlo_evaluates_the_text_to_our_integers() -> None:
    mlir.require()
    random = np.random.default_rng(0)
    data = [{"x": random.normal(0, 1, (2, 4)).astype(np.float32)} for _ in range(4)]
    result = quantize(parse_program(DENSE), data, Options(target="stablehlo"))
    text = stablehlo_text(result.quantized)
    (theirs,) = upstream(text, data[0]["x"])
    np.testing.assert_array_equal(theirs, Interpreter(result.quantized)(data[0])["y"])


def test_the_artifact_is_read_back_as_the_same_program(quantized: Quantization) -> None:
    library = pytest.importorskip("torch_mlir._mlir_libs._stablehlo")
    ir = pytest.importorskip("torch_mlir.ir")
    artifact = portable_artifact(quantized.quantized)
    assert artifact.startswith(b"ML\xefR")
    with ir.Context() as context:
        text = str(library.deserialize_portable_artifact(context, artifact))
    sample = dict(next(iter(samples(DIGITS / "test.npz", load_model(DIGITS / "digits.onnx").inputs))))
    (mine,) = Interpreter(quantized.quantized)(sample).values()
    (again,) = Interpreter(parse_program(text)).run_values(list(sample.values()))
    np.testing.assert_array_equal(again, mine)


def test_the_command_line_writes_both(tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    np.savez(tmp_path / "data.npz", image=np.concatenate([sample["image"] for sample in images("calib", 4)]))
    base = ["quantize", str(DIGITS / "digits.onnx"), "--data", str(tmp_path / "data.npz"), "--effort", "none"]
    for name in ("m.stablehlo.mlir", "m.mlirbc"):
        answer = CliRunner().invoke(main, [*base, "--target", "stablehlo", "-o", str(tmp_path / name)])
        assert answer.exit_code == 0, answer.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npz", "m.mlirbc", "m.stablehlo.mlir"]
    assert "!quant.uniform" in (tmp_path / "m.stablehlo.mlir").read_text()


@pytest.mark.parametrize("name", ["m.stablehlo.mlir", "m.mlirbc"])
def test_an_exported_file_is_compared_with_the_model_by_its_names(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    export_program(quantized_digits("stablehlo", count=8).propagated, tmp_path / name)
    np.savez(tmp_path / "test.npz", image=np.concatenate([sample["image"] for sample in images("test", 4)]))
    arguments = ["compare", str(DIGITS / "digits.onnx"), str(tmp_path / name), "--data", str(tmp_path / "test.npz")]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    assert "output probabilities" in answer.output


@pytest.mark.parametrize("size", [0, 3000])
def test_a_broken_artifact_is_refused_in_one_line(quantized: Quantization, tmp_path: Path, size: int) -> None:
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    (tmp_path / "m.mlirbc").write_bytes(portable_artifact(quantized.quantized)[:size])
    answer = CliRunner().invoke(main, ["run", str(tmp_path / "m.mlirbc"), "--input", str(DIGITS / "test.npz")])
    assert answer.exit_code == 2
    assert len(answer.output.splitlines()) == 1
    assert str(tmp_path / "m.mlirbc") in answer.output


# With so little memory, the reader may die before it can say so.
@pytest.mark.parametrize(("limit", "reason"), [("SECONDS", " within 1 s"), ("_MEMORY", "(| with 4\\S* MiB of memory)")])
def test_an_artifact_whose_text_never_ends_is_refused(
    limit: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuple of two tuples of two, and so on: the bytes have each type once, and the text all of them."""
    ir: Any = pytest.importorskip("torch_mlir.ir")
    func, library = import_module("torch_mlir.dialects.func"), import_module("torch_mlir._mlir_libs._stablehlo")
    with ir.Context(), ir.Location.unknown():
        nested = ir.RankedTensorType.get([1], ir.F32Type.get())
        for _ in range(20):
            nested = ir.TupleType.get_tuple([nested, nested])
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main_function = func.FuncOp("main", ir.FunctionType.get([nested], [nested]))
            with ir.InsertionPoint(main_function.add_entry_block()):
                func.ReturnOp(list(main_function.arguments))
        data = library.serialize_portable_artifact(module, library.get_current_version())
    (tmp_path / "m.mlirbc").write_bytes(data)
    monkeypatch.setattr(artifact, limit, 1 if limit == "SECONDS" else 4 << 20)
    with pytest.raises(ModelError, match=f"m.mlirbc: found bytes that StableHLO does not read{reason}, expected"):
        load_artifact(tmp_path / "m.mlirbc", {})


def test_arithmetic_that_stablehlo_lacks_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    result = quantized_digits("litert", count=8)
    with pytest.raises(ExportError, match=r"expected quantized StableHLO; quantize for target stablehlo"):
        export_program(result.propagated, tmp_path / "m.stablehlo.mlir")
    assert not list(tmp_path.iterdir())


def test_products_of_rows_in_8_bits_are_refused() -> None:
    """The attribute that says so is ours: a reader of plain StableHLO would compute other integers."""
    with pytest.raises(ExportError, match="rounded by rows, which quantized StableHLO does not express"):
        stablehlo_text(RowProduct((2,), 4, 3).program())
