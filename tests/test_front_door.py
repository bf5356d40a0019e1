"""What users guess of the Python API, through `import zeropoint as zp` alone."""

from __future__ import annotations

import copy
import cProfile
import json
import logging
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter, length_hint
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.calibrate.data import _warn_unread  # pyright: ignore[reportPrivateUsage]: warns once a process
from zeropoint.ir.tensors import element_dtype
from zeropoint.ir.text import print_program

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
IMAGES = np.load(DIGITS / "calib.npz")["image"][:12].astype(np.float32)
TEXT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> (tensor<1x4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.add %x, %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""
ROWS = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)


def _small() -> onnx.ModelProto:
    """Three kernels with the input and output of digits.onnx, which takes four times as long to quantize."""
    rng = np.random.default_rng(0)
    shapes = {"filters": (4, 1, 7, 7), "weights": (64, 10)}
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["features"], "conv", strides=[7, 7]),
        helper.make_node("Flatten", ["features"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"], "dense"),
        helper.make_node("Softmax", ["scores"], ["probabilities"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 28, 28])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [
            numpy_helper.from_array(rng.normal(size=shape).astype(np.float32) / 8, name)
            for name, shape in shapes.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


SMALL = _small()


@pytest.fixture(scope="module")
def integers() -> zp.Model:
    return zp.quantize(SMALL, IMAGES, effort="none")


def test_a_path_and_an_array_are_enough(integers: zp.Model) -> None:
    assert isinstance(integers, zp.Model)
    assert list(integers(IMAGES[0])) == ["probabilities"]


def test_a_float_model_is_compared_at_the_shapes_that_a_program_was_quantized_for(tmp_path: Path) -> None:
    """The model has other static dimensions."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["y"])]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 1, 1])]
    proto = helper.make_model(
        helper.make_graph(nodes, "pool", ports, result), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    data = np.random.default_rng(0).normal(size=(6, 2, 5, 12)).astype(np.float32)
    model = zp.quantize(proto, data, shapes={"x": (1, 2, 5, 12)}, effort="none")
    assert zp.compare(proto, model, data).outputs[0].sqnr > 30
    onnx.save(proto, tmp_path / "pool.onnx")
    model.report(tmp_path / "report.json", reference=tmp_path / "pool.onnx", data=data, timing=False)


@pytest.mark.parametrize(
    "data",
    [
        {"image": IMAGES},
        [(image, 3) for image in IMAGES],
        [IMAGES[:5], IMAGES[5:]],
        lambda: iter(IMAGES),
    ],
    ids=["dict", "labelled", "batches", "function"],
)
def test_every_form_of_the_data_gives_the_same_program(integers: zp.Model, data: zp.Data) -> None:
    found = zp.quantize(SMALL, data, effort="none")
    np.testing.assert_array_equal(found(IMAGES)["probabilities"], integers(IMAGES)["probabilities"])


def test_an_onnx_model_in_memory_is_the_model_in_its_file() -> None:
    model = onnx.load(DIGITS / "digits.onnx")
    before = model.SerializeToString()
    image = IMAGES[:1]
    np.testing.assert_array_equal(
        zp.load(model)(image)["probabilities"], zp.load(DIGITS / "digits.onnx")(image)["probabilities"]
    )
    assert model.SerializeToString() == before
    model.graph.node[0].op_type = "Unheard"
    with pytest.raises(zp.Error, match=r"^\S.*Unheard"):
        zp.load(model)


def test_nan_at_a_quantized_input_counts_as_zero_in_every_engine(integers: zp.Model) -> None:
    image, expected = IMAGES[0].copy(), IMAGES[0].copy()
    image[..., 2:5], expected[..., 2:5] = np.nan, 0
    for model in (integers.interpreted(), integers.native()):
        np.testing.assert_array_equal(model(image)["probabilities"], model(expected)["probabilities"])


def test_stablehlo_text_is_a_model() -> None:
    integers = zp.quantize(TEXT, ROWS)
    np.testing.assert_allclose(integers(ROWS)["y"], 2 * ROWS, atol=0.02)
    with pytest.raises(zp.Error, match="text"):
        zp.load("func.func @main( {")


def test_what_is_no_model_is_refused_with_what_one_may_be() -> None:
    with pytest.raises(zp.Error, match=r"found dict, expected a path, an onnx\.ModelProto, StableHLO text"):
        zp.load({})
    with pytest.raises(zp.Error, match="found example inputs for str"):
        zp.load(TEXT, example=ROWS)
    with pytest.raises(ValueError, match="found shapes, constants or an example for a Model"):
        zp.quantize(zp.load(TEXT), ROWS, shapes={"x": (1, 4)})


def test_a_batch_gives_stacked_outputs(integers: zp.Model) -> None:
    stacked = integers(image=IMAGES)["probabilities"]
    assert stacked.shape == (12, 10)
    for row, image in zip(stacked, IMAGES, strict=True):
        np.testing.assert_array_equal(row, integers(image=image[np.newaxis])["probabilities"][0])


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ((IMAGES, IMAGES), {}, "found 2 arrays, expected 1: image"),
        ((IMAGES,), {"image": IMAGES}, "found input 'image' twice, by position and by name"),
        ((), {"picture": IMAGES}, "found inputs picture; expected image"),
        (
            (IMAGES[:, :, :5],),
            {},
            "found shape .* expected .*; it has another number of elements: resize, crop or pad it",
        ),
        ((IMAGES.astype(np.uint8),), {}, "found dtype uint8, expected float32"),
        (({"before": IMAGES, "after": IMAGES},), {}, "data: found 'before', 'after'; expected 'image'"),
        (({1: IMAGES},), {}, "data: found the key 1, expected strings; name each array after its input"),
        ((), {"image": {"image": IMAGES}}, r"input image: found a dict, expected an array; .* model\(\*\*arrays\)"),
        (("nowhere.npz",), {}, "nowhere.npz: found no such file; expected an .npz file or a folder of .npy files"),
        ((), {"image": "text"}, "input image: found str, expected an array of numbers"),
        ((IMAGES, "text"), {}, "found 2 arrays, expected 1: image"),
        ((np.array([None]),), {}, "input image: found object, expected an array of numbers"),
        (([[1.0, 2.0], [3.0]],), {}, "input image: found lists of different lengths, expected an array of numbers"),
        ((IMAGES[:0],), {}, "input image: found no samples, expected at least one"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(integers: zp.Model, arrays, named, message: str) -> None:
    with pytest.raises(zp.Error, match=message):
        integers(*arrays, **named)


@pytest.mark.parametrize(("first", "second"), [(1, 8), (8, 3)])
def test_inputs_of_different_numbers_of_samples_are_refused_by_these(first: int, second: int) -> None:
    two = zp.load(
        TEXT.replace("%x: tensor", '%b: tensor<1x4xf32> {zeropoint.name = "b"}, %x: tensor').replace("add %x", "add %b")
    )
    with pytest.raises(zp.Error, match=f"found samples: {first} of 'b', {second} of 'x'; expected the same"):
        two(b=ROWS[:first], x=ROWS[:second])


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_floats_of_other_widths_are_converted_as_those_of_calibration(integers: zp.Model, dtype: type) -> None:
    given = np.random.default_rng(0).normal(size=IMAGES.shape).astype(dtype)
    wanted = integers(given.astype(np.float32))["probabilities"]
    np.testing.assert_array_equal(integers(given)["probabilities"], wanted)
    np.testing.assert_array_equal(integers(image=given[0])["probabilities"], wanted[:1])


@pytest.mark.parametrize("by_name", [False, True])
def test_a_loop_over_one_shape_reads_the_types_of_the_program_once(
    by_name: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 80 us a call, a tenth of the run time of a small network."""
    model = zp.load(TEXT).native()
    row = ROWS[:1]
    expected = model(x=row)["y"]
    monkeypatch.setattr(type(model.program), "main", property(lambda _: pytest.fail("the program was read again")))
    np.testing.assert_array_equal((model(x=row) if by_name else model(row))["y"], expected)


def test_a_call_takes_whatever_quantize_takes_as_data(integers: zp.Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", image=IMAGES, label=np.arange(12))
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "image.npy", IMAGES)
    expected = integers(IMAGES)["probabilities"]
    for data in (
        str(tmp_path / "data.npz"),
        tmp_path / "folder",
        {"image": IMAGES, "label": np.arange(12)},
        [{"image": image} for image in IMAGES],
        [(image[np.newaxis], 3) for image in IMAGES],
        lambda: ((IMAGES[start : start + 5], None) for start in range(0, 12, 5)),
        iter(IMAGES),
    ):
        np.testing.assert_array_equal(integers(data)["probabilities"], expected)
    assert integers.profile(tmp_path / "data.npz", rounds=1).steps
    one = {"image": IMAGES[0]}  # a sample as it is, without an axis that counts samples
    np.testing.assert_array_equal(integers(one)["probabilities"], expected[:1])


def test_a_model_with_a_batch_axis_takes_data_of_any_size() -> None:
    model = zp.load(TEXT.replace("1x4", "3x4"))
    rows = np.arange(28, dtype=np.float32).reshape(7, 4)
    for data in (rows, {"x": rows}, list(rows), iter([rows[:2], rows[2:]]), [(row, 0) for row in rows]):
        np.testing.assert_array_equal(model(data)["y"], 2 * rows)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f64"])
def test_inputs_and_outputs_keep_the_float_type_of_the_model(kind: str, tmp_path: Path) -> None:
    text = TEXT.replace("xf32", f"x{kind}")
    model = zp.quantize(text, ROWS)
    assert [str(port.type) for port in (*model.inputs, *model.outputs)] == [f"tensor<1x4x{kind}>"] * 2
    assert "1 integer op, 0 float ops" in str(model)
    assert model.explain().float_ops == ()
    row = ROWS[:1].astype(element_dtype(model.inputs[0].type.element_type))
    found = model(x=row)["y"]
    assert found.dtype == row.dtype
    np.testing.assert_array_equal(model.native()(x=row)["y"], found)
    np.testing.assert_array_equal(model.interpreted()(x=row)["y"], found)
    assert zp.compare(text, model, ROWS).outputs[0].sqnr > 40
    assert zp.quantize(text, ROWS, io="integer").outputs[0].type.element_type.bitwidth == 8
    with pytest.raises(zp.Error, match=f"found values of {kind}, expected f32, which LiteRT quantizes"):
        zp.quantize(text, ROWS, target="litert").export(tmp_path / "net.tflite")


def test_completion_shows_every_public_name_and_no_other() -> None:
    assert dir(zp) == sorted(zp.__all__)
    assert all(hasattr(zp, name) for name in dir(zp))


@pytest.mark.parametrize("again", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
def test_models_are_copied_and_pickled(integers: zp.Model, again) -> None:
    other = again(integers)
    assert str(other) == str(integers)
    np.testing.assert_array_equal(other(IMAGES)["probabilities"], integers(IMAGES)["probabilities"])


def test_models_comparisons_and_explanations_read_well_in_a_notebook(integers: zp.Model) -> None:
    text = str(integers)
    assert "inputs  image: tensor<1x1x28x28xf32>" in text
    assert "1 softmax (7 ops) stays float at 'softmax': target cpu has no kernel 'softmax'" in text
    found = zp.compare(DIGITS / "digits.onnx", integers, IMAGES)
    assert "7 float ops" in str(found)
    explained = (integers.explain(), integers.explain("softmax"), integers.bounds(), integers.bounds("dense"))
    for shown in (integers, found, *explained):
        html = shown._repr_html_()
        assert html.startswith("<pre")
        assert html.endswith("</pre>")
        assert "<" not in html.removeprefix("<pre").removesuffix("</pre>").split(">", 1)[1]


def test_the_bounds_of_a_model_are_those_of_the_command(integers: zp.Model) -> None:
    found = integers.bounds("dense")
    assert {(reach.op, len(reach.bound)) for reach in found.reaches} == {
        ("stablehlo.dot_general", 10),
        ("stablehlo.add", 10),
    }
    assert all(headroom > 0 for reach in integers.bounds().reaches for headroom in reach.headroom)
    assert "channel 9: up to" in str(found)
    with pytest.raises(zp.Error, match="found no integer op 'x' in the program"):
        integers.bounds("x")
    with pytest.raises(zp.Error, match="found no integer arithmetic"):
        zp.load(DIGITS / "digits.onnx").bounds()


@pytest.mark.parametrize("count", [1, 4])
def test_channels_on_the_other_side_are_transposed_not_reshaped(count: int) -> None:
    model = zp.load(TEXT.replace("1x4", "1x3x5x6"))
    with pytest.raises(zp.Error, match=r"channels are last, expected first: use \.transpose\(0, 3, 1, 2\)"):
        model(np.zeros((count, 5, 6, 3), np.float32))
    with pytest.raises(zp.Error, match=r"channels are last, expected first: use \.transpose\(2, 0, 1\)"):
        model(np.zeros((5, 6, 3), np.float32))
    assert model(np.zeros((count, 3, 5, 6), np.float32))["y"].shape == (count, 3, 5, 6)


def test_a_model_is_exported_to_the_file_of_another_runtime(tmp_path: Path) -> None:
    model = zp.quantize(DIGITS / "digits.onnx", IMAGES, target="onnxruntime", effort="none")
    path = tmp_path / "digits.q.onnx"
    assert model.export(path, io="integer") == [path]
    (image,) = onnx.load(path).graph.input
    assert image.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    with pytest.raises(ValueError, match="found io 'int', expected one of: float, integer"):
        model.export(path, io="int")


def test_a_model_of_another_target_is_not_exported(integers: zp.Model, tmp_path: Path) -> None:
    with pytest.raises(zp.Error, match="found a program for target 'cpu', expected one for litert"):
        integers.export(tmp_path / "digits.tflite")
    assert not list(tmp_path.iterdir())


def test_an_option_of_files_of_one_format_is_refused_for_others(tmp_path: Path) -> None:
    model = zp.quantize(TEXT, ROWS, target="litert", effort="none")
    with pytest.raises(zp.Error, match=r"found onnx_format 'qoperator' .* net\.tflite, where it changes nothing"):
        model.export(tmp_path / "net.tflite", onnx_format="qoperator")
    with pytest.raises(zp.Error, match=r"found onnx_weights 'u8' .* net\.tflite, where it changes nothing"):
        model.export(tmp_path / "net.tflite", onnx_weights="u8")
    with pytest.raises(zp.Error, match=r"found layout 'model' \(--layout\) with net\.onnx, where it changes nothing"):
        model.export(tmp_path / "net.onnx", layout="model")
    assert not list(tmp_path.iterdir())


def test_a_target_to_explain_a_quantized_model_for_is_refused(integers: zp.Model) -> None:
    with pytest.raises(zp.Error, match="found target 'litert' for a program that is quantized already"):
        integers.explain(target="litert")


def test_a_model_says_where_its_time_goes(integers: zp.Model) -> None:
    timing = integers.profile(IMAGES[:1], rounds=2)
    assert timing.seconds > 0
    assert "dense" in str(timing)
    assert "conv" in str(integers.profile(IMAGES[0, 0][None]))  # a sample without the batch axis


def test_a_model_of_a_scalar_has_times_and_a_report(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.tanh %x : tensor<f32>
      return %0 : tensor<f32>
    }"""
    data = np.linspace(-2, 2, 8, dtype=np.float32)
    integers = zp.quantize(text, data, effort="none")
    assert integers.profile(data, rounds=1).seconds > 0
    assert integers.profile(x=data[0], rounds=1).seconds > 0
    assert integers.report(tmp_path / "scalar.json", data=data, trials=False).exists()


def test_all_samples_of_a_source_are_run(integers: zp.Model) -> None:
    expected = integers(IMAGES)["probabilities"]
    for source in (IMAGES, {"image": IMAGES}, DIGITS / "calib.npz", [{"image": image[np.newaxis]} for image in IMAGES]):
        np.testing.assert_array_equal(integers.run_samples(source)["probabilities"][:12], expected)
    np.testing.assert_array_equal(next(integers.iterate(IMAGES))["probabilities"], expected[:1])


def test_a_report_refuses_what_changes_nothing(integers: zp.Model, tmp_path: Path) -> None:
    loaded = zp.load(integers.save(tmp_path / "m.mlir")[0])
    with pytest.raises(zp.Error, match="found data without a float model, where it changes nothing, expected referenc"):
        loaded.report(tmp_path / "m.html", data=IMAGES)
    with pytest.raises(zp.Error, match="found a mask without data, where it changes nothing"):
        integers.report(tmp_path / "m.html", mask="image")
    with pytest.raises(zp.Error, match="found trials=False without data, where it changes nothing"):
        integers.report(tmp_path / "m.html", trials=False)
    with pytest.raises(zp.Error, match="found trials=False without the stages of quantization, where it changes"):
        loaded.report(tmp_path / "m.html", reference=DIGITS / "digits.onnx", data=IMAGES, trials=False)
    with pytest.raises(zp.Error, match="found stages for a model that was quantized in this process, where it changes"):
        integers.report(tmp_path / "m.html", stages=tmp_path)


def test_a_saved_model_is_reported_with_its_stages_and_for_model_explorer(tmp_path: Path) -> None:
    data = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
    loaded = zp.load(
        zp.quantize(TEXT, data, effort="none", save_stages=tmp_path / "stages").save(tmp_path / "m.mlir")[0]
    )
    path = loaded.report(
        tmp_path / "m.json", data=data, stages=tmp_path / "stages", model_explorer=tmp_path / "explorer", timing=False
    )
    missing = {note["section"] for note in json.loads(path.read_text())["notes"]}
    assert not missing & {"outputs", "before"}  # which the stages have
    assert (tmp_path / "explorer" / "m_graph.json").exists()


def test_words_of_refusals_fit_what_was_found(integers: zp.Model, tmp_path: Path) -> None:
    with pytest.raises(zp.Error, match="found value=3, expected a string"):
        integers.explain(3)  # pyright: ignore[reportArgumentType] (the error is tested)
    with pytest.raises(zp.Error, match="found a program that was not quantized, expected one for onnxruntime"):
        zp.load(TEXT).export(tmp_path / "m.onnx")
    stored = zp.quantize(TEXT, np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), io="integer", effort="none")
    with pytest.raises(zp.Error, match=r"found dtype float32, expected int8 .*; quantize it as `explain` says"):
        stored(np.zeros((1, 4), np.float32))
    with pytest.raises(zp.Error, match="found float32 data, expected int8; quantize it as `explain` says"):
        stored({"x": np.zeros((3, 4), np.float32)})


def test_warnings_are_printed_where_logging_is_not_configured() -> None:
    code = f"import numpy as np, zeropoint as zp; zp.quantize({TEXT!r}, np.zeros((2, 4), np.float32), effort='none')"
    quiet = "import logging; logging.getLogger('zeropoint').setLevel(logging.ERROR); "
    done = [
        subprocess.run([sys.executable, "-c", part], capture_output=True, text=True) for part in (code, quiet + code)
    ]
    assert [one.returncode for one in done] == [0, 0], done
    assert done[0].stderr.startswith("found only zeros in 'x', 'elementwise_unary'; their scales are arbitrary\n")
    assert not done[1].stderr


def test_warnings_are_logged_under_the_name_of_the_package(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "zeropoint"):
        zp.quantize(TEXT, np.zeros((2, 4), np.float32))
    assert {record.name for record in caplog.records} == {"zeropoint"}
    assert "found only zeros" in caplog.text


def test_float_ops_that_must_not_be_are_an_error() -> None:
    with pytest.raises(zp.Error, match=r"found 7 float ops, expected none .*1 softmax"):
        zp.quantize(DIGITS / "digits.onnx", IMAGES, effort="none", integer_only=True)


def test_numbers_that_are_shown_are_rounded() -> None:
    from zeropoint.report.explain.text import short

    assert short("<i8:f32, 0.0578781399>") == "<i8:f32, 0.057878>"
    assert short("<i8:f32, 0.0578786>") == "<i8:f32, 0.057879>"
    assert short("0.9999999") == "1.000000"


def test_importing_the_package_imports_no_compiler() -> None:
    code = (
        "import sys, zeropoint; print([m for m in ('xdsl', 'onnx', 'llvmlite', 'torch', 'numpy') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_quantizing_imports_no_dialects_of_other_compilers() -> None:
    names = [f"xdsl.dialects.{name}" for name in ("affine", "arith", "linalg", "math", "memref", "scf", "tensor")]
    code = (
        "import sys, zeropoint.frontend.onnx, zeropoint.pipeline; "
        f"print([m for m in ('zeropoint.standard', *{names}) if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_the_package_is_typed() -> None:
    assert Path(zp.__file__).with_name("py.typed").is_file()
    assert all(hasattr(zp, name) for name in zp.__all__)


def embedding() -> onnx.ModelProto:
    """Ids of 2 tokens of 10, their rows of 4 numbers, a dense layer."""
    table, weight = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((10, 4), (4, 3)))
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (int64[1,2] ids) => (float[1,2,3] y)
        { rows = Gather(table, ids)  y = MatMul(rows, weight) }"""
    )
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in (("table", table), ("weight", weight))
    )
    return model


def test_token_ids_past_the_embedding_are_refused(tmp_path: Path) -> None:
    expected = "found 10, expected indices from -10 to 9"
    good, bad = np.array([[1, -10], [9, 0]]), np.array([[1, 2], [10, 0]])
    with pytest.raises(zp.Error, match=expected):
        zp.quantize(embedding(), bad, effort="none")
    zp.quantize(embedding(), good, effort="none").save(tmp_path / "model.mlir")
    saved = zp.load(tmp_path / "model.mlir")
    assert saved(good)["y"].shape == (2, 2, 3)
    with pytest.raises(zp.Error, match=expected):
        saved(ids=bad[1])


def test_one_sample_as_data_is_told_to_be_one() -> None:
    with pytest.raises(zp.Error, match=r"expected .* for n samples; this is one sample: pass several"):
        zp.quantize(SMALL, IMAGES[0].reshape(1, 28, 28), effort="none")


def test_a_file_of_tosa_is_refused_with_what_runs_it(tmp_path: Path) -> None:
    (tmp_path / "model.tosa.mlir").touch()
    with pytest.raises(
        zp.Error, match=r"found TOSA, which zeropoint writes and does not read, .* `zeropoint compare` runs"
    ):
        zp.load(tmp_path / "model.tosa.mlir")


def test_a_bias_is_explained_by_its_own_name() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1,4] x) => (float[1,3] y) { y = Gemm(x, weight, bias) }"""
    )
    constants = {"weight": WEIGHT, "bias": np.array([1, 2, 3], np.float32)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    quantized = zp.quantize(model, ROWS, effort="none")
    assert str(quantized.explain("bias")) == str(quantized.explain("weight")) == str(quantized.explain("y"))
    with pytest.raises(zp.Error, match=r"found no value 'bais' in the program, expected .* as 'bias'"):
        quantized.explain("bais")


def test_ids_past_the_rows_of_a_gather_nd_are_refused() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (int64[1,2] ids) => (float[1,2,3] y)
        { column = Unsqueeze(ids, last)  rows = GatherND(table, column)  y = MatMul(rows, weight) }"""
    )
    model.graph.initializer.extend(
        [*embedding().graph.initializer, onnx.numpy_helper.from_array(np.array([-1]), "last")]
    )
    with pytest.raises(zp.Error, match="found 10, expected indices from -10 to 9"):
        zp.quantize(model, np.array([[1, 2], [10, 0]]), effort="none")


