"""Programs that JAX makes: they load, go through our text, and give JAX's results."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import zeropoint
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program

HERE = Path(__file__).parent
TEXTS = sorted((HERE / "texts").glob("*.mlir"))
VALUES = np.load(HERE / "values.npz")


def _values(name: str, kind: str) -> list[Array]:
    return [VALUES[key] for key in VALUES if key.startswith(f"{name}/{kind}")]


def _assert_equal(found: tuple[Array, ...], expected: list[Array]) -> None:
    """Integers are equal; XLA adds floats in another order, and approximates functions."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if ours.dtype.kind in "iub":
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_there_are_programs():
    assert len(TEXTS) >= 12


@pytest.mark.parametrize("path", TEXTS, ids=[path.stem for path in TEXTS])
def test_programs_of_jax_give_its_results(path: Path):
    program = load_model(path)
    _assert_equal(Interpreter(program).run_values(_values(path.stem, "in")), _values(path.stem, "out"))


@pytest.mark.parametrize("path", TEXTS, ids=[path.stem for path in TEXTS])
@pytest.mark.parametrize("generic", [False, True])
def test_programs_of_jax_survive_our_text(path: Path, generic: bool):
    program = parse_program(path.read_text())
    text = print_program(program, generic=generic, inline_weights=True)
    assert print_program(parse_program(text), generic=generic, inline_weights=True) == text


def test_the_public_load_takes_them_with_names_for_their_inputs():
    model = zeropoint.load(HERE / "texts" / "mlp.mlir")
    inputs = dict(zip([port.name for port in model.inputs], _values("mlp", "in"), strict=True))
    _assert_equal(tuple(model(**inputs).values()), _values("mlp", "out"))


EXPORTED = """module {
  func.func public @main(%arg0: tensor<?x8xf32> loc(unknown)) -> tensor<?x8xf32> {
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
    %1 = call @_wrapped_jax_export_main(%0, %arg0) : (tensor<i32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    return %1 : tensor<?x8xf32>
  }
  func.func private @_wrapped_jax_export_main(%arg0: tensor<i32>, %arg1: tensor<?x8xf32> loc("image"))
      -> tensor<?x8xf32> {
    return %arg1 : tensor<?x8xf32>
  }
}"""


def test_a_function_exported_with_symbolic_shapes_has_the_names_of_its_parameters():
    assert [port.name for port in zeropoint.load(EXPORTED).inputs] == ["image"]
    with pytest.raises(zeropoint.Error, match=r"expected image=\?x8; export the model with this shape"):
        zeropoint.load(EXPORTED, shapes={"image": (1, 8)})


def test_a_function_exported_with_symbolic_shapes_is_loaded_at_those_that_are_given():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax", reason="jax is not installed (pip install zeropoint[jax])")

    def scores(image, params, unused, mask):
        found = jax.nn.softmax(image @ params["w"] + image.shape[0], -1) * mask[:, None]
        return {"scores": found, "total": image.reshape(-1).sum()}

    weights = np.float32([[1, 2, 3], [4, 5, 6], [-1, 0, 1], [2, 2, 2]]) / 4
    (size,) = jax.export.symbolic_shape("b")
    kinds = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((size, 4), (4, 3), (2,), (size,))]
    exported = jax.export.export(jax.jit(scores))(kinds[0], {"w": kinds[1]}, *kinds[2:])
    for batch in (1, 3):
        model = zeropoint.load(exported, shapes={"image": (batch, 4)})
        assert [port.name for port in model.inputs] == ["image", "params.w", "unused", "mask"]
        image, mask = np.ones((batch, 4), np.float32), np.arange(batch, dtype=np.float32)
        found = model({"image": image, "params.w": weights, "unused": np.zeros(2, np.float32), "mask": mask})
        for name, expected in scores(image, {"w": weights}, None, mask).items():
            np.testing.assert_allclose(found[name], expected, rtol=2e-5, atol=2e-5)
    with pytest.raises(zeropoint.Error, match=r"found symbolic sizes of 'image', 'mask', expected numbers; give the"):
        zeropoint.load(exported, shapes={"params.w": (4, 3)})
    with pytest.raises(zeropoint.Error, match=r"does not take: .*inconsistency between dimension size"):
        zeropoint.load(exported, shapes={"image": (2, 4), "mask": (3,)})
    with pytest.raises(zeropoint.Error, match=r"found 1 sizes for 'image', expected 2"):
        zeropoint.load(exported, shapes={"image": (2,)})


def _regenerated() -> dict[str, tuple[Program, list[Array], list[Array]]]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax", reason="jax is not installed (pip install zeropoint[jax])")
    from frontend.jax import functions
    from zeropoint.quant_passes import legalize_chlo

    found: dict[str, tuple[Program, list[Array], list[Array]]] = {}
    for name, (function, arguments) in functions.examples().items():
        compiled = jax.jit(function)
        program = legalize_chlo(parse_program(compiled.lower(*arguments).as_text()))
        results = [np.asarray(result) for result in jax.tree.leaves(compiled(*arguments))]
        found[name] = program, [np.asarray(argument) for argument in arguments], results
    return found


def test_programs_of_the_jax_that_is_installed_give_its_results():
    for program, inputs, results in _regenerated().values():
        _assert_equal(Interpreter(program).run_values(inputs), results)


@pytest.mark.parametrize(
    ("target", "suffix"), [("onnxruntime", ".onnx"), ("litert", ".tflite"), ("tosa", ".tosa.mlir")]
)
def test_argmax_is_exported(target: str, suffix: str, tmp_path: Path):
    """JAX reduces values and positions at once, which no file format has; it was refused."""
    rows = np.random.default_rng(3).normal(size=(8, 3, 4)).astype(np.float32)
    integers = zeropoint.quantize(HERE / "texts" / "argmax.mlir", rows, target=target, effort="none")
    integers.export(tmp_path / f"model{suffix}")
    assert (tmp_path / f"model{suffix}").stat().st_size
    (places,) = integers(rows[0]).values()
    found = np.take_along_axis(rows[0], np.asarray(places)[:, None], 1)[:, 0]
    np.testing.assert_allclose(found, rows[0].max(1), atol=0.05)


def test_what_is_computed_from_positions_is_a_constant():
    """The weights of `jax.image.resize`: the arithmetic of positions was quantized."""
    text = """func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
      %i = stablehlo.iota dim = 0 : tensor<8x8xf32>
      %j = stablehlo.iota dim = 1 : tensor<8x8xf32>
      %d = stablehlo.subtract %i, %j : tensor<8x8xf32>
      %a = stablehlo.abs %d : tensor<8x8xf32>
      %c = stablehlo.constant dense<2.0> : tensor<8x8xf32>
      %m = stablehlo.compare LT, %a, %c : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xi1>
      %w = stablehlo.select %m, %a, %c : tensor<8x8xi1>, tensor<8x8xf32>
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
      return %y : tensor<1x8xf32>
    }"""
    rows = np.random.default_rng(3).normal(size=(8, 1, 8)).astype(np.float32)
    integers = zeropoint.quantize(text, rows)
    assert "0 float ops" in str(integers)
    (output,) = zeropoint.compare(text, integers, rows).outputs
    assert output.sqnr > 35
