"""Every error of the input in the Python API is a `zp.Error` that says what was found; none names only a flag."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.cli import main

TEXT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> (tensor<1x4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.tanh %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""
ROWS = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)


def dynamic() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Relu(x) }"""
    )


@pytest.fixture(scope="module")
def integers() -> zp.Model:
    return zp.quantize(TEXT, ROWS, effort="none")


BAD: list[tuple[str, Any]] = [
    *(("target", bad) for bad in ("litrt", "nofile.toml", 5)),
    *(("profile", bad) for bad in ("foo", 5)),
    *(("observer", bad) for bad in ("foo", "percentile:200", "percentile:x", "minmax:3", 5)),
    *(("io", bad) for bad in ("int", 5)),
    *(("ranges", bad) for bad in ("sym", 5)),
    *(("least_sqnr", bad) for bad in (float("nan"), float("inf"), -5, 10**400, "a", True)),
    *(("budget", bad) for bad in ("foo", "quality=nan", "size=-1", "latency=0", 5)),
    *(("recipe", bad) for bad in ("none.yaml", [], {"rules": []}, {"rules": 3}, [3], 5, [{"name": "y"}])),
    *(("recipe", [{"name": "nobody", "bits": 8}]) for _ in range(1)),
    *(("effort", bad) for bad in ("bst", 5)),
    *(("corrections", bad) for bad in (["foo"], "fast", 5)),
    *(("validation", bad) for bad in (np.zeros((3, 2)), "none.npz", 5)),
    *(("mask", bad) for bad in ("z", 5)),
    *(("integer_only", bad) for bad in ("no", 1)),
    *(("shapes", bad) for bad in (5, {"z": (1,)}, {"x": (1, 5)}, {"x": "1x4"}, {"x": (1, 4.5)})),
    *(("constants", bad) for bad in (5, {"a": 1}, {"x": "text"})),
    *(("example", bad) for bad in (3,)),
    *(("workers", bad) for bad in (0, -2, 1001, "a", True)),
    *(("journal", bad) for bad in (5, "/nonexistent/journal")),
    *(("resume", bad) for bad in (True, "yes")),
    *(("save_stages", bad) for bad in (5, "/nonexistent/stages")),
    *(("max_memory", bad) for bad in ("lots", 0, 8)),
    *(("max_trips", bad) for bad in (0, "a", 5)),
    *(("progress", bad) for bad in ("yes",)),
    ("data", 5),
    ("data", "none.npz"),
    ("data", np.zeros((0, 4), np.float32)),
    ("data", None),
    ("data", {"z": ROWS[:, :3]}),
    ("model", 5),
    ("model", "none.onnx"),
    ("model", b"abc"),
]


@pytest.mark.parametrize(("name", "bad"), BAD, ids=[f"{name}={bad!r:.24}" for name, bad in BAD])
def test_quantize_refuses_what_an_option_cannot_be(name: str, bad: Any) -> None:
    given: dict[str, Any] = {"model": TEXT, "data": ROWS, "effort": "none", name: bad}
    refused(lambda: zp.quantize(given.pop("model"), given.pop("data"), **given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"validation": ROWS},
            r"found validation samples \(--validation\) with effort 'none', where they change nothing",
        ),
        (
            {"mask": "x"},
            r"found mask 'x' \(--mask\) that is 0 nowhere in the data that is used, where it changes nothing",
        ),
    ],
)
def test_what_changes_nothing_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(zp.Error, match=message):
        zp.quantize(TEXT, ROWS, effort="none", **given)


def test_every_option_of_quantize_is_tried() -> None:
    import inspect

    assert {name for name, _ in BAD} == set(inspect.signature(zp.quantize).parameters)


def refused(call: Any) -> None:
    with pytest.raises(zp.Error) as caught:
        call()
    text = str(caught.value)
    assert text
    for flag in re.findall(r"--[a-z][a-z-]+", text):  # a flag stands beside the option of the same name
        option = flag.removeprefix("--").replace("-", "_")
        assert option in text.replace(flag, "") or f"{option}s=" in text, text