@pytest.mark.parametrize(
    ("shifted", "found", "expected"),
    [
        ("Add(ids, one)", 9, "found 9, expected indices from -11 to 8"),
        ("Add(one, ids)", 9, "found 9, expected indices from -11 to 8"),
        ("Sub(ids, one)", -10, "found -10, expected indices from -9 to 10"),
    ],
)
def test_ids_plus_a_number_are_refused_past_the_embedding(shifted: str, found: int, expected: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (int64[1,2] ids) => (float[1,2,3] y)
        {{ moved = {shifted}  rows = Gather(table, moved)  y = MatMul(rows, weight) }}"""
    )
    model.graph.initializer.extend([*embedding().graph.initializer, onnx.numpy_helper.from_array(np.array(1), "one")])
    quantized = zp.quantize(model, np.array([[1, 2], [8, 0]]), effort="none")
    with pytest.raises(zp.Error, match=expected):
        quantized(np.array([1, found]))


WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def of_batch(size: int) -> zp.Model:
    """A dense layer with a batch axis of this size, quantized."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,3] y) { y = MatMul(x, w) }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    return zp.quantize(model, ROWS, shapes={"x": (size, 4)}, effort="none", observer="minmax")


@pytest.mark.parametrize("count", [1, 4, 6, 8])
def test_a_model_with_a_batch_takes_any_number_of_samples(count: int) -> None:
    one, four = of_batch(1), of_batch(4)
    np.testing.assert_array_equal(four(ROWS[:count])["y"], one(ROWS[:count])["y"])
    np.testing.assert_array_equal(four(ROWS[0])["y"], one(ROWS[0])["y"])
    assert four.profile(ROWS[:count], rounds=1).seconds > 0


def test_samples_are_counted_not_batches() -> None:
    reference = zp.load(
        onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["": 17]> g (float[4,4] x) => (float[4,4] y) { y = Neg(x) }"""
        )
    )
    found = zp.compare(reference, reference, ROWS)
    assert found.samples == 8
    assert found.outputs[0].top1 == 1.0


def test_an_output_without_a_batch_axis_takes_whole_batches_only() -> None:
    text = TEXT.replace("1x4", "2x4").replace("stablehlo.add %x, %x", "stablehlo.negate %x")
    model = zp.load(
        text.replace("-> (tensor<2x4xf32>", "-> (tensor<4x2xf32>")
        .replace("negate %x : tensor<2x4xf32>", "transpose %x, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>")
        .replace("return %0 : tensor<2x4xf32>", "return %0 : tensor<4x2xf32>")
    )
    assert model(ROWS[:2])["y"].shape == (4, 2)
    with pytest.raises(
        zp.Error, match="found 3 samples, expected 2, the batch of the model: its output 'y' has no batch"
    ):
        model(ROWS[:3])


@pytest.mark.parametrize("target", ["cpu", "stablehlo", "litert-16x8"])
def test_stored_weights_have_the_names_of_the_model(target: str, tmp_path: Path) -> None:
    made = zp.quantize(DIGITS / "digits.onnx", IMAGES[:4], target=target, effort="none", save_stages=tmp_path)
    assert made.quantization is not None
    with safetensors.safe_open(tmp_path / "1-fused.safetensors", "np") as floats:
        names = set(floats.keys())
    for stage in ("5-quantized", "6-integer"):
        with safetensors.safe_open(tmp_path / f"{stage}.safetensors", "np") as stored:
            found = set(stored.keys())
        assert found >= {name for name in names if name.endswith("weight")}
        assert not [name for name in found if re.fullmatch("w[0-9a-f]{20}", name)]


@pytest.mark.parametrize("target", ["cpu", "litert"])
def test_every_value_of_every_stage_has_a_name_of_the_model(target: str, tmp_path: Path) -> None:
    zp.quantize(DIGITS / "digits.onnx", IMAGES[:4], target=target, effort="none", save_stages=tmp_path)
    stages = sorted(tmp_path.glob("*.mlir"))
    assert len(stages) == 6
    assert not [line for stage in stages for line in stage.read_text().splitlines() if re.search(r"%\d", line)]
    text = stages[-1].read_text()
    assert "%image_1 = stablehlo.uniform_quantize %image " in text
    assert "%stem_norm_2 = stablehlo.broadcast_in_dim %stem_norm_1, dims = [1]" in text
    assert re.search(r"%stem_norm = stablehlo.add %stem_conv_\d+, %stem_norm_2 ", text)
    zp.load(stages[-1]).save(tmp_path / "again.mlir")
    assert (tmp_path / "again.mlir").read_text() == text


class Frame:
    """A data frame as pandas has it: columns whose elements may be arrays of arrays."""

    def __init__(self, columns: dict[str, list]) -> None:
        self._columns, self.columns, self.iloc = columns, list(columns), None

    def to_dict(self) -> dict:
        return self._columns

    def __getitem__(self, name: str) -> np.ndarray:
        column = np.empty(len(self._columns[name]), object)
        for row, value in enumerate(self._columns[name]):
            column[row] = np.array([*value, None], object)[:-1] if isinstance(value, list) else value
        return column


class ArrowTable:
    """A table as Arrow has it."""

    def __init__(self, columns: dict[str, list]) -> None:
        self._columns = columns

    def to_pydict(self) -> dict[str, list]:
        return self._columns


class Split:
    """A dataset as Hugging Face has it."""

    column_names = ("image", "label")

    def __init__(self, items: list) -> None:
        self._items = items

    def __iter__(self):
        return iter(self._items)


def _columns(name: str, images: np.ndarray) -> dict[str, list]:
    return {name: list(images.tolist()), "label": list(range(len(images))), "text": ["a digit"] * len(images)}


@pytest.mark.parametrize("name", ["image", "pixel_values"])
@pytest.mark.parametrize("form", [Frame, ArrowTable, dict])
def test_rows_of_datasets_in_any_format_are_taken_and_a_single_input_needs_no_name(integers, form, name: str) -> None:
    made = zp.quantize(SMALL, Split([form(_columns(name, IMAGES[n : n + 4])) for n in (0, 4, 8)]), effort="none")
    assert print_program(made.program) == print_program(integers.program)


@pytest.mark.parametrize("name", ["image", "pixel_values"])
@pytest.mark.parametrize("form", [Frame, ArrowTable, dict])
def test_a_table_as_a_whole_is_taken_and_a_single_input_needs_no_name(integers, form, name: str) -> None:
    made = zp.quantize(SMALL, form(_columns(name, IMAGES[:12])), effort="none")
    assert print_program(made.program) == print_program(integers.program)


@pytest.mark.parametrize("name", ["image", "arr_0"])
def test_files_of_a_single_input_may_have_the_names_of_unnamed_arrays(integers, name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **{name: IMAGES[:12], "arr_1": np.arange(12)})
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / f"{name}.npy", IMAGES[:12])
    for data in ("data.npz", "folder"):
        made = zp.quantize(SMALL, tmp_path / data, effort="none")
        assert print_program(made.program) == print_program(integers.program)


def test_a_file_with_another_name_than_that_of_the_only_input_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", img=IMAGES[:4])
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "img.npy", IMAGES[:4])
    for data in ("data.npz", "folder"):
        with pytest.raises(zp.Error, match="found 'img'; expected 'image'; name each array after its input"):
            zp.quantize(SMALL, tmp_path / data, effort="none")


@pytest.mark.parametrize("form", [Frame, ArrowTable])
def test_the_columns_of_a_table_are_the_features_of_a_single_input(form) -> None:
    text = """func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
      %0 = stablehlo.tanh %x : tensor<1x3xf32>
      return %0 : tensor<1x3xf32>
    }"""
    rows = np.random.default_rng(0).normal(0, 1, (20, 3)).astype(np.float32)
    columns = {name: rows[:, n].tolist() for n, name in enumerate(("width", "height", "age"))}
    expected = print_program(zp.quantize(text, rows[:, None], effort="none").program)
    parts = [form({name: values[part] for name, values in columns.items()}) for part in (slice(9), slice(9, 20))]
    for data in (form(columns), parts):
        assert print_program(zp.quantize(text, data, effort="none").program) == expected
    with pytest.raises(zp.Error, match="found 'width', 'height', 'age', 'price'; expected 'x'"):
        zp.quantize(text, form({**columns, "price": [1.0] * 20}), effort="none")


@pytest.mark.parametrize(
    "data",
    [
        {"image": IMAGES[:4], "imgae": IMAGES[:4], "label": np.arange(4), "text": ["a digit"] * 4},
        [{"image": image, "imgae": image[0], "label": 3} for image in IMAGES[:4]],
        [({"image": IMAGES[:4], "imgae": IMAGES[:4], "label": np.arange(4)}, np.arange(4))],
    ],
)
def test_an_array_that_no_input_reads_is_named_once(data, caplog: pytest.LogCaptureFixture) -> None:
    _warn_unread.cache_clear()
    for _ in range(2):
        zp.quantize(SMALL, data, effort="none")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "data: found 'imgae', which no input reads; the inputs are 'image'"


def test_labels_are_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", image=IMAGES[:4], labels=np.arange(4), names=np.array(list("abcd")))
    forms = [(IMAGES[0], 3), (IMAGES[:2], np.ones((2, 10), np.float32)), {"image": IMAGES[0], "label": 3, "id": "a"}]
    for data in (tmp_path / "data.npz", *([form] for form in forms)):
        zp.quantize(SMALL, data, effort="none")
    assert not caplog.records


def test_a_name_is_needed_where_several_columns_fit() -> None:
    item = {"before": IMAGES[0], "after": IMAGES[1]}
    with pytest.raises(zp.Error, match="found 'before', 'after'; expected 'image'; name each array after its input"):
        zp.quantize(SMALL, [item], effort="none")


def test_a_dict_of_one_sample_gives_outputs_in_their_shapes() -> None:
    """The state of a recurrent network has no batch axis in front, so its results would be stacked."""
    model = zp.load("""func.func @main(%x: tensor<1x3xf32> {zeropoint.name = "x"}, %s: tensor<2x1x3xf32>
        {zeropoint.name = "s"}) -> (tensor<1x3xf32> {zeropoint.name = "y"}, tensor<2x1x3xf32> {zeropoint.name = "t"}) {
      %0 = stablehlo.tanh %x : tensor<1x3xf32>
      %1 = stablehlo.tanh %s : tensor<2x1x3xf32>
      return %0, %1 : tensor<1x3xf32>, tensor<2x1x3xf32>
    }""")
    sample = {"x": np.ones((1, 3), np.float32), "s": np.ones((2, 1, 3), np.float32)}
    assert {name: array.shape for name, array in model(sample).items()} == {"y": (1, 3), "t": (2, 1, 3)}
    batch = {name: np.stack([array] * 4) for name, array in sample.items()}
    assert {name: array.shape for name, array in model(batch).items()} == {"y": (4, 3), "t": (4, 2, 1, 3)}


def test_a_dict_of_one_sample_gives_the_same_shapes_with_indices_numbers_and_other_dtypes() -> None:
    model = zp.load("""func.func @main(%x: tensor<3xi64> {zeropoint.name = "x"}, %t: tensor<f32> {zeropoint.name = "t"})
        -> (tensor<3x2xf32> {zeropoint.name = "y"}, tensor<f32> {zeropoint.name = "u"}) {
      %table = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
      %0 = "stablehlo.gather"(%table, %x) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}>
        : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
      %1 = stablehlo.tanh %t : tensor<f32>
      return %0, %1 : tensor<3x2xf32>, tensor<f32>
    }""")
    for x in (np.arange(3), np.arange(3, dtype=np.int32), [0, 1, 2]):
        for t in (np.array(1.0, np.float32), np.float64(1.0), 1.0):
            for found in (model({"x": x, "t": t}), model({"x": x, "t": t, "label": 3}), model(x=x, t=t)):
                assert {name: array.shape for name, array in found.items()} == {"y": (3, 2), "u": ()}


def test_a_dict_of_datasets_is_refused_with_the_way_to_one() -> None:
    with pytest.raises(zp.Error, match=r"found a dict of datasets \('train', 'test'\), expected one.*data\['train'\]"):
        zp.quantize(SMALL, {"train": Split([]), "test": Split([])}, effort="none")


@pytest.mark.parametrize(
    "form", [lambda image: {"picture": image, "label": 3}, lambda image: (image, 3), lambda image: image]
)
def test_undecoded_images_are_refused_with_what_preprocesses_them(form) -> None:
    pillow = pytest.importorskip("PIL.Image")
    image = pillow.fromarray((IMAGES[0].reshape(28, 28) * 15).astype(np.uint8))
    with pytest.raises(zp.Error, match=r"found an image of Pillow, expected an array, preprocessed.*zp.Images\("):
        zp.quantize(SMALL, [form(image)], effort="none")


@pytest.mark.parametrize("shape", [(4, 3, 28, 28), (3, 28, 28), (1, 3, 28, 28)])
def test_images_with_other_channels_are_named_as_such(integers: zp.Model, shape: tuple[int, ...]) -> None:
    for run in (lambda data: zp.quantize(SMALL, [data], effort="none"), integers):
        with pytest.raises(zp.Error, match="its channels differ: found 3, expected 1; convert the images"):
            run(np.zeros(shape, np.float32))


def test_a_shape_is_written_one_way(integers: zp.Model) -> None:
    with pytest.raises(
        zp.Error, match=r"found shape 28x27, expected 1x1x28x28 \(tensor<1x1x28x28xf32>\); it has another"
    ):
        integers(np.zeros((28, 27), np.float32))


def test_a_minimum_that_a_target_cannot_reach_names_one_with_wider_kernels() -> None:
    with pytest.raises(
        zp.Error,
        match=r"has none of the kernels in two widths, .*; name a target with 16-bit kernels, such as litert",
    ):
        zp.quantize(DIGITS / "digits.onnx", IMAGES[:4], effort="none", least_sqnr=90)


class Shown:
    """A progress display that keeps what it was asked to show: the description and the total."""

    def __init__(self) -> None:
        self.bars: list[tuple[str, int]] = []

    def __call__(self, items, description: str):
        self.bars.append((description, length_hint(items, -1)))
        return iter(items)


def test_compiling_shows_how_many_kernels_there_are(
    integers: zp.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEROPOINT_CACHE", str(tmp_path / "cache"))
    first, again = Shown(), Shown()
    integers.compile(tmp_path / "small.o", progress=first)
    ((bar, total),) = first.bars
    assert (bar, total >= 5) == ("compile", True)
    integers.compile(tmp_path / "small.o", progress=again)
    assert again.bars == [("compile", 0)]  # all in the cache


@pytest.mark.parametrize(
    ("target", "name"), [("litert", "a.tflite"), ("onnxruntime", "a.onnx"), ("tosa", "a.tosa.mlir")]
)
def test_exporting_shows_how_many_kernels_there_are(target: str, name: str, tmp_path: Path) -> None:
    shown = Shown()
    made = zp.quantize(DIGITS / "digits.onnx", IMAGES[:4], target=target, effort="none")
    made.export(tmp_path / name, progress=shown)
    ((bar, total),) = shown.bars
    assert (bar, total > 8) == ("export", True)


class Counted:
    """A progress display that counts the calls of functions, and those between two bars: no clock, so no noise."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.hidden: list[int] = []
        self.profile = cProfile.Profile(subcalls=False, builtins=False)
        self._open = self._closed = 0

    @property
    def calls(self) -> int:
        return sum(map(attrgetter("callcount"), self.profile.getstats()))

    def __call__(self, items, description: str):
        self.totals[description] = length_hint(items, -1)
        if not self._open:
            self.hidden.append(self.calls - self._closed)
        self._open += 1
        yield from items
        self._open -= 1
        if not self._open:
            self._closed = self.calls

    def count(self, work: Callable[[], object]) -> None:
        """Do this work, with this display."""
        self.profile.runcall(work)
        self.hidden.append(self.calls - self._closed)


