"""The command line: what it writes, and one clear line with status 2 for every input that is at fault."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

import zeropoint
from zeropoint.cli import main
from zeropoint.frontend.onnx.converters import CONVERTERS

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(0, 1, (20, 6)).astype(np.float32)
SAMPLES = RANDOM.uniform(-1, 1, (5, 6)).astype(np.float32)
FLOAT_TEXT = """func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
WITHOUT_DATA = """func.func @main(%x: tensor<100xf32> {zeropoint.name = "x"}) -> tensor<100xf32> {
  %0 = stablehlo.constant dense_resource<w1> : tensor<100xf32>
  %1 = stablehlo.add %x, %0 : tensor<100xf32>
  return %1 : tensor<100xf32>
}
"""
# A header that promises 400 bytes where there are 40.
SHORT_HEADER = json.dumps({"w1": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}).encode()


def port(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save_model(
    path: str, nodes: list[onnx.NodeProto], inputs: dict[str, list[int | str]], output: list[int | str], **constants
) -> None:
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    ports = [port(name, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "graph", ports, [port("y", output)], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def node(kind: str, inputs: list[str], output: str = "y", **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], name=f"the_{kind.lower()}", **attributes)


def make_files() -> None:
    """Models and data, good and bad, in the working folder."""
    dense = [node("Gemm", ["x", "w"], "a", transB=1), node("Relu", ["a"])]
    save_model("model.onnx", dense, {"x": [1, 6]}, [1, 20], w=WEIGHT)
    save_model("dynamic.onnx", dense, {"x": ["batch", 6]}, ["batch", 20], w=WEIGHT)
    scaled = [node("Gemm", ["x", "w"], "a", transB=1), node("Mul", ["a", "rate"])]
    save_model("scaled.onnx", scaled, {"x": [1, 6], "rate": []}, [1, 20], w=WEIGHT)
    save_model("softmax.onnx", [node("Softmax", ["x"])], {"x": [1, 6]}, [1, 6])
    save_model("sum.onnx", [node("Add", ["a", "b"])], {"a": [1, 6], "b": [1, 6]}, [1, 6])
    save_model("nan.onnx", dense, {"x": [1, 6]}, [1, 20], w=np.where(WEIGHT > 2, np.nan, WEIGHT))
    unsupported = [node("Unique", ["x"], "a"), node("Relu", ["a"], "b"), node("NonZero", ["b"])]
    save_model("unsupported.onnx", unsupported, {"x": [1, 6]}, [2, 6])
    whole = Path("model.onnx").read_bytes()
    Path("truncated.onnx").write_bytes(whole[: len(whole) // 2])
    Path("foreign.onnx").write_text("these are not the bytes you are looking for")
    Path("empty.onnx").touch()
    Path("float.mlir").write_text(FLOAT_TEXT)
    Path("recipe.yaml").write_text("rules:\n- {name: the_relu, quantize: false}\n")
    Path("unmatched.yaml").write_text("rules:\n- {name: the_conv, quantize: false}\n")
    Path("garbage.mlir").write_text("this is no MLIR")
    Path("binary.mlir").write_bytes(bytes(range(256)))
    Path("nothing.mlir").write_text("builtin.module {}")
    Path("unknown.mlir").write_text(FLOAT_TEXT.replace("stablehlo.tanh %x", '"foo.bar"(%x)'))
    Path("invalid.mlir").write_text(FLOAT_TEXT.replace("-> tensor<4xf32>", "-> tensor<5xf32>"))
    Path("no_data.mlir").write_text(WITHOUT_DATA)
    Path("truncated.mlir").write_text(WITHOUT_DATA)
    Path("truncated.safetensors").write_bytes(struct.pack("<Q", len(SHORT_HEADER)) + SHORT_HEADER + bytes(40))
    arrays = {
        "data": {"x": SAMPLES, "label": np.arange(5)},
        "hundred": {"x": np.ones((2, 100), np.float32)},
        "sum": {"a": SAMPLES, "b": SAMPLES},
        "other_names": {"image": SAMPLES, "before": SAMPLES},
        "other_shape": {"x": SAMPLES[:, :4]},
        "other_dtype": {"x": SAMPLES.astype(np.int32)},
        "text": {"x": np.array(["a", "b"])},
        "no_samples": {"x": SAMPLES[:0]},
        "no_arrays": {},
        "nan": {"x": np.where(SAMPLES > 0.9, np.nan, SAMPLES)},
        "infinite": {"x": np.where(SAMPLES > 0.9, np.inf, SAMPLES)},
        "uneven": {"a": SAMPLES, "b": SAMPLES[:3]},
    }
    for name, found in arrays.items():
        np.savez(f"{name}.npz", **found)
    Path("truncated.npz").write_bytes(Path("data.npz").read_bytes()[:200])
    Path("foreign.npz").write_text("no zip")
    Path("folder").mkdir()
    np.save("folder/x.npy", SAMPLES)
    Path("empty_folder").mkdir()


@pytest.fixture(scope="module", autouse=True)
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = Path.cwd()
    folder = tmp_path_factory.mktemp("cli")
    os.chdir(folder)
    make_files()
    done("quantize model.onnx --data data.npz -o quantized.mlir")
    done("quantize model.onnx --data data.npz -o integer_io.mlir --io integer")
    yield folder
    os.chdir(before)


def invoke(command: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, command.split(), input=stdin, prog_name="zeropoint")


def done(command: str, stdin: str | None = None) -> str:
    """What a command prints that succeeds."""
    result = invoke(command, stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def snapshot() -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in Path().rglob("*")}


def refused(command: str, stdin: str | None = None) -> str:
    """The one line of a command that refuses its input: status 2, no traceback, nothing written."""
    before = snapshot()
    result = invoke(command, stdin)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("zeropoint: ")
    assert snapshot() == before
    return line.removeprefix("zeropoint: ")


BAD_MODELS = {
    "missing.onnx": "missing.onnx: no such file, expected a model file",
    "folder": "folder: found a directory, expected a model file",
    "data.npz": "data.npz: found suffix '.npz', expected one of: .mlir, .mlirbc, .onnx, .tflite",
    "truncated.onnx": "bytes that are not an ONNX model, or a truncated one, expected an ONNX file",
    "foreign.onnx": "bytes that are not an ONNX model, or a truncated one, expected an ONNX file",
    "empty.onnx": "found 0 bytes without a graph, expected an ONNX file",
    "unsupported.onnx": "2 nodes are not supported: 'the_unique' (Unique): found a result whose size depends on",
    "dynamic.onnx": "input 'x' has a dynamic dimension 0 (batch); give the shape, for example: --shape x=1x6",
    "nan.onnx": "'the_gemm': found NaN or infinities in a constant of shape (20, 6), expected finite numbers",
    "garbage.mlir": "garbage.mlir:1:1: custom op 'this' is unknown",
    "binary.mlir": "binary.mlir: found bytes that are not text, expected MLIR",
    "nothing.mlir": "nothing.mlir: found no function; expected a function @main",
    "unknown.mlir": "unknown.mlir:2:",
    "invalid.mlir": "invalid.mlir:3:3: ",
    "truncated.mlir": "truncated.safetensors: found a truncated or foreign file, expected safetensors",
    "quantized.mlir": "found a program that is quantized already, with profile 'fixed16', expected a float model",
}


@pytest.mark.parametrize("model", BAD_MODELS)
def test_a_bad_model_is_refused_in_one_line_and_nothing_is_written(model: str) -> None:
    assert BAD_MODELS[model] in refused(f"quantize {model} --data data.npz -o out.mlir")


BAD_DATA = {
    "missing.npz": "missing.npz: found no such file; expected an .npz file or a folder of .npy files",
    "model.onnx": "model.onnx: found a file with suffix '.onnx'; expected .npz, or a folder of .npy files",
    "empty_folder": "empty_folder: found a folder with no .npy and no .npz file; expected x.npy",
    "truncated.npz": "expected .npz data; write it again",
    "foreign.npz": "expected .npz data; write it again",
    "other_names.npz": "other_names.npz: found 'image', 'before'; expected 'x'; name each array after its input",
    "other_shape.npz": "input 'x': found shape 5x4, expected nx6 or nx1x6 for n samples; it has another number of "
    "elements: resize, crop or pad it",
    "other_dtype.npz": "input 'x': found int32 data, expected float32; convert it",
    "text.npz": "input 'x': found <U1 data, expected float32",
    "no_samples.npz": "no_samples.npz: found no samples; expected at least one",
    "no_arrays.npz": "no_arrays.npz: found nothing; expected 'x'",
    "nan.npz": "input 'x': found 1 NaN and 0 infinite values in ",
    "infinite.npz": "input 'x': found 0 NaN and 1 infinite values in ",
}


@pytest.mark.parametrize("data", BAD_DATA)
@pytest.mark.parametrize(
    "command",
    [
        "quantize model.onnx --data {} -o out.mlir",
        "run quantized.mlir --input {} -o out.npz",
        "compare model.onnx quantized.mlir --data {}",
    ],
    ids=lambda command: command.split()[0],
)
def test_bad_data_is_refused_in_one_line_and_nothing_is_written(command: str, data: str) -> None:
    assert BAD_DATA[data] in refused(command.format(data))


def test_data_of_a_negative_size_is_refused(tmp_path: Path) -> None:
    array = io.BytesIO()
    np.save(array, SAMPLES)
    data = tmp_path / "negative.npz"
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("x.npy", array.getvalue().replace(b"(5, 6), ", b"(-5, 6),"))
    assert "found no NumPy array, expected one written by numpy.save (shape (-5, 6))" in refused(
        f"run quantized.mlir --input {data} -o out.npz"
    )


def test_inputs_with_different_numbers_of_samples_are_refused() -> None:
    line = refused("quantize sum.onnx --data uneven.npz -o out.mlir")
    assert "found 5 for 'a', 3 for 'b'; expected the same number of samples for each input" in line


BAD_OPTIONS = {
    "--target gpu": "found target 'gpu', expected one of: cpu",
    "--profile nearest": "found the numerics profile 'nearest'; expected one of fixed16, fixed32,",
    "--observer best": "found observer 'best'; expected one of: entropy, minmax, ",
    "--observer percentile:200": "found percentile 200; expected more than 50 and at most 100",
    "--observer percentile:x": "found observer 'percentile:x'; expected a number",
    "--recipe nowhere.yaml": "nowhere.yaml: found no such file",
    "--recipe unmatched.yaml": "unmatched.yaml:2: rule 1 (name 'the_conv'): matches nothing in the model",
    "--recipe foreign.onnx": "foreign.onnx: found other keys, expected one key 'rules' at the top",
    "--shape image=1x6": "found a shape for 'image', expected one of the inputs: x",
    "--shape x=1x7": "'the_gemm' (Gemm): found shapes [1, 7] and [20, 6], which do not multiply",
    "--constant x=0": "found the number 0 for 'x', expected an array of shape [1, 6]",
    "-o out.onnx": "out.onnx: found a program for target 'cpu', expected one for "
    "onnxruntime or onnxruntime-vnni or openvino or openvino-vnni",
    "-o out.pb": "out.pb: found suffix '.pb', expected .mlir",
    "-o out": "out: found suffix '', expected .mlir",
    "-o folder": "folder: found suffix '', expected .mlir",
    "--shape x=1..2x6": "out.mlir: found a file for several shapes, expected the name of a folder: -o out",
    "--shape x=1x6,2x6 -o nowhere/out": "found no folder 'nowhere', expected one to write into; make it first",
    "--shape x=1..2x6 -o set --emit kernels": "found --emit with several shapes, where it changes nothing",
    "--shape x=1..2x6 --shape y=1x1,2x1,3x1": "found 2 for 'x', 3 for 'y', expected lists of one length",
    "-o nowhere/out.mlir": "found no folder 'nowhere', expected one to write into; make it first",
    "-o model.onnx/out.mlir": "found no folder 'model.onnx', expected one to write into; make it first",
}


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_a_bad_option_is_refused_in_one_line_and_nothing_is_written(options: str) -> None:
    assert BAD_OPTIONS[options] in refused(f"quantize model.onnx --data data.npz -o out.mlir {options}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--shape x", "found 'x', expected NAME=1x3x224x224 with positive sizes"),
        ("--shape x=1xa", "found 'x=1xa', expected NAME=1x3x224x224 with positive sizes"),
        ("--shape x=0x6", "found 'x=0x6', expected NAME=1x3x224x224 with positive sizes"),
        ("--shape x=3..1x6", "found 'x=3..1x6', expected NAME=1x3x224x224 with positive sizes, a list"),
        ("--shape x=1..99x6", "found 'x=1..99x6', 99 shapes, expected up to 64"),
        ("--io both", "'both' is not one of 'float', 'integer'"),
        ("--emit text", "'text' is not one of 'integer', 'stablehlo'"),
        ("--bits 4", "No such option"),
    ],
)
def test_an_option_that_click_refuses_ends_with_what_is_wrong(options: str, message: str) -> None:
    before = snapshot()
    result = invoke(f"quantize model.onnx --data data.npz -o out.mlir {options}")
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert snapshot() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "quantize model.onnx --data data.npz -o out.mlir --onnx-format qdq",
            "found --onnx-format with out.mlir",
        ),
        (
            "quantize model.onnx --data data.npz -o out.tflite --target litert --inline-weights",
            "found --inline-weights with out.tflite, where it changes nothing; leave out one of them",
        ),
        (
            "quantize model.onnx --data data.npz -o out.mlir --emit kernels --io integer",
            "found --io with --emit kernels",
        ),
        ("quantize model.onnx --data data.npz -o out.mlir --effort none --validation data.npz", "--effort none"),
        ("quantize model.onnx -o out.mlir --preprocess resize=8", "found --preprocess with no --data"),
        (
            "run quantized.mlir --input data.npz -o out.npz --args x",
            "found --args with --input",
        ),
        ("explain quantized.mlir --ranges --native", "found --native with --ranges"),
        ("explain quantized.mlir --target cpu", "found --target with a program that is quantized already"),
        ("export quantized.mlir -o out.tflite --onnx-format qdq", "found --onnx-format with out.tflite"),
        ("run float.mlir --threads 2", "found --threads with no --input"),
        ("compare model.onnx quantized.mlir --data data.npz --mask x", "found mask 'x' (--mask) that is 0 nowhere"),
        ("report quantized.mlir -o out.html --no-trials", "found --no-trials with no --data"),
        ("explain model.onnx --max-trips 5", "found max_trips (--max-trips) without a loop"),
        ("opt float.mlir -p fuse --max-trips 5", "found max_trips (--max-trips) without a loop"),
        ("opt float.mlir --mlir-print-ir-after-all", "found --mlir-print-ir-after-all with no --passes"),
        ("opt float.mlir --max-trips 5", "found --max-trips with no --passes"),
        ("opt float.mlir -o out.mlir --locations", "found --locations with --output out.mlir, which has them"),
        ("opt float.mlir --verify-diagnostics --generic", "found --generic with --verify-diagnostics"),
        ("quantize model.onnx --data data.npz -o out.mlir --correct empirical_bias,", "found correction ''"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(command: str, message: str) -> None:
    assert message in refused(command)


def test_required_options_are_asked_for() -> None:
    assert "Missing option '-o'" in invoke("quantize model.onnx --data data.npz").stderr


def test_quantize_writes_a_program_and_its_weights_and_says_what_is_in_it() -> None:
    said = done("quantize model.onnx --data data.npz -o written.mlir")
    assert "wrote written.mlir\nwrote written.safetensors\n" in said
    assert " 0 float ops," in said
    assert "dense_resource<w" in Path("written.mlir").read_text()
    assert "fxpmath.requantize" in Path("written.mlir").read_text()


def test_the_same_input_gives_the_same_files_in_another_process() -> None:
    for seed, name in (("1", "first"), ("2", "second")):
        command = f"-m zeropoint quantize model.onnx --data data.npz -o {name}.mlir".split()
        subprocess.run([sys.executable, *command], check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    for suffix in (".mlir", ".safetensors"):
        assert Path("first").with_suffix(suffix).read_bytes() == Path("second").with_suffix(suffix).read_bytes()
        assert Path("first").with_suffix(suffix).read_bytes() == Path("quantized").with_suffix(suffix).read_bytes()


def test_a_shape_fixes_a_dynamic_dimension() -> None:
    done("quantize dynamic.onnx --data data.npz --shape x=1x6 -o fixed.mlir")
    assert Path("fixed.safetensors").read_bytes() == Path("quantized.safetensors").read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        "quantize scaled.onnx --data data.npz -o out.mlir --effort none",
        "run scaled.onnx --input data.npz -o out.npz",
        "compare scaled.onnx quantized.mlir --data data.npz",
        "explain scaled.onnx",
        "explain scaled.onnx --native",
        "sensitivity scaled.onnx --data data.npz --effort none",
        "calibrate scaled.onnx --data data.npz -o out.json",
        "opt scaled.onnx -p simplify -o out.mlir",
        "report quantized.mlir -o out.json --reference scaled.onnx --data data.npz --no-timing",
    ],
)
def test_every_command_that_takes_a_model_fixes_inputs_to_numbers(command: str) -> None:
    done(f"{command} --constant rate=0.5")
    done(f"{command} --input rate=0.5")


def test_a_constant_scales_what_run_computes() -> None:
    done("run scaled.onnx --input data.npz -o half.npz --constant rate=0.5")
    np.testing.assert_allclose(np.load("half.npz")["y"], 0.5 * SAMPLES @ WEIGHT.T, rtol=1e-5, atol=1e-6)
    done("run scaled.onnx --input rate=0.5 --input data.npz -o other.npz")
    np.testing.assert_array_equal(np.load("half.npz")["y"], np.load("other.npz")["y"])
    assert "found --input data.npz and folder, expected one" in refused(
        "run scaled.onnx --input data.npz --input folder -o out.npz"
    )
    assert "with no other --input" in refused("run scaled.onnx --input rate=0.5 -o out.npz")


def test_a_file_with_an_equals_sign_in_its_name_is_a_file() -> None:
    np.savez("rate=0.5", x=SAMPLES)
    Path("rate=0.5.npz").rename("rate=0.5")
    assert "expected --input and --output together" in refused("run scaled.onnx --input rate=0.5")


def test_several_shapes_make_a_folder_that_runs_what_fits_each_array() -> None:
    done("quantize dynamic.onnx --data data.npz --shape x=1..2x6 --shape x=4x6 -o set")
    assert sorted(path.name for path in Path("set").glob("*.mlir")) == ["x=1x6.mlir", "x=2x6.mlir", "x=4x6.mlir"]
    done("run set --input data.npz -o set.npz")
    done("run set/x=1x6.mlir --input data.npz -o one.npz")
    np.testing.assert_array_equal(np.load("set.npz")["y"], np.load("one.npz")["y"])
    assert "found no .npz for a folder of programs" in refused("run set --input folder -o out.npz")
    assert "found --shape, --constant or --preprocess" in refused("run set --input data.npz -o out.npz --shape x=1x6")


def test_a_shape_that_was_fixed_is_not_asked_again() -> None:
    done("quantize dynamic.onnx --data data.npz -o fixed.mlir --shape x=1x6")
    found = json.loads(done("compare dynamic.onnx fixed.mlir --data data.npz --json"))
    assert found["samples"] == 5
    done("run fixed.mlir --input data.npz -o outputs.npz")
    assert "has a dynamic dimension 0" in refused("compare dynamic.onnx dynamic.onnx --data data.npz")


def test_calibration_data_may_be_a_folder() -> None:
    done("quantize model.onnx --data folder -o from_folder.mlir")
    assert Path("from_folder.mlir").read_text() == Path("quantized.mlir").read_text()


def test_inline_weights_make_one_file() -> None:
    assert done("quantize model.onnx --data data.npz -o inline.mlir --inline-weights").startswith("wrote inline.mlir\n")
    assert not Path("inline.safetensors").exists()
    assert "dialect_resources" in Path("inline.mlir").read_text()
    done("run inline.mlir --input data.npz -o inline.npz")
    done("run quantized.mlir --input data.npz -o beside.npz")
    np.testing.assert_array_equal(np.load("inline.npz")["y"], np.load("beside.npz")["y"])


def test_emit_stablehlo_writes_the_quantized_program_which_runs_to_the_same_values() -> None:
    done("quantize model.onnx --data data.npz -o stablehlo.mlir --emit stablehlo")
    text = Path("stablehlo.mlir").read_text()
    assert "fxpmath" not in text
    assert "!quant.uniform<i32:f32:1" in text
    done("run stablehlo.mlir --input data.npz -o stablehlo.npz")
    done("run quantized.mlir --input data.npz -o integers.npz")
    np.testing.assert_array_equal(np.load("stablehlo.npz")["y"], np.load("integers.npz")["y"])


def test_an_effort_says_what_it_gained_and_sensitivity_what_kernels_cost() -> None:
    said = done("quantize model.onnx --data data.npz -o effort.mlir --effort best --validation data.npz")
    assert "dB on 5 samples of the validation data" in said
    assert "empirical_bias" in said
    assert "closed_form" in said
    assert "dB on" not in done("quantize model.onnx --data data.npz -o effort.mlir --effort none")
    assert "corrections, by SQNR on 1 sample held back" in done("explain quantized.mlir")
    (row,) = json.loads(done("sensitivity model.onnx --data data.npz --target litert --exact --worst 1 --json"))
    assert row["kernel"] == "fully_connected"
    assert {"total", "inherited", "added", "wide_gain", "exact_loss"} < set(row)
    assert isinstance(row["exact_loss"], float)
    assert done("sensitivity model.onnx --data data.npz --effort none").split()[0] == "kernel"


def test_the_summary_the_repr_and_integer_only_count_the_same_float_ops_wherever_they_are() -> None:
    said = done("quantize softmax.onnx --data data.npz -o soft.mlir")
    assert " 7 float ops," in said
    assert "  1 softmax (7 ops) stays float at 'the_softmax': target cpu has no kernel 'softmax'" in said.splitlines()
    assert ", 7 float ops, " in repr(zeropoint.load("soft.mlir"))
    assert "found 7 float ops" in refused("quantize softmax.onnx --data data.npz -o out.mlir --integer-only")


def test_a_profile_is_carried_by_the_program() -> None:
    done("quantize model.onnx --data data.npz -o double.mlir --profile fixed32-double")
    text = Path("double.mlir").read_text()
    assert 'zeropoint.profile = "fixed32-double"' in text
    assert 'behaviour = "fixed32-double"' in text


def test_integer_only_lists_the_float_ops_and_why() -> None:
    line = refused("quantize softmax.onnx --data data.npz -o out.mlir --integer-only")
    assert "float ops, expected none with integer_only (--integer-only)" in line
    assert "1 softmax (7 ops) stays float at 'the_softmax': target cpu has no kernel 'softmax'" in line
    assert line.endswith("; target cpu-integer (--target cpu-integer) has softmax in integers")
    assert "cpu-integer" not in refused("quantize softmax.onnx --data data.npz -o o.mlir --integer-only --target tosa")
    done("quantize softmax.onnx --data data.npz -o only.mlir --integer-only --target cpu-integer")
    done("quantize model.onnx --data data.npz -o only.mlir --integer-only")


def test_a_recipe_leaves_in_float_what_it_names() -> None:
    line = refused("quantize model.onnx --data data.npz -o out.mlir --integer-only --recipe recipe.yaml")
    assert "'the_gemm', 'the_relu': recipe.yaml:2: rule 1 (name 'the_relu'): do not quantize" in line


def test_integer_inputs_and_outputs_take_and_give_storage_integers() -> None:
    assert "f32>" not in Path("integer_io.mlir").read_text().splitlines()[1].replace("i8:f32", "")
    np.savez("stored.npz", x=np.arange(12, dtype=np.int8).reshape(2, 6))
    done("run integer_io.mlir --input stored.npz -o stored_out.npz")
    assert np.load("stored_out.npz")["y"].dtype == np.int8
    line = refused("run integer_io.mlir --input data.npz -o out.npz")
    assert "input 'x': found float32 data, expected int8" in line
    line = refused("quantize softmax.onnx --data data.npz -o out.mlir --io integer")
    assert "input 'x': found stablehlo." in line
    assert "keep io float (--io)" in line


def test_run_stacks_the_outputs_of_a_leading_sample_axis() -> None:
    done("run model.onnx --input data.npz -o float.npz")
    np.testing.assert_allclose(np.load("float.npz")["y"], np.maximum(SAMPLES @ WEIGHT.T, 0), rtol=1e-5, atol=1e-5)
    done("run quantized.mlir --input data.npz -o integer.npz")
    assert np.abs(np.load("integer.npz")["y"] - np.load("float.npz")["y"]).max() < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("missing.mlir --input data.npz -o out.npz", "missing.mlir: no such file"),
        ("unknown.mlir --input data.npz -o out.npz", "unknown.mlir:2:"),
        ("no_data.mlir --input hundred.npz -o out.npz", "found dense_resource<w1> with no data"),
        ("truncated.mlir --input hundred.npz -o out.npz", "truncated.safetensors: found a truncated or foreign file"),
        ("quantized.mlir --input data.npz -o out.txt", "out.txt: found suffix '.txt', expected .npz"),
        ("quantized.mlir --input data.npz -o nowhere/out.npz", "found no folder 'nowhere'"),
    ],
)
def test_run_refuses_what_it_cannot_run(arguments: str, message: str) -> None:
    assert message in refused(f"run {arguments}")


