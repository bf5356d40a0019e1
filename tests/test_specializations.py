"""One network for several shapes: the model that runs, what is refused, and files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.cli import main
from zeropoint.codegen.runtime.native import NativeEngine
from zeropoint.ir.text import ResourceArrays
from zeropoint.options import Options
from zeropoint.pipeline import quantize
from zeropoint.recipe import recipe_of
from zeropoint.specialize import quantize_shapes

TEXT = """func.func @main(%x: ROW {zeropoint.name = "x"}) -> (ROW {zeropoint.name = "y"}) {
  %0 = stablehlo.tanh %x : ROW
  return %0 : ROW
}
"""
RANDOM = np.random.default_rng(1)


def rows(count: int, length: int) -> np.ndarray:
    return RANDOM.uniform(-2, 2, (count, length)).astype(np.float32)


def network(length: int) -> str:
    return TEXT.replace("ROW", f"tensor<1x{length}xf32>")


@pytest.fixture(scope="module")
def both() -> zp.Specializations:
    return zp.Specializations([zp.quantize(network(length), rows(8, length)) for length in (6, 9)])


@pytest.mark.parametrize("shape", [(1, 9), (9,), (5, 9), (5, 1, 9)])
def test_the_model_whose_shapes_fit_runs(both: zp.Specializations, shape: tuple[int, ...]) -> None:
    array = RANDOM.uniform(-2, 2, shape).astype(np.float32)
    assert both.fitting(array) is both.fitting(x=array) is both.models[1]
    np.testing.assert_array_equal(both(x=array)["y"], both.models[1](array)["y"])


def test_shapes_without_a_model_are_refused_with_those_that_exist(both: zp.Specializations) -> None:
    with pytest.raises(
        zp.Error, match="found arrays of shapes x 1x7, expected those of a specialization: x 1x6; x 1x9"
    ):
        both(rows(1, 7))


def test_a_notebook_shows_the_shapes(both: zp.Specializations) -> None:
    html = both._repr_html_()
    assert html.startswith("<pre")
    assert "x 1x6; x 1x9" in html


def test_native_code_and_files_give_the_same_values(both: zp.Specializations, tmp_path: Path) -> None:
    both.save(tmp_path / "models")
    assert sorted(path.name for path in (tmp_path / "models").glob("*.mlir")) == ["x=1x6.mlir", "x=1x9.mlir"]
    loaded = zp.Specializations.load(tmp_path / "models")
    for length in (6, 9):
        array = rows(1, length)
        for other in (loaded, both.native()):
            np.testing.assert_array_equal(other(array)["y"], both(array)["y"])


def test_a_folder_is_loaded_as_specializations_and_is_no_single_model(both: zp.Specializations, tmp_path: Path) -> None:
    both.save(tmp_path / "models")
    for folder in (tmp_path / "models", str(tmp_path / "models")):
        assert repr(zp.Specializations.load(folder)) == repr(both)
        for refused in (zp.load, lambda path: zp.quantize(path, rows(2, 6))):
            with pytest.raises(zp.Error, match=r"found a folder, expected one model; zp.Specializations.load"):
                refused(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(zp.Error, match=r"found no .mlir files, expected a folder"):
        zp.Specializations.load(tmp_path / "empty")


def test_a_dict_a_file_and_samples_of_several_shapes_are_data(both: zp.Specializations, tmp_path: Path) -> None:
    six, nine = rows(3, 6), rows(3, 9)
    expected = both.models[1](nine)["y"]
    np.savez(tmp_path / "data.npz", x=nine)
    for data in (
        {"x": nine, "label": 1},
        tmp_path / "data.npz",
        [(row, 0) for row in nine],
        lambda: ({"x": r} for r in nine),
    ):
        np.testing.assert_array_equal(both(data)["y"], expected)
    with pytest.raises(zp.Error, match="found outputs 'y' of shapes 6 and 9, which cannot be stacked"):
        both([six, nine])
    np.testing.assert_array_equal(both({"z": nine})["y"], expected)
    with pytest.raises(zp.Error, match="found 'z', 'y'; expected 'x'"):
        both({"z": nine, "y": nine})


def test_specializations_are_compared_over_samples_of_all_shapes(both: zp.Specializations, tmp_path: Path) -> None:
    floats = zp.Specializations([zp.load(network(length)) for length in (6, 9)])
    both.save(tmp_path / "models")
    data = [rows(2, 6), rows(3, 9), rows(1, 6)]
    found = zp.compare(floats, both, data)
    assert found.samples == 6
    assert found.outputs[0].sqnr > 30
    assert zp.compare(floats, tmp_path / "models", iter(data)) == found
    one = zp.compare(floats, both, data[1])
    assert one == zp.compare(floats.models[1], both, data[1]) == zp.compare(network(9), both.models[1], data[1])
    with pytest.raises(zp.Error, match="found shapes for a comparison of specializations"):
        zp.compare(network(6), both, data, shapes={"x": (1, 6)})


def test_quantize_takes_the_options_of_the_function_of_that_name() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1,N,6] x) => (float[1,N,3] y) { y = MatMul(x, w) }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(rows(6, 3), "w"))
    shapes, data = [{"x": (1, length, 6)} for length in (4, 9)], rows(32, 6).reshape(8, 4, 6)
    recipe = [{"name": "y", "symmetric": True}]
    made = zp.Specializations.quantize(model, data, shapes, io="integer", effort="none", recipe=recipe)
    assert {str(port.type.element_type) for each in made.models for port in each.inputs} == {"i8"}
    with pytest.raises(zp.Error, match=r"found shapes=.., expected a list of them"):
        zp.Specializations.quantize(model, data, [])
    with pytest.raises(zp.Error, match="where they change nothing"):
        zp.Specializations.quantize(model, data, shapes, effort="none", validation=data)


def test_models_that_are_not_of_one_network_are_refused(both: zp.Specializations) -> None:
    with pytest.raises(zp.Error, match="found no models"):
        zp.Specializations([])
    with pytest.raises(zp.Error, match="found two models for x 1x6"):
        zp.Specializations([both.models[0], both.models[0]])
    other = zp.load(network(4).replace('"x"', '"z"'))
    with pytest.raises(zp.Error, match="expected models of one network"):
        zp.Specializations([*both.models, other])


DOTS = """func.func @main(%x: tensor<Nx24xf32> {zeropoint.name = "x"}) -> (tensor<Nx5xf32> {zeropoint.name = "y"}) {
  %w = stablehlo.constant dense<WEIGHT> : tensor<24x40xf32> loc("first_weight")
  %v = stablehlo.constant dense<OTHER> : tensor<40x5xf32> loc("second_weight")
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<Nx24xf32>, tensor<24x40xf32>) -> tensor<Nx40xf32>
  %1 = stablehlo.abs %0 : tensor<Nx40xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
      : (tensor<Nx40xf32>, tensor<40x5xf32>) -> tensor<Nx5xf32>
  return %2 : tensor<Nx5xf32>
}
"""
MIXED = np.random.default_rng(2)
DATA = (MIXED.normal(0, 1, (40, 3)) @ MIXED.normal(0, 1, (3, 24)) + 2).astype(np.float32)
FOUR_BITS = recipe_of([{"op": "fully_connected", "weight_bits": 4, "block_size": 8}])


def batches(*sizes: int, **options: Any) -> zp.Specializations:
    random = np.random.default_rng(3)
    weights = {key: random.normal(0, 1, shape).round(3) for key, shape in (("WEIGHT", (24, 40)), ("OTHER", (40, 5)))}
    text = DOTS
    for key, array in weights.items():
        text = text.replace(key, str(array.tolist()))
    models = [zp.load(text.replace("Nx", f"{size}x")).program for size in sizes]
    made = quantize_shapes(models, DATA, Options(**options), quantize)
    return zp.Specializations([zp.Model(one.integer, one) for one in made])


@pytest.fixture(scope="module")
def many() -> zp.Specializations:
    return batches(1, 2, 3, corrections=("closed_form",), recipe=FOUR_BITS)


def test_one_calibration_gives_every_shape_the_ranges_and_corrections_of_the_first(many: zp.Specializations) -> None:
    kept = [model.quantization.corrections.kept for model in many.models if model.quantization is not None]
    assert kept == ["closed_form", None, None]
    held = [{array.tobytes() for array in ResourceArrays(model.program).values()} for model in many.models]
    assert held[0] == held[1] == held[2]
    for model in many.models:
        np.testing.assert_array_equal(model(DATA)["y"], many.models[0](DATA)["y"])


def test_weights_of_one_calibration_are_in_one_file_once(many: zp.Specializations, tmp_path: Path) -> None:
    (alone, weights), written = many.models[0].save(tmp_path / "one.mlir"), many.save(tmp_path / "set")
    assert [path.name for path in written] == ["x=1x24.mlir", "x=2x24.mlir", "x=3x24.mlir", "weights.safetensors"]
    assert written[-1].stat().st_size < weights.stat().st_size + 64
    for model, path in zip(many.models, written, strict=False):
        np.testing.assert_array_equal(zp.load(path)(DATA)["y"], model(DATA)["y"])
    assert written[0].read_text() == alone.read_text()


def test_native_code_has_equal_weights_in_memory_once(many: zp.Specializations) -> None:
    programs = [model.program for model in many.models]
    made = NativeEngine().prepare_all(programs)
    assert len({id(one.graph.weights) for one in made}) == 1
    apart = sum(len(NativeEngine().prepare(program).graph.weights.array) for program in programs)
    assert len(made[0].graph.weights.array) < 0.7 * apart
    for one, model in zip(made, many.native().models, strict=True):
        rows = DATA[: one.inputs[0].type.get_shape()[0]]
        np.testing.assert_array_equal(one({"x": rows})["y"], many(rows)["y"])
        np.testing.assert_array_equal(model(rows)["y"], many(rows)["y"])


CALLER = """#include <stdio.h>
#include "net.h"
static _Alignas(64) unsigned char arena[1 << 20];
int main(void) {
  static float x[3 * 24], y[3 * 5];
  for (long rows = 1; rows <= 4; rows++) {
    net_program found = net_find(rows, 24);
    if (!found.run) { puts("none"); continue; }
    for (int i = 0; i < rows * 24; i++) x[i] = (float)(i % 7) - 2;
    if (found.arena_size > (long)sizeof arena || found.run(arena, x, y)) return 1;
    for (int i = 0; i < rows * 5; i++) printf("%.9g ", y[i]);
    puts("");
  }
}
"""


def test_a_library_has_all_shapes_and_selects_one_by_its_sizes(many: zp.Specializations, tmp_path: Path) -> None:
    paths = many.compile(tmp_path / "net.o")
    assert [path.name for path in paths] == ["net.o", "net.h"]
    (tmp_path / "main.c").write_text(CALLER)
    built = ["cc", "main.c", "net.o", "-lm", "-o", "main"]
    subprocess.run(built, cwd=tmp_path, check=True)
    *lines, none = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert none == "none"
    for count, line in enumerate(lines, start=1):
        rows = (np.arange(count * 24) % 7 - 2).astype(np.float32).reshape(count, 24)
        np.testing.assert_array_equal(np.array(line.split(), np.float32).reshape(count, 5), many(rows)["y"])


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_rows_are_run_in_the_largest_batches(many: zp.Specializations, count: int) -> None:
    np.testing.assert_array_equal(many(DATA[:count])["y"], many.models[0](DATA[:count])["y"])


def test_rows_are_filled_up_to_the_least_batch() -> None:
    made = batches(2, 4, effort="none")
    np.testing.assert_array_equal(made(DATA[:7])["y"], made.models[0](DATA[:8])["y"][:7])


def test_a_folder_with_programs_of_other_shapes_is_not_written_to(both: zp.Specializations, tmp_path: Path) -> None:
    both.save(tmp_path)
    with pytest.raises(zp.Error, match=r"found 'x=1x6.mlir', a program for other shapes, expected a new folder"):
        zp.Specializations(both.models[1:]).save(tmp_path)


def test_weights_that_a_folder_does_not_share_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"foreign")
    zp.load(network(6)).save(tmp_path / "one.mlir")
    zp.load(tmp_path / "one.mlir")


def test_a_search_of_widths_is_refused_for_several_shapes() -> None:
    with pytest.raises(zp.Error, match=r"found least_sqnr or budget .* with several shapes, expected none"):
        batches(1, 2, least_sqnr=30.0)


def test_equalization_is_refused_for_several_shapes() -> None:
    with pytest.raises(
        zp.Error, match=r"found correction 'equalize' \(--correct\) with several shapes, where it is not"
    ):
        batches(1, 2, corrections=["equalize"])


def test_the_command_compares_a_folder(both: zp.Specializations, tmp_path: Path) -> None:
    both.save(tmp_path / "models")
    (tmp_path / "net.mlir").write_text(network(9))
    np.savez(tmp_path / "data.npz", x=rows(4, 9))
    command = ["compare", str(tmp_path / "net.mlir"), str(tmp_path / "models"), "--data", str(tmp_path / "data.npz")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "4 samples" in done.output
    assert "found --shape with a folder of programs" in CliRunner().invoke(main, [*command, "--shape", "x=1x9"]).output


def test_no_rows_are_refused_as_by_one_model() -> None:
    """They ended in an IndexError."""
    text = network(6).replace("1x6", "{n}x6")
    both = zp.Specializations([zp.quantize(text.replace("{n}", str(n)), rows(8, 6)) for n in (1, 2)])
    with pytest.raises(zp.Error, match="input x: found no samples, expected at least one"):
        both(rows(0, 6))


def test_a_list_is_quantized_by_the_shape_that_all_of_its_items_fit() -> None:
    shapes = [{"x": (1, 6)}, {"x": (1, 9)}]
    items = [rows(1, 9) for _ in range(8)]
    made = zp.Specializations.quantize(dynamic(), items, shapes)
    alone = zp.quantize(dynamic(), items, shapes=shapes[1])
    np.testing.assert_array_equal(made(x=items[0])["y"], alone(x=items[0])["y"])


@pytest.mark.parametrize("lengths", [(6, 9, 6), (7, 7, 7)])
def test_data_that_fits_no_shape_as_a_whole_is_refused_with_the_fix(lengths: tuple[int, ...]) -> None:
    items = [rows(1, length) for length in lengths]
    with pytest.raises(zp.Error, match=r"must fit one of the shapes \(x 1x6 or x 1x9\).*zp.Specializations\(\[zp.quan"):
        zp.Specializations.quantize(dynamic(), items, [{"x": (1, 6)}, {"x": (1, 9)}])


def dynamic() -> onnx.ModelProto:
    ports = [onnx.helper.make_tensor_value_info(name, 1, [1, "n"]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