def test_a_quantization_shows_all_of_its_long_steps() -> None:
    zp.quantize(SMALL, IMAGES[:2], effort="fast")  # imports what quantization needs
    shown = Counted()
    shown.count(lambda: zp.quantize(DIGITS / "digits.onnx", IMAGES, progress=shown))
    assert max(shown.hidden) < 0.06 * shown.calls, f"{max(shown.hidden)} of {shown.calls} calls in one wait"
    assert sum(shown.hidden) < 0.2 * shown.calls, f"{sum(shown.hidden)} of {shown.calls} calls"
    assert {"passes", "calibrate", "ranges", "choose ranges", "integer outputs", "kernels", "lower"} <= {*shown.totals}
    assert all(total >= 0 for total in shown.totals.values())


def test_a_report_shows_all_of_its_long_steps(
    integers: zp.Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown = Shown()
    with caplog.at_level(logging.INFO, logger="zeropoint"):
        integers.report(tmp_path / "r.json", data=IMAGES[:2], trials=False, progress=shown)
    assert [bar for bar, _ in shown.bars] == ["compare", "kernels", "passes", "compile", "time"]
    assert all(total >= 0 for _, total in shown.bars)
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line.endswith("...")] == [
        f"measure {step} ..." for step in ("outputs and kernels", "times", "recipe rules")
    ]
    assert integers.report(tmp_path / "r.json", timing=False, progress=True) == tmp_path / "r.json"