def test_compare_prints_a_table_for_people_and_json_for_tools() -> None:
    table = done("compare model.onnx quantized.mlir --data data.npz --layers")
    assert "5 samples" in table
    assert "SQNR dB" in table
    assert "output y" in table
    assert "layer the_gemm" in table
    found = json.loads(done("compare model.onnx quantized.mlir --data data.npz --json"))
    assert found["samples"] == 5
    (row,) = found["outputs"]
    assert row["name"] == "y"
    assert row["sqnr"] > 30
    assert found["layers"] == []
    same = json.loads(done("compare model.onnx model.onnx --data data.npz --json"))
    assert same["outputs"][0]["sqnr"] is None  # infinite
    assert same["outputs"][0]["max_error"] == 0


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("model.onnx sum.onnx", "found inputs ['x'] and ['a', 'b'], expected the same names in both models"),
        ("model.onnx softmax.onnx", "outputs 'y': found tensor<1x20xf32> and tensor<1x6xf32>, expected the same type"),
        ("model.onnx integer_io.mlir", "and tensor<1x6xi8>, expected the same type; quantize with float inputs"),
        ("model.onnx missing.mlir", "missing.mlir: no such file"),
    ],
)
def test_compare_refuses_models_with_different_ports(models: str, message: str) -> None:
    assert message in refused(f"compare {models} --data data.npz")


