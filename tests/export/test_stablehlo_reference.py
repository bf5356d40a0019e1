"""C++ StableHLO's interpreter evaluates exported files to the program's integers, and importing gives the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from onnx import helper, numpy_helper

from digits import images, quantized_digits
from export.convolutional_networks import network
from expressions import expressions
from interp.programs import upstream
from oracle import mlir
from property_cases import some
from random_networks import Case, cases
from recurrent_layers import recurrent
from zeropoint.export import ExportError, export_program
from zeropoint.export.stablehlo import portable_artifact, stablehlo_text
from zeropoint.frontend import load_model
from zeropoint.frontend.stablehlo import stablehlo_of_text
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.recipe import recipe_of
from zeropoint.report.counts import count_ops

EXPORT_PAGE = Path(__file__).parents[2] / "docs" / "export.md"


def theirs(text: str, sample: dict[str, Array]) -> list[Array]:
    return upstream(text, *sample.values())


def test_random_networks_are_evaluated_to_our_integers_and_imported_as_they_were() -> None:
    mlir.require()
    compared = [0]

    @some(20)
    @given(case=cases())
    def check(case: Case) -> None:
        result = quantize(case.program, case.calibration, Options(target="stablehlo", effort="none"))
        text = stablehlo_text(result.quantized)
        again = stablehlo_of_text(text, {})
        assert expressions(parse_program(stablehlo_text(again))) == expressions(parse_program(text))
        if count_ops(result.integer).floats:
            return
        for sample in case.samples:
            ours = Interpreter(result.integer)(sample).values()
            for one, other, imported in zip(
                ours, theirs(text, sample), Interpreter(again)(sample).values(), strict=True
            ):
                np.testing.assert_array_equal(other, one)
                np.testing.assert_array_equal(imported, one)
        compared[0] += 1

    check()
    assert compared[0] > 5


def attention(tokens: int = 8, size: int = 16, heads: int = 2) -> onnx.ModelProto:
    """A block of a transformer."""
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "heads": np.array([1, tokens, heads, size // heads]),
        "tokens": np.array([1, tokens, size]),
        "root": np.array((size // heads) ** -0.5, np.float32),
        "ones": np.ones(size, np.float32),
        "zeros": np.zeros(size, np.float32),
    }
    nodes: list[Any] = []

    def node(op: str, operands: str, made: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, operands.split(), [made], name=made, **attributes))
        return made

    def dense(x: str, name: str, rows: int, columns: int) -> str:
        arrays[f"{name}_w"] = random.normal(0, 0.3, (rows, columns)).astype(np.float32)
        arrays[f"{name}_b"] = random.normal(0, 0.3, columns).astype(np.float32)
        return node("Add", f"{node('MatMul', f'{x} {name}_w', f'{name}_p')} {name}_b", name)

    normal = node("LayerNormalization", "x ones zeros", "normal", axis=-1)
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        split = node("Reshape", f"{dense(normal, name, size, size)} heads", f"{name}_split")
        node("Transpose", split, f"{name}_heads", perm=order)
    node("Mul", f"{node('MatMul', 'q_heads k_heads', 'products')} root", "scores")
    node("Softmax", "scores", "weights", axis=-1)
    mixed = node("Transpose", node("MatMul", "weights v_heads", "values"), "mixed", perm=[0, 2, 1, 3])
    joined = node("Reshape", f"{mixed} tokens", "joined")
    node("Add", f"{dense(joined, 'o', size, size)} x", "first")
    inner = node("Gelu", dense("first", "up", size, 2 * size), "gelu")
    node("Add", f"{dense(inner, 'down', 2 * size, size)} first", "y")
    ports = [helper.make_tensor_value_info(name, 1, (1, tokens, size)) for name in ("x", "y")]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "LSTM": lambda: recurrent("LSTM", 5),
    "GRU": lambda: recurrent("GRU", 5, linear_before_reset=1),
    "attention": attention,
    "convolutions 1": lambda: network(1)[0],
    "convolutions 3": lambda: network(3)[0],
}


def quantized_model(
    name: str, folder: Path, target: str, **options: Any
) -> tuple[Quantization, list[dict[str, Array]]]:
    onnx.save(MODELS[name](), folder / "model.onnx")
    program = load_model(folder / "model.onnx")
    (port,) = program.inputs
    random = np.random.default_rng(4)
    data = [{port.name: random.normal(0, 1, port.type.get_shape()).astype(np.float32)} for _ in range(6)]
    return quantize(program, data, Options(target=target, effort="none", **options)), data


@pytest.mark.parametrize("target", ["stablehlo", "cpu"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_evaluated_imported_and_quantized_again(name: str, target: str, tmp_path: Path) -> None:
    """Quantized again without data, the imported file is the same program, with the arithmetic of its target."""
    mlir.require()
    result, data = quantized_model(name, tmp_path, target)
    export_program(result.propagated, tmp_path / "m.stablehlo.mlir")
    text = (tmp_path / "m.stablehlo.mlir").read_text()
    imported = load_model(tmp_path / "m.stablehlo.mlir")
    again = quantize(imported, None, Options(target=target, effort="none"))
    assert expressions(parse_program(stablehlo_text(again.quantized))) == expressions(parse_program(text))
    for sample in data[:2]:
        ours, others = Interpreter(result.integer)(sample).values(), Interpreter(again.integer)(sample).values()
        (file,), evaluated = Interpreter(imported)(sample).values(), theirs(text, sample)
        softmax = {"rtol": 1e-6} if "softmax" in str(result.quantized) or "exponential" in text else {"rtol": 0}
        np.testing.assert_allclose(evaluated[0], file, **softmax)
        for one, other in zip(ours, others, strict=True):
            np.testing.assert_array_equal(one, other)
            if target == "stablehlo":
                np.testing.assert_allclose(evaluated[0], one, **softmax)


NETWORK = """func.func @main(%x: tensor<2x4xF> {zeropoint.name = "x"}) -> (tensor<2x3xF> {zeropoint.name = "y"}) {
  %w = stablehlo.constant dense<[[0.5, 1.0, -1.0], [0.25, 2.0, 1.5], [1.0, 0.0, 0.0], [3.0, 1.0, 0.5]]> : tensor<4x3xF>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xF>, tensor<4x3xF>) -> tensor<2x3xF>
  %c = stablehlo.constant dense<1.0> : tensor<F>
  %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<F>) -> tensor<2x3xF>
  %2 = stablehlo.add %0, %1 : tensor<2x3xF>
  %3 = stablehlo.cosine %2 : tensor<2x3xF>
  %4 = stablehlo.multiply %3, %2 : tensor<2x3xF>
  return %4 : tensor<2x3xF>
}"""


@pytest.mark.parametrize(
    ("name", "dtype"), [("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f64", np.float64)]
)
def test_functions_of_networks_in_other_floats_are_evaluated(name: str, dtype: Any) -> None:
    """Their bodies had operands in f32 and results in the type of the model, which no verifier accepts."""
    mlir.require()
    random = np.random.default_rng(0)
    data = [{"x": random.normal(0, 1, (2, 4)).astype(dtype)} for _ in range(4)]
    result = quantize(
        parse_program(NETWORK.replace("xF>", f"x{name}>").replace("<F>", f"<{name}>")),
        data,
        Options(target="stablehlo"),
    )
    assert not count_ops(result.integer).floats
    text = stablehlo_text(result.quantized)
    for sample in data:
        np.testing.assert_array_equal(theirs(text, sample)[0], Interpreter(result.integer)(sample)["y"])


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_float_kernels_are_integers_in_the_file(bits: int, tmp_path: Path) -> None:
    mlir.require()
    rules = [{"op": "fully_connected", "activations": "float", "weight_bits": bits}]
    result, data = quantized_model("attention", tmp_path, "cpu", recipe=recipe_of(rules))
    text = stablehlo_text(result.quantized)
    assert f"!quant.uniform<i{bits}" in text
    imported = stablehlo_of_text(text, {})
    before, after = ([op.name for op in made.module.walk()] for made in (result.quantized, imported))
    assert after.count("quant.dcast") == before.count("quant.dcast") > 5
    (ours,) = Interpreter(imported)(data[0]).values()
    np.testing.assert_allclose(theirs(text, data[0])[0], ours, rtol=0, atol=0.05)


def test_weights_in_blocks_are_refused(tmp_path: Path) -> None:
    rules = [{"op": "fully_connected", "weight_bits": 4, "block_size": 4}]
    for more in ({}, {"activations": "float"}):
        result, _ = quantized_model("attention", tmp_path, "cpu", recipe=recipe_of([{**rules[0], **more}]))
        with pytest.raises(ExportError, match=r"found weights in blocks, .*; leave out block_size of the recipe"):
            export_program(result.propagated, tmp_path / "m.stablehlo.mlir")


def test_an_artifact_is_of_an_older_version_and_evaluated(tmp_path: Path) -> None:
    library = pytest.importorskip("torch_mlir._mlir_libs._stablehlo")
    ir = pytest.importorskip("torch_mlir.ir")
    result, data = quantized_model("LSTM", tmp_path, "stablehlo")
    artifact = portable_artifact(result.quantized)
    current = library.get_current_version()
    assert re.search(rb"StableHLO_v\d+\.\d+\.\d+", artifact) != re.search(rb"StableHLO_v" + current.encode(), artifact)
    with ir.Context() as context:
        library.register_dialect(context)
        text = str(library.deserialize_portable_artifact(context, artifact))
    np.testing.assert_array_equal(theirs(text, data[0])[0], next(iter(Interpreter(result.integer)(data[0]).values())))


def code_blocks() -> Iterator[str]:
    section = EXPORT_PAGE.read_text().split("## StableHLO", 1)[1].split("\n## ", 1)[0]
    yield from re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def test_the_code_of_the_documentation_evaluates_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files are the demo's. A step of its logits is 0.03."""
    mlir.require()
    (code,) = code_blocks()
    monkeypatch.chdir(tmp_path)
    result = quantized_digits("stablehlo", count=8)
    image = images("test", 1)[0]
    np.save("image.npy", image["image"])
    export_program(result.propagated, Path("model.stablehlo.mlir"))
    export_program(result.propagated, Path("model.mlirbc"))
    exec(compile(code, "docs/export.md", "exec"), {})
    printed = [float(number) for number in re.findall(r"\d[\d.e+-]*", capsys.readouterr().out)]
    (ours,) = Interpreter(result.integer)(image).values()
    np.testing.assert_allclose(np.reshape(printed, (2, -1)), [ours[0], ours[0]], rtol=1e-6, atol=1e-8)