def test_a_text_is_read_as_a_file_is(tmp_path: Path) -> None:
    """Constraints as element types hold, and errors have line and column."""
    kind = "tensor<4x!quant.calibrated<f32<-4.0:4.0>>>"
    text = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %a = stablehlo.negate %x : (tensor<4xf32>) -> {kind}
  %r = stablehlo.tanh %a : ({kind}) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""
    path = tmp_path / "model.mlir"
    path.write_text(text)
    first, second = (zp.load(source).program for source in (text, path))
    assert print_program(first) == print_program(second)
    assert "quant.calibrated" in print_program(first)
    wrong = "  %b = stablehlo.slice %x [0:9] : (tensor<4xf32>) -> tensor<9xf32>\n"
    with pytest.raises(zp.Error, match=r"^text:4:\d+: stablehlo\.slice: "):
        zp.load(text.replace("  return", wrong + "  return"))
    with pytest.raises(zp.Error, match=r"^text:2:\d+: "):
        zp.load(text.replace("negate", "negotiate"))


@pytest.mark.parametrize("stem", ["a\0b", "a" * 5000], ids=["NUL", "too long"])
def test_a_name_that_no_file_can_have_is_an_error_of_zeropoint(stem: str) -> None:
    model = zp.load(TEXT)
    calls = {
        "load": lambda: zp.load(f"{stem}.onnx"),
        "save": lambda: model.save(f"{stem}.mlir"),
        "compile": lambda: model.compile(f"{stem}.o"),
        "data": lambda: zp.quantize(model, f"{stem}.npz"),
        "images": lambda: zp.quantize(model, zp.Images(stem)),
        "stages": lambda: zp.quantize(model, ROWS, save_stages=stem),
    }
    for name, call in calls.items():
        with pytest.raises(zp.Error, match=r"^a.*: found an? .*file name .*expected") as error:
            call()
        assert len(str(error.value)) < 160, name