def test_machine_code_gives_the_integers_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROPOINT_CACHE", "")
    done("run quantized.mlir --input data.npz -o interpreted.npz --engine interp")
    done("run quantized.mlir --input data.npz -o native.npz --engine native --threads 2")
    with np.load("interpreted.npz") as expected, np.load("native.npz") as found:
        assert list(found) == list(expected)
        np.testing.assert_array_equal(found["y"], expected["y"])
    command = "compare model.onnx quantized.mlir --data data.npz --json"
    assert done(f"{command} --engine native") == done(command)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run quantized.mlir --engine native", "found --engine native without --input, expected --input and --output"),
        ("run quantized.mlir --input data.npz -o out.npz --threads 2", "found --threads 2 with --engine auto"),
        ("compare model.onnx quantized.mlir --data data.npz --layers --engine native", "found --layers with --engine"),
    ],
)
def test_engines_are_refused_where_they_cannot_run(command: str, message: str) -> None:
    assert message in refused(command)


def test_compile_writes_an_object_or_a_library_and_the_header_beside_it() -> None:
    assert done("compile quantized.mlir -o dense.o").split() == ["wrote", "dense.o", "wrote", "dense.h"]
    assert Path("dense.o").read_bytes().startswith(b"\x7fELF")
    assert "int dense_run(void *arena, const float *x, float *y);" in Path("dense.h").read_text()
    done("compile quantized.mlir -o other.o --name layer --isa neon-dotprod --triple aarch64-unknown-linux-gnu")
    assert "int layer_run(" in Path("layer.h").read_text()
    done("compile quantized.mlir -o haswell.o --cpu haswell")
    assert "machine code for avx2, haswell" in Path("haswell.h").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-o dense.dll", "dense.dll: found suffix '.dll', expected .o or .so"),
        ("-o nowhere/dense.o", "found no folder 'nowhere', expected one to write into"),
        ("-o my-net.o", "found the name 'my-net', expected a C identifier"),
        ("-o net.o --cpu z80", "found the processor 'z80', expected native or one of: sapphirerapids, "),
        ("-o net.o --isa avx1024", "found the instruction set 'avx1024', expected one of: amx-int8, "),
        ("-o net.o --triple z80-unknown-cpm", "found the triple 'z80-unknown-cpm', expected one that LLVM supports"),
    ],
)
def test_compile_refuses_in_one_line(arguments: str, message: str) -> None:
    assert message in refused(f"compile quantized.mlir {arguments}")


