"""Exported files as arguments: `compare` runs each in its runtime, `report` shows the program; broken ones fail."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner, Result

from digits import DIGITS, images, quantized_digits
from zeropoint.cli import main
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.frontend import ModelError
from zeropoint.frontend.exported import Origin, origin_of
from zeropoint.ir.text import parse_program
from zeropoint.litert_schema import schema
from zeropoint.pipeline import Options, quantize

MODEL = str(DIGITS / "digits.onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo as a file for each runtime, and four images."""
    made = tmp_path_factory.mktemp("exported")
    for target, name in (("onnxruntime", "d.q.onnx"), ("litert", "d.tflite")):
        export_program(quantized_digits(target).propagated, made / name)
    np.savez(made / "data.npz", image=np.concatenate([sample["image"] for sample in images("test", 4)]))
    return made


def answer(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_origin_of_a_file_is_in_its_metadata(folder: Path) -> None:
    assert origin_of(folder / "d.q.onnx") == Origin("onnxruntime", "onnxruntime")
    assert origin_of(folder / "d.tflite") == Origin("litert", "fixed32-double")
    assert origin_of(Path(MODEL)) is None


def counted(monkeypatch: pytest.MonkeyPatch, *kinds: type) -> list[str]:
    """The names of the kinds of files that are run from now on, a name each time."""
    seen: list[str] = []

    def count(kind: type) -> None:
        run = kind.__call__

        def call(self, inputs, **more):  # pyright: ignore (a stand-in for a runtime)
            seen.append(kind.__name__)
            return run(self, inputs, **more)

        monkeypatch.setattr(kind, "__call__", call)

    for kind in kinds:
        count(kind)
    return seen


def test_two_exported_files_are_compared_each_in_its_runtime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zeropoint.export.litert.runtime import LiteRTFile
    from zeropoint.export.onnx.runtime import OnnxFile

    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    seen = counted(monkeypatch, LiteRTFile, OnnxFile)
    found = answer("compare", folder / "d.q.onnx", folder / "d.tflite", "--data", folder / "data.npz")
    assert found.exit_code == 0, found.output
    assert seen == ["OnnxFile", "LiteRTFile"] * 4


@pytest.mark.parametrize("name", ["d.q.onnx", "d.tflite"])
def test_the_fixed_shape_of_an_exported_file_is_not_asked_again(folder: Path, name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    model = onnx.load(MODEL)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, tmp_path / "dynamic.onnx")
    found = answer("compare", tmp_path / "dynamic.onnx", folder / name, "--data", folder / "data.npz")
    assert found.exit_code == 0, found.output


def test_a_file_for_openvino_is_compared_in_openvino(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeropoint.export.onnx.openvino import OpenVinoFile

    pytest.importorskip("openvino")
    export_program(quantized_digits("openvino").propagated, tmp_path / "d.q.onnx")
    seen = counted(monkeypatch, OpenVinoFile)
    found = answer("compare", MODEL, tmp_path / "d.q.onnx", "--data", folder / "data.npz")
    assert found.exit_code == 0, found.output
    assert seen == ["OpenVinoFile"] * 4


def test_nan_in_an_integer_input_is_its_zero_point_as_in_the_program(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    from zeropoint.export.litert.runtime import LiteRTFile

    export_program(quantized_digits("litert").propagated, tmp_path / "d.tflite", ExportOptions(integer_io=True))
    (sample,) = images("test", 1)
    zeros, unknown = sample["image"].copy(), sample["image"].copy()
    zeros[..., 10:14, :], unknown[..., 10:14, :] = 0, np.nan
    file = LiteRTFile(tmp_path / "d.tflite")
    expected, found = (file({"image": image}) for image in (zeros, unknown))
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("name", ["d.q.onnx", "d.tflite"])
def test_a_report_of_an_exported_file_is_that_of_its_program(folder: Path, name: str, tmp_path: Path) -> None:
    arguments = ("--reference", MODEL, "--data", folder / "data.npz", "--no-timing")
    found = answer("report", folder / name, "-o", tmp_path / "r.json", *arguments)
    assert found.exit_code == 0, found.output
    text = (tmp_path / "r.json").read_text()
    assert '"block.project.conv"' in text
    assert "SQNR" in text or "sqnr" in text


@pytest.mark.parametrize("name", ["d.q.onnx", "d.tflite"])
def test_explain_shows_the_program_of_an_exported_file(folder: Path, name: str) -> None:
    found = answer("explain", folder / name)
    assert found.exit_code == 0, found.output
    assert "!quant.uniform<i8:f32" in found.output
    assert " depthwise_convolution " in found.output
    assert not re.search(r" f32 ", found.output)


@pytest.mark.parametrize("name", ["d.q.onnx", "d.tflite"])
def test_a_file_is_exported_again_as_the_same_bytes(folder: Path, name: str, tmp_path: Path) -> None:
    """The file has transposes at inputs for channels last, and names for weights. They are not added a second time."""
    found = answer("export", folder / name, "-o", tmp_path / name)
    assert found.exit_code == 0, found.output
    assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_a_quantized_file_with_open_sizes_is_exported_and_reported_for_given_ones(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y)
        <float scale = {0.5}, int8 zero = {3}>
        {
            q = QuantizeLinear(x, scale, zero)
            d = DequantizeLinear(q, scale, zero)
            r = Relu(d)
            s = QuantizeLinear(r, scale, zero)
            y = DequantizeLinear(s, scale, zero)
        }"""
    theirs, made = tmp_path / "open.onnx", tmp_path / "made.onnx"
    onnx.save(onnx.parser.parse_model(text), theirs)
    refused = answer("export", theirs, "-o", made)
    assert refused.exit_code == 2
    assert "--shape x=" in refused.output
    assert answer("export", theirs, "-o", made, "--shape", "x=2x4").exit_code == 0
    assert answer("report", theirs, "-o", tmp_path / "page.html", "--shape", "x=2x4").exit_code == 0
    x = np.random.default_rng(0).normal(0, 20, (2, 4)).astype(np.float32)
    np.testing.assert_array_equal(OnnxFile(made)({"x": x})["y"], OnnxFile(theirs)({"x": x})["y"])


def test_an_option_that_the_file_decides_is_refused(folder: Path) -> None:
    found = answer("explain", folder / "d.tflite", "--target", "cpu")
    assert (found.exit_code, found.output.count("\n")) == (2, 1), found.output
    assert "litert" in found.output


def test_a_broken_tflite_file_never_reaches_the_runtime(folder: Path, tmp_path: Path) -> None:
    content = (folder / "d.tflite").read_bytes()
    (tmp_path / "cut.tflite").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"cut\.tflite: "):
        origin_of(tmp_path / "cut.tflite")
    found = answer("compare", MODEL, tmp_path / "cut.tflite", "--data", folder / "data.npz")
    assert (found.exit_code, found.output.count("\n")) == (2, 1), found.output


def test_an_output_of_the_signature_that_the_graph_does_not_return_is_refused(folder: Path, tmp_path: Path) -> None:
    """LiteRT has no values for it; the ValueError of its `get_tensor` was an internal error."""
    pytest.importorskip("ai_edge_litert", reason="has the schema of .tflite files")
    flatbuffers, found = pytest.importorskip("flatbuffers", reason="writes the changed file"), schema()
    model = found.ModelT.InitFromObj(found.Model.GetRootAsModel((folder / "d.tflite").read_bytes(), 0))
    (graph,) = model.subgraphs
    graph.outputs = np.array([graph.operators[0].outputs[0]], np.int32)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    (tmp_path / "other.tflite").write_bytes(bytes(builder.Output()))
    ran = answer("compare", MODEL, tmp_path / "other.tflite", "--data", folder / "data.npz")
    assert (ran.exit_code, ran.output.count("\n")) == (2, 1), ran.output
    assert "in the file's signature, which its graph does not return" in ran.output


QUOTIENT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}, %d: tensor<1x4xf32> {zeropoint.name = "d"})
    -> (tensor<1x4xf32> {zeropoint.name = "y"}) {
  %y = stablehlo.divide %x, %d : tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}
"""


def test_a_sample_that_ends_the_runtimes_run_is_an_error_of_the_sample(tmp_path: Path) -> None:
    """LiteRT refuses to divide by 0, and onnxruntime to gather past the end."""
    whole = {"x": np.array([[0.0, 1, 2, 3]], np.float32), "d": np.array([[1.0, 1.2, 1.4, 2]], np.float32)}
    export_program(
        quantize(parse_program(QUOTIENT), [whole], Options(target="litert")).propagated, tmp_path / "q.tflite"
    )
    file = LiteRTFile(tmp_path / "q.tflite")
    assert set(file(whole)) == {"y"}
    with pytest.raises(ExportError, match=r"q\.tflite: LiteRT failed on this sample: .*DIV"):
        file({**whole, "d": np.zeros((1, 4), np.float32)})
    table = onnx.numpy_helper.from_array(np.zeros((3, 2), np.float32), "t")
    kinds = (("i", onnx.TensorProto.INT64, [1]), ("y", onnx.TensorProto.FLOAT, [1, 2]))
    ports = [onnx.helper.make_tensor_value_info(*kind) for kind in kinds]
    gather = onnx.helper.make_node("Gather", ["t", "i"], ["y"])
    graph = onnx.helper.make_graph([gather], "g", ports[:1], ports[1:], [table])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "g.onnx")
    with pytest.raises(ExportError, match=r"g\.onnx: onnxruntime failed on this sample: "):
        OnnxFile(tmp_path / "g.onnx")({"i": np.array([7])})


IMAGES = """func.func @main(%x: tensor<1x3x4x4xf32> {zeropoint.name = "x"}) -> tensor<1x3x4x4xf32> {
  %w = stablehlo.constant dense<0.25> : tensor<3x3x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  return %0 : tensor<1x3x4x4xf32>
}
"""
ORDERS = (
    *("5", "null", "[1]", '"inputs"', '{"inputs": 5}', '{"inputs": {"x": 5}}', '{"inputs": {"x": "abcd"}}'),
    *('{"inputs": {"x": [0, 1]}}', '{"inputs": {"x": [0, 1, 2, 9]}}', '{"inputs": {"x": [0, 0, 1, 1]}}'),
    *('{"inputs": {"x": [1e99, 0, 1, 2]}}', '{"inputs": {"x": [[0], 1, 2, 3]}}', '{"inputs": {"x": [0, 1, 2, true]}}'),
)


def test_broken_orders_of_dimensions_in_a_files_metadata_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    float_path, data, made = (tmp_path / name for name in ("float.mlir", "data.npz", "made.tflite"))
    float_path.write_text(IMAGES)
    np.savez(data, x=np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32))
    arguments = ["quantize", float_path, "--data", data, "--effort", "none", "--target", "litert", "-o", made]
    assert CliRunner().invoke(main, list(map(str, arguments))).exit_code == 0
    compare = ["compare", str(float_path), str(made), "--data", str(data)]
    assert CliRunner().invoke(main, compare).exit_code == 0
    content = made.read_bytes()
    (metadata,) = re.findall(rb'\{[^\0]*"orders": [^\0]*\}', content)
    for orders in ORDERS:
        edited = f'{{"target": "litert", "profile": "litert", "orders": {orders}'.encode()
        made.write_bytes(content.replace(metadata, edited.ljust(len(metadata) - 1) + b"}"))
        ran = CliRunner().invoke(main, compare)
        assert ran.exit_code == 2, orders
        assert "found shape [1, 3, 4, 4] for input 'x', expected [1, 4, 4, 3]; its metadata may be broken" in ran.output