METHODS: dict[str, Any] = {
    "save": [("/nonexistent/a.mlir",), ("a.foo",), (5,), ("a.mlir", {"emit": "kernel"})],
    "export": [("a.foo",), ("a.tflite",), ("/nonexistent/a.tflite",), (5,), ("a.tflite", {"io": "int"})],
    "report": [("r.foo",), (5,), ("/nonexistent/r.html",), ("r.html", {"data": 5}), ("r.html", {"reference": 5})],
    "native": [({"threads": 0},), ({"threads": 100},), ({"callers": 0},), ({"threads": "a"},)],
    "profile": [(ROWS[:1], {"rounds": 0}), (ROWS[:0],), (np.zeros((3, 2, 2)),), ()],
    "compile": [
        ("/nonexistent/a.o",),
        ("/nonexistent/a.so",),
        ("a.o", {"cpu": "nope"}),
        ("a.o", {"isa": "nope"}),
        ("a.o", {"name": "1 2"}),
        (5,),
    ],
    "explain": [("nobody",)],
    "__call__": [(ROWS[:0],), (np.zeros((3, 3), np.float32),), (), (ROWS, ROWS), ("text",)],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_a_model_refuse_what_they_cannot_do(
    integers: zp.Model, name: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in METHODS[name]:
        options = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
        positional = arguments[:-1] if options else arguments
        refused(lambda given=positional, options=options: getattr(integers, name)(*given, **options))
    assert not list(tmp_path.iterdir())


def test_compare_load_and_sensitivity_refuse_what_they_cannot_do(integers: zp.Model) -> None:
    for call in (
        lambda: zp.compare(TEXT, integers, 5),
        lambda: zp.compare(TEXT, integers, ROWS[:, :3]),
        lambda: zp.compare(5, integers, ROWS),
        lambda: zp.compare(TEXT, 5, ROWS),
        lambda: zp.compare(dynamic(), integers, ROWS),
        lambda: zp.compare(TEXT, integers, ROWS, layers="all"),
        lambda: zp.compare(zp.load(TEXT), integers, ROWS, shapes={"x": (1, 4)}),
        lambda: zp.load(TEXT, shapes={"x": (2, 4)}),
        lambda: zp.load(TEXT, {"x": (1, 4)}),
        lambda: zp.load(TEXT, shapes=5),
        lambda: zp.load(b"abc"),
        lambda: zp.load("func.func @main( {"),
        lambda: zp.sensitivity(TEXT, ROWS, target="foo"),
        lambda: zp.sensitivity(TEXT, ROWS, exact="no"),
        lambda: zp.sensitivity(TEXT, 5),
        lambda: zp.Images("none", resise=20),
        lambda: zp.quantize(TEXT.replace("1x4", "1x3x4x4"), zp.Images("none", crop=4)),
    ):
        refused(call)


def test_suggested_shapes_are_those_of_the_data(tmp_path: Path) -> None:
    images = np.zeros((8, 3, 16, 20), np.float32)
    np.savez(tmp_path / "data.npz", x=images)
    for data in (images, {"x": images}, list(images), tmp_path / "data.npz", zp.Images("none", crop=(16, 20))):
        with pytest.raises(zp.Error, match=r"--shape x=1x3x16x20 \(in Python shapes=\{'x': \(1, 3, 16, 20\)\}\)"):
            zp.quantize(dynamic(), data)
    with pytest.raises(zp.Error, match="--shape x=1x3x224x224 "):
        zp.quantize(dynamic(), None)


def test_a_list_of_stages_and_limits_are_options_in_python_too(tmp_path: Path) -> None:
    made = zp.quantize(TEXT, ROWS, effort="none", save_stages=tmp_path / "stages", max_memory="1G")
    assert (tmp_path / "stages" / "6-integer.mlir").is_file()
    made.save(tmp_path / "kernels.mlir", emit="kernels")
    assert "quant.region" in (tmp_path / "kernels.mlir").read_text()
    with pytest.raises(zp.Error, match="max_memory"):
        zp.quantize(TEXT, ROWS, effort="none", max_memory=8)


def test_sensitivity_reads_well() -> None:
    found = zp.sensitivity(TEXT, ROWS, effort="none")
    assert [one.name for one in found] == [one.name for one in found.ranked]
    assert "16 bits gain" in str(found)
    assert found._repr_html_().startswith("<pre")


DENSE = """<ir_version: 8, opset_import: ["": 17]> g (float[1,4] x) => (float[3,1] y) {
  a = MatMul(x, w)  y = Transpose(a) }"""


def dense() -> onnx.ModelProto:
    model = onnx.parser.parse_model(DENSE)
    weight = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    for node, name in zip(model.graph.node, ("dense", "turned"), strict=True):
        node.name = name
    return model


def test_an_observer_of_values_with_the_range_of_others_is_refused() -> None:
    with pytest.raises(
        zp.Error, match=r"key 'observer': found mse, .*'transpose' has the range of its input; it would"
    ):
        zp.quantize(dense(), ROWS, effort="none", recipe=[{"name": "turned", "observer": "mse"}])
    restated = [
        {"name": "dense", "bits": 8},
        {"name": "turned", "quantize": True},
        {"name": "dense", "observer": "mse"},
    ]
    zp.quantize(dense(), ROWS, effort="none", recipe=restated)


def test_scales_that_a_target_does_not_have_are_refused() -> None:
    with pytest.raises(zp.Error, match=r"'scale': found 0.01, expected a power of two, which target shift_"):
        zp.quantize(dense(), ROWS, effort="none", target="shift_only", recipe=[{"name": "dense", "scale": 0.01}])
    zp.quantize(dense(), ROWS, effort="none", target="shift_only", recipe=[{"name": "dense", "scale": 0.0625}])


PINNED = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %0 = "quant.qcast"(%x) : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.01>>
  %1 = "quant.dcast"(%0) : (tensor<1x4x!quant.uniform<i8:f32, 0.01>>) -> tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}
"""


IN_FLOAT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %0 = stablehlo.atan2 %x, %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""


def test_an_observer_for_a_model_that_states_its_ranges_is_refused() -> None:
    with pytest.raises(zp.Error, match="for a model that states all its ranges, where it changes nothing"):
        zp.quantize(PINNED, ROWS, observer="minmax")
    with pytest.raises(zp.Error, match="for a model that states all its ranges, where it changes nothing"):
        zp.sensitivity(PINNED, ROWS, observer="minmax")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 2}, r"found workers=2 \(--workers\) for a model that states all its ranges"),
        ({"journal": "journal"}, "found journal journal for a model that states all its ranges"),
        (
            {"ranges": "minmax-nudged"},
            "found ranges 'minmax-nudged' for a model in which no range gets another type by this rule",
        ),
    ],
)
@pytest.mark.parametrize("data", [None, ROWS])
def test_options_of_calibration_for_a_model_that_states_its_ranges_are_refused(
    given: dict[str, Any], message: str, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(zp.Error, match=message):
        zp.quantize(PINNED, data, **given)


def test_workers_for_a_latency_of_a_model_that_states_its_ranges_are_refused() -> None:
    with pytest.raises(zp.Error, match=r"found workers=2 \(--workers\) for a model that states all its ranges"):
        zp.quantize(PINNED, ROWS, budget="latency=1000ms", workers=2)


def test_a_correction_that_is_repeated_is_refused() -> None:
    with pytest.raises(zp.Error, match="found correction 'closed_form' twice, where the second changes nothing"):
        zp.quantize(TEXT, ROWS, corrections=["closed_form", "closed_form"])


def test_the_refusal_of_an_observer_for_a_program_in_float_says_so() -> None:
    with pytest.raises(zp.Error, match="for a program in which nothing is quantized, where it changes nothing"):
        zp.quantize(IN_FLOAT, ROWS, observer="minmax", target="onnxruntime")


def test_the_command_line_refuses_the_default_observer_if_it_is_given_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(PINNED)
    np.savez(tmp_path / "d.npz", x=ROWS)
    arguments = ["quantize", f"{tmp_path}/m.mlir", "--data", f"{tmp_path}/d.npz", "-o", f"{tmp_path}/q.mlir"]
    given = CliRunner().invoke(main, [*arguments, "--observer", "output"])
    assert (given.exit_code, (tmp_path / "q.mlir").exists()) == (2, False)
    assert "found observer output (--observer) for a model that states all its ranges" in given.output
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    measured = ["sensitivity", *arguments[1:4], "--observer", "output"]
    assert "found observer output (--observer) for a model that states all" in CliRunner().invoke(main, measured).output


def test_exact_figures_are_refused_if_no_quantized_kernel_has_a_wider_form() -> None:
    """LiteRT's kernel takes no weight of -128, so the product stays float."""
    product = """%w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32, 0.01>}
        dense<[[0.5], [-1.28], [-1.0], [0.2]]> : tensor<4x1xf32>
      %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
        : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32>
      return %2 : tensor<1x1xf32>"""
    text = PINNED.replace("return %1 : tensor<1x4xf32>", product).replace(
        "-> tensor<1x4xf32> {", "-> tensor<1x1xf32> {"
    )
    with pytest.raises(
        zp.Error, match=r"found exact .* target litert, where none of the model's quantized kernels has"
    ):
        zp.sensitivity(text, ROWS, target="litert", exact=True, effort="none")


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(zp.Error, match="none: found no journal, expected that of an interrupted calibration"):
        zp.quantize(TEXT, ROWS, effort="none", journal=tmp_path / "none", resume=True)
    (tmp_path / "m.mlir").write_text(TEXT)
    np.savez(tmp_path / "d.npz", x=ROWS)
    arguments = ["quantize", f"{tmp_path}/m.mlir", "--data", f"{tmp_path}/d.npz", "-o", f"{tmp_path}/q.mlir"]
    given = CliRunner().invoke(main, [*arguments, "--resume"])
    assert (given.exit_code, (tmp_path / "q.mlir").exists()) == (2, False)
    assert ".q.mlir.journal: found no journal, expected that of an interrupted calibration" in given.output


def test_an_effort_together_with_corrections_is_refused() -> None:
    with pytest.raises(zp.Error, match="found effort 'best' and corrections, expected one of the two"):
        zp.quantize(dense(), ROWS, effort="best", corrections=["empirical_bias"])


def test_a_float_model_and_images_read_well() -> None:
    assert str(zp.load(dense())).splitlines()[-1] == "float model, 2 ops"
    assert repr(zp.Images("folder", resize=20, mean=0.5)) == "Images('folder', resize=(20,), mean=(0.5,))"


def test_every_kernel_has_its_histogram(tmp_path: Path) -> None:
    """Casts at the edges have the name of the kernel next to them, and are no kernels."""
    model = dense()
    model.graph.node.pop()
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [1, 3]))
    made = zp.quantize(model, ROWS, effort="none")
    page = json.loads(made.report(tmp_path / "r.json", timing=False).read_text())
    (kernel,) = [node for node in page["nodes"] if node["kind"] == "kernel"]
    assert kernel["name"] in {node["name"] for node in page["nodes"] if node["kind"] == "dequantize"}
    assert kernel["id"] in page["values"]