def test_opt_runs_passes_on_a_file_and_on_the_standard_input() -> None:
    from_file = done("opt float.mlir -p simplify,fuse")
    assert 'quant.region "tanh"' in from_file
    assert done("opt - -p simplify,fuse", FLOAT_TEXT) == from_file
    assert done("opt float.mlir") == done("opt -", FLOAT_TEXT)
    done("opt float.mlir -p fuse -o fused.mlir")
    assert Path("fused.mlir").read_text() == done("opt float.mlir -p fuse")


def test_opt_writes_the_weights_that_its_output_needs_into_a_pipe_or_beside_the_file() -> None:
    assert "dialect_resources" in done("opt quantized.mlir")
    assert "dialect_resources" in done("opt quantized.mlir --inline-weights")
    done("opt quantized.mlir -o copy.mlir")
    for suffix in ("mlir", "safetensors"):
        assert Path(f"copy.{suffix}").read_bytes() == Path(f"quantized.{suffix}").read_bytes()
    assert done("opt -", done("opt quantized.mlir")) == done("opt quantized.mlir")
    assert 'loc("the_gemm")' in done("opt quantized.mlir --locations")
    assert '"stablehlo.dot_general"' in done("opt quantized.mlir --generic")


def test_opt_reads_onnx_and_shows_the_program_after_each_pass() -> None:
    assert 'quant.region "softmax"' in done("opt softmax.onnx -p simplify,fuse")
    result = invoke("opt softmax.onnx --pass-pipeline builtin.module(simplify,fuse) --mlir-print-ir-after-all")
    assert result.exit_code == 0
    dumps = [line for line in result.stderr.splitlines() if "IR Dump" in line]
    assert dumps == [f"// -----// IR Dump After {name} //----- //" for name in ("simplify", "fuse")]


