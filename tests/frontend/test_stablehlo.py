"""Loading StableHLO text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main
from zeropoint.frontend import ModelError, load_model
from zeropoint.ir.files import load_program, save_program
from zeropoint.passes import PASSES

ADD = """func.func @main(%x: tensor<2x3xf32> {zeropoint.name = "image"}) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
"""


def write(text: str, folder: Path) -> Path:
    path = folder / "model.mlir"
    path.write_text(text)
    return path


def test_text_is_loaded(tmp_path: Path) -> None:
    program = load_model(write(ADD, tmp_path), {"image": (2, 3)})
    assert [(port.name, port.type.get_shape()) for port in program.inputs] == [("image", (2, 3))]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("%a: tensor<2xf32>, %b.c: tensor<2xf32>", ["a", "b.c"]),
        ("%arg1: tensor<2xf32>, %0: tensor<2xf32>", ["arg0", "arg1"]),
        ('%a: tensor<2xf32>, %b: tensor<2xf32> {zeropoint.name = "a"}', ["arg0", "a"]),
        ('%a: tensor<2xf32> loc("image"), %image: tensor<2xf32> loc("b")', ["image", "b"]),
    ],
)
def test_inputs_without_names_are_named_as_their_arguments(arguments: str, names: list[str], tmp_path: Path) -> None:
    first = arguments.partition(":")[0]
    text = f"func.func @main({arguments}) -> tensor<2xf32> {{\n  func.return {first} : tensor<2xf32>\n}}"
    assert [port.name for port in load_model(write(text, tmp_path)).inputs] == names


def test_weights_beside_the_text_are_loaded(tmp_path: Path) -> None:
    numbers = ", ".join(["1.0"] * 64 + ["2.0"])
    text = f"""func.func @main() -> tensor<65xf32> {{
      %0 = stablehlo.constant dense<[{numbers}]> : tensor<65xf32>
      func.return %0 : tensor<65xf32>
    }}"""
    path = tmp_path / "copy.mlir"
    assert len(save_program(load_model(write(text, tmp_path)), path)) == 2
    (array,) = load_model(path).weights.values()
    assert np.array_equal(array, [1.0] * 64 + [2.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ADD.replace("stablehlo.add", "stablehlo.frob"), ":2:8: custom op 'stablehlo.frob' is unknown"),
        (ADD.replace("func.return %0", "func.return %1"), ":5:1: values used but not defined: [%1]"),
        (ADD.replace("%x, %x", "%x %x"), ":2:25: Expected ','"),
        (ADD.replace("-> tensor<2x3xf32> {", "-> tensor<2x4xf32> {"), ":3:3: func.return: "),
        (ADD.replace("@main", "@one") + ADD.replace("@main", "@two"), ": found @one, @two; expected a function @main"),
        ("module {}", ": found no function; expected a function @main"),
    ],
)
def test_broken_text_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = write(text, tmp_path)
    with pytest.raises(ModelError) as error:
        load_model(path)
    assert str(error.value).startswith(f"{path}{message}")
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="found bytes that are not text, expected MLIR"):
        load_model(path)


def test_weights_file_that_is_foreign(tmp_path: Path) -> None:
    path = write(ADD, tmp_path)
    path.with_suffix(".safetensors").write_bytes(b"not safetensors")
    with pytest.raises(ModelError, match="found a truncated or foreign file, expected safetensors"):
        load_model(path)


def test_shape_that_is_not_the_programs(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="found shape 4x3 for 'image', expected image=2x3"):
        load_model(write(ADD, tmp_path), {"image": (4, 3)})


UNRANKED = """func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {
  %q = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32, 0.5:3>>
  %d = quant.dcast %q : tensor<*x!quant.uniform<i8:f32, 0.5:3>> to tensor<*xf32>
  func.return %d : tensor<*xf32>
}
"""


@pytest.mark.parametrize("passes", ["", "lower-quant-ops"])
def test_unranked_inputs_have_the_rank_of_the_data_that_is_run(passes: str, tmp_path: Path) -> None:
    path, output = write(UNRANKED, tmp_path), tmp_path / "o.npz"
    if passes:
        save_program(PASSES[passes](load_program(path), {}), path)
    data = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 2, 3)
    np.savez(tmp_path / "x.npz", x=data)
    ran = CliRunner().invoke(main, ["run", str(path), "--input", str(tmp_path / "x.npz"), "-o", str(output)])
    assert ran.exit_code == 0, ran.stderr
    np.testing.assert_array_equal(np.load(output)["result0"], np.rint(data / 0.5) * 0.5)
    assert load_model(path, {"x": (5,)}).outputs[0].type.get_shape() == (5,)


def test_an_unranked_output_that_does_not_follow_is_refused_by_its_op(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<2xf32>, %n: tensor<?xindex>) -> tensor<*xf32> {
  %r = tensor.reshape %x(%n) : (tensor<2xf32>, tensor<?xindex>) -> tensor<*xf32>
  func.return %r : tensor<*xf32>
}
"""
    with pytest.raises(ModelError, match=r"model.mlir:2:8: tensor.reshape: found a result of tensor<\*xf32>"):
        load_model(write(text, tmp_path))
