"""Where onnxruntime departs from the specification, or refuses: compared with ONNX's reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from frontend.onnx.models import load, one_op, random
from frontend.onnx.operators import CASES, Case, ints, scalar
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.onnx import converters
from zeropoint.interp import run
from zeropoint.simplify import simplify

X = {"x": (2, 4, 7, 8)}
NO_REGION = {"": scalar(0)}


def expected(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(array) for array in ReferenceEvaluator(proto).run(None, inputs)]


def assert_same(found: dict[str, np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found.values(), wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "opset", "attributes"),
    [
        pytest.param("SpaceToDepth", {"x": (2, 2, 4, 6)}, {}, 28, {"blocksize": 2, "mode": "CRD"}, id="crd"),
        pytest.param("SpaceToDepth", {"x": (2, 2, 4, 6)}, {}, 28, {"blocksize": 2, "mode": "DCR"}, id="dcr"),
        pytest.param(
            *("ConvTranspose", {"x": (1, 1, 3, 3)}, {"w": random(1, 2, 3, 3)}, 22),
            {"strides": [3, 2], "output_shape": [10, 8]},
            id="output-shape-past-the-natural-one",
        ),
        *(
            pytest.param(
                *("ConvTranspose", {"x": (1, 1, 4)}, {"w": random(1, 2, 3)}, 22),
                {"strides": [3], "output_shape": [14], "auto_pad": mode},
                id=f"output-shape-two-past-the-natural-one-{mode}",
            )
            for mode in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
        ),
        pytest.param(
            *("ConvTranspose", {"x": (1, 1, 4, 4)}, {"w": random(1, 2, 3, 3)}, 22),
            {"strides": [2, 2], "output_shape": [8, 8], "pads": [1, 1, 1, 1]},
            id="pads-beside-an-output-shape",
        ),
        pytest.param(
            *("ConvTranspose", X, {"w": random(4, 3, 3, 2)}, 22),
            {"strides": [2, 3], "auto_pad": "SAME_LOWER"},
            id="same-makes-stride-times-size",
        ),
        *(
            pytest.param(
                *("ConvTranspose", {"x": (2, 2, *sizes)}, {"w": random(2, 3, *kernel)}, 22),
                {**attributes, "auto_pad": mode},
                id=f"odd-element-past-the-natural-output-{mode}-{len(sizes)}",
            )
            for mode in ("SAME_UPPER", "SAME_LOWER")
            for sizes, kernel, attributes in (
                ((2, 4), (1, 1), {"strides": [1, 2]}),
                ((1,), (1,), {"strides": [3], "output_shape": [4]}),
            )
        ),
        *(
            pytest.param(
                *("Resize", X, NO_REGION | {"scales": np.array([1, 1, *factors], np.float32)}, 19),
                {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
                id=f"align-corners-{factors[0]}",
            )
            for factors in ((2, 3), (1.7, 0.6), (0.6, 0.6))
        ),
    ],
)
def test_operator_computes_what_the_reference_does(
    op: str,
    inputs: dict[str, tuple[int, ...]],
    constants: dict[str, np.ndarray],
    opset: int,
    attributes: dict[str, Any],
    tmp_path: Path,
) -> None:
    proto = one_op(op, inputs, constants, opset, **attributes)
    given = {name: random(*shape, seed=i + 3) for i, (name, shape) in enumerate(inputs.items())}
    assert_same(run(load(proto, tmp_path), given), expected(proto, given))


EMPTY = [c for c in CASES if c.name in ("plain", "input", "input-dropped", "default", "attribute", "rest", "dcr")]
"""One form or two of every op."""


def emptied(case: Case, axis: int) -> dict[str, tuple[int, ...] | np.ndarray]:
    """The inputs of a case with 0 elements along a dimension."""
    found: dict[str, tuple[int, ...] | np.ndarray] = {}
    for name, given in case.inputs.items():
        shape = list(given.shape if isinstance(given, np.ndarray) else given)
        if axis < len(shape):
            shape[axis] = 0
        found[name] = np.zeros(shape, given.dtype) if isinstance(given, np.ndarray) else tuple(shape)
    return found


@pytest.mark.parametrize("size", [0, 3])
def test_elements_at_no_positions_are_empty(size: int, tmp_path: Path) -> None:
    positions, value = np.zeros((2, 0, 4), np.int64), np.ones((2, size, 4), np.float32)
    proto = one_op("GatherElements", {"x": value}, {"i": positions}, 20, 1, axis=1)
    assert run(load(proto, tmp_path), {"x": value})["y0"].shape == (2, 0, 4)


def test_a_normalization_of_no_elements_is_empty(tmp_path: Path) -> None:
    """It was refused for the means inside, which nothing reads."""
    value = np.zeros((2, 0, 4), np.float32)
    proto = one_op("MeanVarianceNormalization", {"x": value}, {}, 17, 1, axes=[1])
    assert run(load(proto, tmp_path), {"x": value})["y0"].shape == (2, 0, 4)
    rows = np.zeros((2, 0), np.float32)
    proto = one_op("LayerNormalization", {"x": rows}, {"scale": np.ones(0, np.float32)}, 17, 1)
    assert run(load(proto, tmp_path), {"x": rows})["y0"].shape == (2, 0)
    constants = {"scale": np.ones(2, np.float32), "bias": np.ones(2, np.float32)}
    proto = one_op("InstanceNormalization", {"x": np.zeros((1, 2, 0), np.float32)}, constants, 17, 1)
    assert run(load(proto, tmp_path), {"x": np.zeros((1, 2, 0), np.float32)})["y0"].shape == (1, 2, 0)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4, 2, 0)])
def test_reversed_sequences_of_no_elements_are_empty(shape: tuple[int, ...], tmp_path: Path) -> None:
    """They were refused by the text of a gather; onnxruntime and the reference give an empty tensor."""
    lengths = np.zeros(shape[1], np.int64)
    proto = one_op("ReverseSequence", {"x": shape}, {"n": lengths}, 17, 1, batch_axis=1, time_axis=0)
    assert run(load(proto, tmp_path), {"x": np.zeros(shape, np.float32)})["y0"].shape == shape


def test_nothing_can_be_selected_from_no_elements(tmp_path: Path) -> None:
    empty = one_op("Gather", {"x": (0, 3)}, {"i": np.zeros((2, 0), np.int64)}, 17, 1)
    assert run(load(empty, tmp_path), {"x": np.zeros((0, 3), np.float32)})["y0"].shape == (2, 0, 3)
    proto = one_op("Gather", {"x": (0, 3), "i": np.zeros(2, np.int64)}, {}, 17, 1)
    with pytest.raises(ModelError, match="found no elements along axis 0 to select from, expected 1 or more"):
        load(proto, tmp_path)


def test_a_log_sum_exp_neither_overflows_nor_is_nan(tmp_path: Path) -> None:
    value = np.array([[90, 89], [-np.inf, -np.inf], [-np.inf, 3]], np.float32)
    proto = one_op("ReduceLogSumExp", {"x": value}, {}, 13, 1, axes=[1], keepdims=0)
    found = run(load(proto, tmp_path), {"x": value})["y0"]
    np.testing.assert_allclose(found, [90 + np.log1p(np.exp(-1)), -np.inf, 3], rtol=1e-6)


def test_empty_tensors_are_computed_or_refused_in_one_line(tmp_path: Path) -> None:
    computed = compared = 0
    for case in EMPTY:
        for axis in range(4):
            inputs = emptied(case, axis)
            proto = one_op(case.op_type, inputs, case.constants, case.opsets[-1], case.outputs, **case.attributes)
            try:
                program = load(proto, tmp_path)
            except ModelError:
                continue
            given = {name: a if isinstance(a, np.ndarray) else random(*a) for name, a in inputs.items()}
            found = run(program, given)
            computed += 1
            try:
                wanted = expected(proto, given)
            except Exception:  # the reference implementation fails on many empty inputs
                continue
            compared += 1
            assert_same(found, wanted)
    assert computed > 150
    assert compared > 120


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_native_code_sums_empty_tensors(axis: int, tmp_path: Path) -> None:
    proto = one_op("ReduceSum", {"x": (2, 0, 4)}, {"axes": ints(axis)}, 13)
    program = load(proto, tmp_path)
    given = {"x": np.zeros((2, 0, 4), np.float32)}
    assert_same(run(program, given), expected(proto, given))
    assert_same(NativeProgram(simplify(program))(given), expected(proto, given))


def test_an_attribute_that_a_converter_does_not_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = {**converters.CONVERTERS, "SpaceToDepth": lambda node, build: node.operand(0)}
    monkeypatch.setattr("zeropoint.frontend.onnx.graph.CONVERTERS", careless)
    onnx.save(one_op("SpaceToDepth", {"x": (1, 2, 4, 4)}, opset=28, blocksize=2, mode="CRD"), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"found attribute 'blocksize' = 2, which is not supported"):
        load_model(tmp_path / "m.onnx")


def test_an_attribute_with_its_default_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    careless = {**converters.CONVERTERS, "LeakyRelu": lambda node, build: node.operand(0)}
    monkeypatch.setattr("zeropoint.frontend.onnx.graph.CONVERTERS", careless)
    load(one_op("LeakyRelu", {"x": (1, 2)}, alpha=0.01), tmp_path)


def test_a_kernel_shape_that_is_not_the_kernels_is_refused(tmp_path: Path) -> None:
    proto = one_op("Conv", X, {"w": random(6, 4, 3, 3)}, kernel_shape=[3, 5])
    with pytest.raises(ModelError, match=r"found kernel_shape \[3, 5\], expected \[3, 3\]"):
        load(proto, tmp_path)


@pytest.mark.parametrize("exponent", [0.5, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("is_constant", [False, True])
def test_an_integer_has_a_fraction_as_its_exponent(exponent: float, is_constant: bool, tmp_path: Path) -> None:
    given = {"x": np.array([4, 9, 2, 7], np.int32), "e": np.array([exponent], np.float32)}
    names = ("x",) if is_constant else ("x", "e")
    inputs = {name: given[name] for name in names}
    proto = one_op("Pow", inputs, {name: given[name] for name in given if name not in names}, opset=15)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    program = load(proto, tmp_path)
    for found in (run(program, inputs), NativeProgram(simplify(program))(inputs)):
        np.testing.assert_array_equal(found["y0"], (given["x"].astype(np.float64) ** exponent).astype(np.int32))


def test_an_input_becomes_a_constant(tmp_path: Path) -> None:
    proto = one_op("Reshape", {"x": (2, 6), "shape": ints(3, 4)})
    with pytest.raises(ModelError, match="make constants of the inputs they depend on: shape") as raised:
        load(proto, tmp_path)
    assert raised.value.inputs_to_fix == ("shape",)
    program = load_model(tmp_path / "model.onnx", constants={"shape": ints(3, 4)})
    assert [port.name for port in program.inputs] == ["x"]
    assert run(program, {"x": random(2, 6)})["y0"].shape == (3, 4)


def test_a_constant_for_an_input_has_to_fit(tmp_path: Path) -> None:
    onnx.save(one_op("Reshape", {"x": (2, 6), "shape": ints(3, 4)}), tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="found a value for 'size', expected one of the inputs: x, shape"):
        load_model(tmp_path / "model.onnx", constants={"size": ints(3)})
    with pytest.raises(ModelError, match=r"found a value of int32 and shape \[2\] for 'shape', expected int64"):
        load_model(tmp_path / "model.onnx", constants={"shape": np.array([3, 4], np.int32)})