def test_opt_reads_the_model_files_that_quantize_reads() -> None:
    Path("SOFTMAX.ONNX").write_bytes(Path("softmax.onnx").read_bytes())
    assert done("opt SOFTMAX.ONNX -p simplify,fuse") == done("opt softmax.onnx -p simplify,fuse")
    done("quantize softmax.onnx --data data.npz --target litert --effort none -o softmax.tflite")
    assert "!quant.uniform" in done("opt softmax.tflite")


def test_every_stage_can_be_saved_edited_and_gone_on_from() -> None:
    done("quantize model.onnx --data data.npz -o whole.mlir --effort none --save-stages stages")
    names = ("1-fused", "2-calibrated", "3-propagated", "4-corrected", "5-quantized", "6-integer")
    assert sorted(path.name for path in Path("stages").glob("*.mlir")) == [f"{name}.mlir" for name in names]
    rest = "propagate,move-rescales,split-composites,express-accumulators,materialize,integer-program"
    for stage, passes in (("2-calibrated", rest), ("4-corrected", "materialize,integer-program")):
        done(f"opt stages/{stage}.mlir -p {passes} -o resumed.mlir")
        for suffix in ("mlir", "safetensors"):
            assert Path(f"resumed.{suffix}").read_bytes() == Path(f"whole.{suffix}").read_bytes()


def test_statistics_go_through_a_file_that_people_may_edit() -> None:
    done("opt model.onnx -p simplify,fuse,instrument{target=cpu} -o asked.mlir")
    done("calibrate asked.mlir --data data.npz -o stats.json")
    done("calibrate model.onnx --data data.npz -o calibrated.mlir")
    done("opt asked.mlir -p state-statistics{file=stats.json} -o stated.mlir")
    assert Path("stated.mlir").read_bytes() == Path("calibrated.mlir").read_bytes()
    found = json.loads(Path("stats.json").read_text())
    low = found["values"]["x"]["minimum"]
    found["values"]["x"]["minimum"] = low - 1
    Path("edited.json").write_text(json.dumps(found))
    assert f"{low - 1:e}"[:6] in done("opt asked.mlir -p state-statistics{file=edited.json}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.pop("format"), "stats_bad.json: found no statistics, expected JSON with"),
        (lambda found: found["values"].pop("x"), "found no statistics of 'x', expected them for every quant.stats_ref"),
        (
            lambda found: found["values"]["x"].update(minimum="a"),
            "value 'x': key 'minimum': found 'a', expected a finite",
        ),
        (lambda found: found["values"]["x"].update(minimum=9e9), "value 'x': found minimum 9000000000.0 above maximum"),
        (lambda found: found["values"]["x"].update(count=-1), "value 'x': found counts [-1, 0, 0], expected integers"),
    ],
)
def test_statistics_that_do_not_fit_are_refused(change: Callable[[Any], object], message: str) -> None:
    done("opt model.onnx -p simplify,fuse,instrument{target=cpu} -o asked.mlir")
    done("calibrate asked.mlir --data data.npz -o stats.json")
    found = json.loads(Path("stats.json").read_text())
    change(found)
    Path("stats_bad.json").write_text(json.dumps(found))
    assert message in refused("opt asked.mlir -p state-statistics{file=stats_bad.json}")


def test_statistics_are_not_written_if_there_are_none() -> None:
    for output in ("nothing.json", "nothing_new.mlir"):
        message = refused(f"calibrate quantized.mlir --data data.npz -o {output}")
        assert message.startswith(
            "quantized.mlir: found no value whose range has to be observed, expected at least one"
        )


def test_a_statistics_file_that_is_none_is_refused() -> None:
    done("opt model.onnx -p simplify,fuse,instrument{target=cpu} -o asked.mlir")
    for name, found in (("none.json", "no such file"), ("folder", "found a directory")):
        expected = f"{name}: {found}, expected statistics of `zeropoint calibrate`"
        assert expected in refused(f"opt asked.mlir -p state-statistics{{file={name}}}")