def test_a_report_takes_its_reference_in_every_form(tmp_path: Path) -> None:
    made = zp.Model(zp.quantize(dense(), ROWS, effort="none").program)
    onnx.save(dense(), tmp_path / "dense.onnx")
    pages = [
        made.report(tmp_path / "r.json", reference=form, data=ROWS, timing=False).read_text()
        for form in (zp.load(dense()), dense(), tmp_path / "dense.onnx")
    ]
    assert "outputs" not in {note["section"] for note in json.loads(pages[0])["notes"]}
    assert pages[1:] == pages[:1] * 2


def test_a_report_of_a_program_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text("""builtin.module attributes {zeropoint.profile = "fixed16"} {
      func.func @main(%x: tensor<4xi8> {zeropoint.name = "x"}) -> tensor<4xi8> {
        %0 = stablehlo.add %x, %x : tensor<4xi8>
        return %0 : tensor<4xi8>
      }
    }""")
    assert CliRunner().invoke(main, ["opt", "m.mlir", "-p", "group,layout", "-o", "laid.mlir"]).exit_code == 0
    result = CliRunner().invoke(main, ["report", "laid.mlir", "-o", "r.html"])
    assert result.exit_code == 2
    assert "in memory, expected the integer program before 'layout'" in result.stderr


def test_tosa_refuses_an_activation_of_several_scales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text("""func.func @main(%x: tensor<1x2xf32> {zeropoint.name = "x"}) -> tensor<1x3xf32> {
      %w = stablehlo.constant dense<[[0.5, 1.0, -1.0], [0.2, 2.0, 1.5]]> : tensor<2x3xf32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32> loc("dense")
      return %0 : tensor<1x3xf32>
    }""")
    np.savez("d.npz", x=np.ones((2, 1, 2), np.float32))
    made = ["--target", "tosa", "--emit", "kernels", "--effort", "none", "-o", "k.mlir"]
    assert CliRunner().invoke(main, ["quantize", "m.mlir", "--data", "d.npz", *made]).exit_code == 0
    text = Path("k.mlir").read_text()
    changed = re.sub(r"as !quant[^>]*>(, .* as )(!quant\.uniform<[^{]*\{[^}]*\}>)", r"as \2\1\2", text)
    assert changed != text
    Path("k.mlir").write_text(changed)
    result = CliRunner().invoke(main, ["export", "k.mlir", "-o", "k.tosa.mlir"])
    assert result.exit_code == 2
    assert "expected one scale for the whole tensor" in result.stderr


def test_a_rescale_annotation_of_an_op_without_results_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text("""builtin.module attributes {zeropoint.profile = "fixed16"} {
      func.func @main(%x: tensor<4xi8> {zeropoint.name = "x"}) -> tensor<4xi8> {
        "func.return"(%x) {zeropoint.rescale = "zz"} : (tensor<4xi8>) -> ()
      }
    }""")
    assert CliRunner().invoke(main, ["explain", str(tmp_path / "m.mlir")]).exit_code == 0