def test_opt_splits_its_input() -> None:
    two = f"{FLOAT_TEXT}// -----\n{FLOAT_TEXT.replace('tanh', 'logistic')}"
    printed = done("opt - -p fuse --split-input-file", two)
    first, second = printed.split("// -----")
    assert 'quant.region "tanh"' in first
    assert 'quant.region "logistic"' in second


def test_opt_checks_announced_errors() -> None:
    announced = "// expected-error@+2 {{found no statistics for 'x'}}\n" + FLOAT_TEXT
    assert invoke("opt - -p fuse,propagate --verify-diagnostics", announced).exit_code == 0
    missing = invoke("opt - -p fuse --verify-diagnostics", announced)
    assert missing.exit_code == 1
    assert "expected error 'found no statistics for 'x'' was not produced; found no error" in missing.stderr
    surprising = invoke("opt - -p fuse,propagate --verify-diagnostics", FLOAT_TEXT)
    assert surprising.exit_code == 1
    assert "unexpected error: " in surprising.stderr
    both = f"{announced}// -----\n{FLOAT_TEXT}"
    result = invoke("opt - -p fuse,propagate --verify-diagnostics --split-input-file", both)
    assert result.stderr.startswith("<stdin>:8: unexpected error: pass 'propagate': found no statistics")
    unknown = invoke("opt - --verify-diagnostics", "// expected-error@below {{custom op 'this' is unknown}}\nthis")
    assert (unknown.exit_code, unknown.stderr) == (0, "")
    misplaced = invoke("opt - --verify-diagnostics", "this // expected-error@below {{custom op}}\n")
    assert misplaced.stderr.splitlines() == [
        "<stdin>:1: expected error 'custom op' was not produced; "
        "found custom op 'this' is unknown (tried 'builtin.this' as well)",
        "<stdin>:1: unexpected error: custom op 'this' is unknown (tried 'builtin.this' as well)",
    ]


def test_opt_takes_ops_of_other_dialects_where_it_is_told_to() -> None:
    foreign = 'func.func @f(%x: f32) {\n  %0 = "test.op"(%x) : (f32) -> f32\n  return\n}\n'
    assert '"test.op"(%x)' in done("opt - --allow-unregistered-dialect", foreign)
    assert refused("opt -", foreign).startswith("<stdin>:2:17: operation being parsed with an unregistered dialect.")


@pytest.mark.parametrize(
    ("passes", "cast", "message"),
    [
        ("", "quant.qcast %x : f32 to f32", "quant.qcast: 'quant.qcast' op result #0 must be"),
        (
            "-p lower-quant-ops",
            "quant.qcast %x : f32 to !quant.any<i8:f32>",
            "pass 'lower-quant-ops': quant.qcast: found",
        ),
    ],
)
def test_opt_names_the_line_of_a_wrong_op(passes: str, cast: str, message: str) -> None:
    text = f"func.func @f(%x: f32) {{\n  %0 = {cast}\n  return\n}}\n"
    assert refused(f"opt - {passes}", text).startswith(f"<stdin>:2:8: {message}")


NAMED = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.stats"(%x) {layerStats = dense<[STATS]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32> loc("ranges")
  %1 = stablehlo.add %0, %y : tensor<4xf32> loc(#gate)
  return %1 : tensor<4xf32>
}
#gate = loc("gate")
"""
U32 = "tensor<4x!quant.uniform<u32:f32, 0.5>>"


@pytest.mark.parametrize(
    ("passes", "text", "found"),
    [
        ("fuse,propagate", NAMED.replace("STATS", "-1.0, 1.0"), "3:8: pass 'propagate': found no statistics"),
        ("fuse,propagate", NAMED.replace("STATS", "0x7FC00000, 1.0"), "2:8: pass 'propagate': '%x': found"),
        ("fuse,propagate", NAMED.replace("STATS", "2.0, 0x7F800000"), "2:8: pass 'propagate': '%x': found"),
        (
            "lower",
            f"func.func @main(%x: {U32}) -> {U32} {{\n  %0 = stablehlo.add %x, %x : {U32}\n  return %0 : {U32}\n}}\n",
            "2:8: pass 'lower': stablehlo.add: found storage u32",
        ),
        (
            "fuse,propagate",
            NAMED.replace("STATS", "0x7FC00000, 1.0").replace(
                "%x: tensor<4xf32>", '%x: tensor<4xf32> {zeropoint.name = "in"}'
            ),
            "2:8: pass 'propagate': 'in': found the range [nan, 1]",
        ),
        ("layout", FLOAT_TEXT, "2:8: pass 'layout': stablehlo.tanh: found an op outside of kernels"),
        (
            "lower",
            "module {\n  func.func @f() {\n    return\n  }\n  func.func @g() {\n    return\n  }\n}\n",
            "2:3: pass",
        ),
    ],
)
def test_every_error_of_a_pass_has_a_line_and_a_column(passes: str, text: str, found: str) -> None:
    assert refused(f"opt - -p {passes}", text).startswith(f"<stdin>:{found}")


def test_opt_counts_lines_from_the_top_of_a_file_that_it_splits() -> None:
    two = f"{FLOAT_TEXT}// -----\nthis\n"
    line = two.split("\n").index("this") + 1
    assert refused("opt - --split-input-file", two).startswith(f"<stdin>:{line}:1: custom op 'this' is unknown")


def test_opt_lists_its_passes() -> None:
    listed = done("opt --list-passes").splitlines()
    assert any(line.startswith("  fuse  ") for line in listed)
    (line,) = [line for line in listed if line.startswith("  propagate ")]
    assert "(target=cpu profile=None ranges=asymmetric" in line
    assert done("opt --help").endswith("\n".join(listed) + "\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("float.mlir -p turn-to-gold", "found pass 'turn-to-gold', expected one of: "),
        ("float.mlir -p fuse{depth=1}", "found option 'depth' of pass 'fuse', expected one of: target"),
        ("float.mlir -p propagate{depth=1}", "found option 'depth' of pass 'propagate', expected one of: target"),
        ("float.mlir -p fuse{target=3}", "pass 'fuse': found target = 3, expected a name"),
        ("float.mlir -p canonicalize-quant{fold_fake_quant=2}", "found fold_fake_quant = 2, expected true or false"),
        ("float.mlir -p fuse{", "found pipeline 'fuse{', expected 'a,b{option=value}'"),
        ("float.mlir -p simplify,", "found pipeline 'simplify,' that ends in a comma, expected a pass after it"),
        ("float.mlir -p fuse{target=cpu,litert}", "found 'target=cpu,litert' of pass 'fuse', expected one value"),
        ("float.mlir -p lower{profile=nearest}", "pass 'lower': found the numerics profile 'nearest'; expected one of"),
        ("float.mlir -p propagate{target=gpu}", "pass 'propagate': found target 'gpu', expected one of: cpu"),
        ("float.mlir -p fuse,propagate", "found no statistics for 'x', expected quant.stats after it"),
        ("float.mlir -p integer-io", "input 'x': found stablehlo.tanh on its float value"),
        ("float.mlir -o nowhere/out.mlir", "found no folder 'nowhere', expected one to write into"),
        ("missing.mlir", "missing.mlir: No such file or directory"),
        ("folder", "folder: Is a directory"),
        ("garbage.mlir", "garbage.mlir:1:1: custom op 'this' is unknown"),
        ("binary.mlir", "binary.mlir: found bytes that are not text, expected MLIR"),
        ("nothing.mlir -p fuse", "pass 'fuse': found no function; expected a function @main"),
        ("unknown.mlir", "unknown.mlir:2:"),
        ("truncated.mlir", "truncated.safetensors: found a truncated or foreign file, expected safetensors"),
        ("no_data.mlir --inline-weights", "found dense_resource<w1> with no data"),
    ],
)
def test_opt_refuses_in_one_line(arguments: str, message: str) -> None:
    assert message in refused(f"opt {arguments}")


def test_targets_prints_the_list_and_the_kernel_table() -> None:
    assert [line.split()[0] for line in done("targets").splitlines()][:3] == ["cpu", "cpu-integer", "cpu-wide"]
    table = done("targets cpu")
    assert "depthwise_convolution" in table
    assert "fixed_scale(1/256, -128)" in table
    assert refused("targets gpu").startswith("found target 'gpu', expected one of: cpu, cpu-integer, cpu-wide, litert")


@pytest.mark.parametrize("command", ["", "quantize", "run", "compare", "sensitivity", "compile", "opt", "targets"])
def test_every_command_has_help(command: str) -> None:
    text = done(f"{command} --help")
    assert text.startswith(f"Usage: zeropoint {command}".rstrip())
    assert done(f"{command} -h") == text


def test_a_fault_of_ours_says_how_to_report_it_and_has_status_70(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("zeropoint.pipeline.run_all", fail)
    command = "quantize model.onnx --data data.npz -o out.mlir"
    before = snapshot()
    result = invoke(command)
    assert result.exit_code == 70
    (line,) = result.stderr.splitlines()
    assert line.startswith("zeropoint: internal error: ZeroDivisionError: a bug, pipeline.py:")
    assert "Please report it with the output of the same command with --debug" in line
    assert f"zeropoint {zeropoint.__version__}, Python 3." in line
    for debugging in (f"{command} --debug", f"--debug {command}"):
        shown = invoke(debugging)
        assert shown.exit_code == 70
        assert shown.stderr.startswith("Traceback (most recent call last):\n")
        assert shown.stderr.endswith(f"{line}\n")
    assert snapshot() == before


def test_debug_shows_where_an_input_was_refused() -> None:
    result = invoke("quantize missing.onnx --data data.npz -o out.mlir --debug")
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("zeropoint: missing.onnx: no such file, expected a model file\n")


def test_quiet_leaves_nothing_but_the_file() -> None:
    result = invoke("quantize model.onnx --data data.npz -o out.mlir -q --effort none")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert Path("out.mlir").exists()
    assert invoke("--quiet compile out.mlir -o out.o").output == ""


@pytest.mark.parametrize("line", ["-q -v targets", "targets -q -v", "-v targets -q", "-q targets --verbose"])
def test_quiet_and_verbose_exclude_each_other(line: str) -> None:
    result = invoke(line)
    assert result.exit_code == 2
    assert "found --quiet with --verbose, expected one of them" in result.output


def test_verbose_lists_every_pass_with_its_time_and_only_then() -> None:
    result = invoke("quantize model.onnx --data data.npz -o out.mlir --verbose --effort none")
    assert result.exit_code == 0
    passes = re.findall(r"^zeropoint: ([a-z-]+): .*\d\.\d\d s$", result.stderr, re.MULTILINE)
    places = [passes.index(name) for name in ("fuse", "calibrate", "propagate", "integer-program")]
    assert places == sorted(places)
    assert "zeropoint: fuse" not in invoke("quantize model.onnx --data data.npz -o out.mlir --effort none").stderr


def test_verbose_lists_the_measurements_of_a_report_with_their_times() -> None:
    result = invoke("report quantized.mlir --name Two --reference model.onnx --data data.npz -o measured.json -v")
    assert result.exit_code == 0
    steps = re.findall(r"^zeropoint: (measure [a-z ]+): \d+\.\d\d s$", result.stderr, re.MULTILINE)
    assert steps == ["measure outputs and kernels", "measure times", "measure recipe rules"]
    assert json.loads(Path("measured.json").read_text())["header"]["model"] == "Two"


def test_what_a_parser_did_not_foresee_makes_the_file_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setitem(CONVERTERS, "Relu", fail)
    line = refused("quantize model.onnx --data data.npz -o out.mlir")
    assert line.startswith("unreadable model.onnx (IndexError: list index out of range, node 'the_relu' (Relu), ")


def test_the_version_is_that_of_the_package() -> None:
    assert done("--version") == f"zeropoint, version {zeropoint.__version__}\n"


def test_the_package_runs_as_a_module_and_reports_errors_there() -> None:
    found = subprocess.run([sys.executable, "-m", "zeropoint", "--version"], capture_output=True, text=True, check=True)
    assert "version" in found.stdout
    command = ["-m", "zeropoint", "quantize", "missing.onnx", "--data", "data.npz", "-o", "out.mlir"]
    failed = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr == "zeropoint: missing.onnx: no such file, expected a model file\n"


HEAVY = {
    "google",
    "llvmlite",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "rich",
    "safetensors",
    "torch",
    "xdsl",
}


@pytest.mark.parametrize("module", ["zeropoint", "zeropoint.cli"])
def test_importing_the_package_imports_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in found.stdout.split()}
    assert "zeropoint" in loaded
    assert not loaded & HEAVY


CHECKED = """func.func @sum() {
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %sum = stablehlo.add %c, %c : tensor<2xi32>
  check.expect_eq_const %sum, dense<[2, EXPECTED]> : tensor<2xi32>
  return
}
// -----
func.func @first() -> tensor<i1> {
  %0 = stablehlo.constant dense<true> : tensor<i1>
  return %0 : tensor<i1>
}
func.func @second() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, -2.5]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def ran(arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *shlex.split(arguments)])


def test_run_prints_what_every_function_of_a_text_returns(tmp_path: Path) -> None:
    file = tmp_path / "checked.mlir"
    file.write_text(CHECKED.replace("EXPECTED", "4"))
    result = ran(f"--split-input-file {file}")
    assert result.exit_code == 0
    assert result.stdout == "tensor<i1> {true}\ntensor<2xf32> {\n  [1.000000e+00, -2.500000e+00]\n}\n"


def test_run_names_a_check_that_fails_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "checked.mlir"
    file.write_text(CHECKED.replace("EXPECTED", "5"))
    result = ran(f"--split-input-file {file}")
    assert result.exit_code == 1
    assert result.stderr == (
        f"zeropoint: @sum: check.expect_eq_const at {file}:4:3: 1 of 2 elements of %sum differ: "
        "[1]: found 4, expected 5\n"
    )
    assert result.stdout.startswith("tensor<i1> {true}\n")


TAKES = """func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = stablehlo.negate %x : tensor<2xi32>
  return %0 : tensor<2xi32>
}"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "@main: found 0 arguments, expected tensor<2xi32>; --args gives values, --input and --output name"),
        ("--args=nonsense", "expected array attribute string for args, i.e. --args=[dense<1> : tensor<2xi32>, ...]"),
        ("--args='[unit]'", "expected dense elements attribute for args elements"),
        ("--args='[1 : i32]'", "argument 0 of @main: found shape () (a scalar), expected 2 (tensor<2xi32>)"),
        ("--args='[dense<1> : tensor<3xi32>]'", "argument 0 of @main: found shape 3, expected 2 (tensor<2xi32>)"),
        ("--args='[dense<1> : tensor<2xi8>]'", "argument 0 of @main: found dtype int8, expected int32"),
        ("--input data.npz", "found no --output, expected --input and --output together"),
        ("-o out.npz", "found no --input, expected --input and --output together"),
    ],
)
def test_run_refuses_inputs_that_do_not_fit(tmp_path: Path, arguments: str, message: str) -> None:
    file = tmp_path / "takes.mlir"
    file.write_text(TAKES)
    result = ran(f"{file} {arguments}")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_run_takes_inputs_as_text(tmp_path: Path) -> None:
    file = tmp_path / "takes.mlir"
    file.write_text(TAKES)
    assert ran(f"{file} --args='[dense<[1, -2]> : tensor<2xi32>]'").stdout == "tensor<2xi32> {\n  [-1, 2]\n}\n"


def test_run_takes_casts_of_scalars_and_unranked_tensors_and_what_they_are_lowered_to(tmp_path: Path) -> None:
    one, many = "!quant.uniform<i8:f32, 2.0:3>", "tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>>"
    text = (
        f"func.func @main(%x: tensor<*xf32>, %s: f32) -> ({many}, {one}) {{\n"
        f"  %0 = quant.qcast %x : tensor<*xf32> to {many}\n  %1 = quant.qcast %s : f32 to {one}\n"
        f"  return %0, %1 : {many}, {one}\n}}\n"
    )
    (tmp_path / "casts.mlir").write_text(text)
    (tmp_path / "lowered.mlir").write_text(done("opt - -p lower-quant-ops", text))
    arguments = "--args='[dense<[[2.5, 3.0]]> : tensor<1x2xf32>, 5.0 : f32]'"
    for name in ("casts.mlir", "lowered.mlir"):
        printed = ran(f"{tmp_path / name} {arguments}").stdout
        assert "[4, 1]" in printed
        assert printed.endswith("6 : !quant.uniform<i8:f32, 2.000000e+00:3>\n")
    refused_value = ran(f"{tmp_path / 'casts.mlir'} --args='[dense<1.0> : tensor<1x2xf32>, 5 : i32]'")
    assert "argument 1 of @main: found int32 of shape () (a scalar), expected f32; convert it" in refused_value.stderr


def test_a_size_that_per_axis_parameters_do_not_fit_is_refused_at_run_time(tmp_path: Path) -> None:
    kind = "tensor<1x?x!quant.uniform<i8:f32:1, {0.5, 0.25}>>"
    (tmp_path / "m.mlir").write_text(
        f"func.func @main(%x: tensor<1x?xf32>) -> {kind} {{\n"
        f"  %0 = stablehlo.uniform_quantize %x : (tensor<1x?xf32>) -> {kind}\n  return %0 : {kind}\n}}\n"
    )
    np.savez(tmp_path / "x.npz", x=np.array([[[2.5, 3.0, 1.0]]], np.float32))
    arguments = ["run", str(tmp_path / "m.mlir"), "--input", str(tmp_path / "x.npz"), "-o", str(tmp_path / "o.npz")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.exception
    assert "found an array of shape [1, 3]" in result.stderr
    assert "quantized dimension size does not match number of scales" in result.stderr
    assert not (tmp_path / "o.npz").exists()


def test_run_says_where_an_op_that_it_cannot_run_and_an_unranked_input_are(tmp_path: Path) -> None:
    scales = "!quant.uniform<i8:f32:1, {0.5, 0.25}>"
    constant = tmp_path / "constant.mlir"
    constant.write_text(
        "func.func @main() -> tensor<1x?xf32> {\n"
        "  %c = stablehlo.constant dense<[[2.5, 3.0, 1.0]]> : tensor<1x3xf32>\n"
        "  %x = tensor.cast %c : tensor<1x3xf32> to tensor<1x?xf32>\n"
        f"  %q = quant.qcast %x : tensor<1x?xf32> to tensor<1x?x{scales}>\n"
        f"  %d = quant.dcast %q : tensor<1x?x{scales}> to tensor<1x?xf32>\n"
        "  return %d : tensor<1x?xf32>\n}\n"
    )
    result = CliRunner().invoke(main, ["run", str(constant)])
    assert result.exit_code == 2
    assert f"{constant}:4:8: the interpreter cannot run: quant.qcast" in " ".join(result.stderr.split())
    unranked = tmp_path / "unranked.mlir"
    unranked.write_text("func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {\n  return %x : tensor<*xf32>\n}\n")
    np.savez(tmp_path / "x.npz", other=np.zeros((1, 3), np.float32))
    arguments = ["--input", str(tmp_path / "x.npz"), "-o", str(tmp_path / "o.npz")]
    result = CliRunner().invoke(main, ["run", str(unranked), *arguments])
    assert result.exit_code == 2
    assert f"{unranked}:1:1: input 'x': found tensor<*xf32>, expected a ranked tensor" in result.stderr


@pytest.mark.parametrize("verbosity", ["", "-q", "-v"])
def test_a_warning_about_data_is_one_line_under_any_verbosity(tmp_path: Path, verbosity: str) -> None:
    data = tmp_path / "extra.npz"
    np.savez(data, x=SAMPLES, mask=SAMPLES)
    result = CliRunner().invoke(main, f"quantize model.onnx --data {data} -o extra.mlir {verbosity}".split())
    said = [line for line in result.stderr.splitlines() if "'mask'" in line]
    assert said == [f"zeropoint: warning: {data}: found 'mask', which no input reads; the inputs are 'x'"]


@pytest.mark.parametrize(
    "command",
    [
        "run m.onnx --input d.npz -o weights.npz",
        "quantize m.onnx --data d.npz -o q.mlir --report weights.html",
        "quantize m.onnx --data d.npz -o weights.mlir",
    ],
)
def test_a_file_with_weights_of_the_model_is_no_output(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    weights = re.findall(r"weights\.\w+", command)[0]
    tensor = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "m.onnx", save_as_external_data=True, location=weights, size_threshold=0)
    np.savez("d.npz", x=np.ones((2, 1, 4), np.float32))
    before = Path(weights).read_bytes()
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 2
    assert f"{weights}: found a file with weights of m.onnx as the output, expected another name" in result.stderr
    assert Path(weights).read_bytes() == before
