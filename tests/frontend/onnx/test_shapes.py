"""Dynamic dimensions, and what models compute from shapes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load, one_op
from zeropoint.frontend import ModelError, load_model
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program

CHAIN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3, H, 4] x) => (float[M, K] y)
<int64 zero = {0}, int64 two = {2}, int64[1] axes = {0}, int64[1] rest = {-1}>
{
  [act] a = Relu(x)
  [shape] s = Shape(a)
  [batch] n = Gather<axis = 0>(s, zero)
  [height] h = Gather<axis = 0>(s, two)
  [float] hf = Cast<to = 1>(h)
  [int] hi = Cast<to = 7>(hf)
  [times] m = Mul(n, hi)
  [over] d = Div(m, hi)
  [first] u = Unsqueeze(d, axes)
  [list] l = Concat<axis = 0>(u, rest)
  [flat] f = Reshape(a, l)
  [last] y = Tanh(f)
}
"""

DYNAMIC_SLICE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, C, 6] x) => (float[A, B, D] y, float[E, F, G] z)
<int64 one = {1}, int64 two = {2}, int64[1] axes = {0}, int64[1] channel = {1}, int64[1] zero = {0}>
{
  s = Shape(x)
  c = Gather<axis = 0>(s, one)
  half = Div(c, two)
  h = Unsqueeze(half, axes)
  all = Unsqueeze(c, axes)
  [low] y = Slice(x, zero, h, channel)
  [high] z = Slice(x, h, all, channel)
}
"""

RANGE_AND_CONDITION = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 6] x) => (float[A, B, C] y)
<int64 zero = {0}, int64 one = {1}, int64 two = {2}>
{
  s = Shape(x)
  c = Gather<axis = 0>(s, one)
  [range] i = Range(zero, c, two)
  [pick] p = Gather<axis = 1>(x, i)
  same = Equal(c, two)
  [choose] y = If(same) <
    then_branch = g1 () => (float[A, B, C] t) { [then] t = Relu(p) },
    else_branch = g2 () => (float[A, B, C] e) { [else] e = Neg(p) }
  >
}
"""


def op_names(program: Program) -> list[str]:
    return list(dict.fromkeys(location_text(op.location) or op.name for op in program.entry.ops))


def test_shape_arithmetic_is_folded_and_names_survive(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(CHAIN)
    program = assert_same_as_onnxruntime(proto, tmp_path, x=(2, 3, 5, 4))
    assert op_names(program) == ["act", "flat", "last", "func.return"]


def test_folding_does_not_need_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    program = load(onnx.parser.parse_model(CHAIN), tmp_path, x=(2, 3, 5, 4))
    assert op_names(program) == ["act", "flat", "last", "func.return"]


def test_slice_bounds_are_folded(tmp_path: Path) -> None:
    program = assert_same_as_onnxruntime(onnx.parser.parse_model(DYNAMIC_SLICE), tmp_path, x=(1, 5, 6))
    assert op_names(program) == ["low", "high", "func.return"]


def test_range_and_condition_are_folded(tmp_path: Path) -> None:
    program = assert_same_as_onnxruntime(onnx.parser.parse_model(RANGE_AND_CONDITION), tmp_path)
    assert [op.name for op in program.entry.ops] == ["stablehlo.slice", "stablehlo.negate", "func.return"]


def test_elements_of_a_constant_by_constant_positions_are_folded(tmp_path: Path) -> None:
    """The token types of a BERT. ONNX's reference implementation fails for one row."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x) => (float[1, 4] y) <int64[1, 6] t = {5, 4, 3, 2, 1, 0}, int64[1, 4] i = {1, -1, 0, 2}> {
 e = GatherElements<axis = 1>(t, i)
 f = Cast<to = 1>(e)
 y = Add(x, f)
}""")
    program = assert_same_as_onnxruntime(proto, tmp_path)
    assert not [op for op in program.entry.ops if op.name == "stablehlo.gather"]


def test_static_model_needs_no_shape(tmp_path: Path) -> None:
    load(one_op("Relu", {"x": (1, 2)}), tmp_path)


def test_a_symbol_given_once_is_known_everywhere(tmp_path: Path) -> None:
    proto = one_op("Add", {"a": ("N", 3), "b": ("N", 3)})
    assert [port.type.get_shape() for port in load(proto, tmp_path, a=(4, 3)).inputs] == [(4, 3), (4, 3)]


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        (
            ("N", 3, None, 8),
            {},
            "input 'x' has a dynamic dimension 0 (N); input 'x' has a dynamic dimension 2; give the shape, for "
            "example: --shape x=1x3x224x8 (in Python shapes={'x': (1, 3, 224, 8)})",
        ),
        *(
            (
                shape,
                {},
                f"input 'x' has a dynamic dimension {axis} (T); give the shape, for example: "
                f"--shape x={'x'.join(map(str, example))} (in Python shapes={{'x': {example}}})",
            )
            for shape, axis, example in (
                ((1, "T"), 1, (1, 128)),
                ((1, "T", 80), 1, (1, 128, 80)),
                ((2, "T", 128), 1, (2, 1, 128)),  # the state of two layers
                (("T", 24, 24, 3), 0, (1, 24, 24, 3)),
            )
        ),
        (
            None,
            {},
            "input 'x' has no shape; give the shape, for example: --shape x=1x3x224x224 "
            "(in Python shapes={'x': (1, 3, 224, 224)})",
        ),
        (("N", 3), {"z": (1, 3)}, "found a shape for 'z', expected one of the inputs: x"),
        (("N", 3), {"x": (1, 3, 4)}, "found shape 1x3x4 for 'x', expected 2 dimensions as in the model"),
        (("N", "N"), {"x": (1, 4)}, "found shape 1x4 for 'x', expected 1 at dimension 1"),
        (("N", 3), {"x": (0, 3)}, "found shape 0x3 for 'x', expected sizes of 1 or more"),
    ],
)
def test_shape_that_does_not_fit_is_one_line(
    shape: tuple[int | str | None, ...] | None, given: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as error:
        load(one_op("Relu", {"x": shape}), tmp_path, **given)  # pyright: ignore (shapes that are not valid, too)
    assert str(error.value) == f"{tmp_path / 'model.onnx'}: {message}"


def test_conflicting_symbols_of_two_inputs_are_named(tmp_path: Path) -> None:
    proto = one_op("Add", {"a": ("N", 3), "b": ("N", 3)})
    with pytest.raises(ModelError, match="found shape 5x3 for 'b', expected 4 at dimension 0"):
        load(proto, tmp_path, a=(4, 3), b=(5, 3))


def test_shape_arithmetic_that_fails_is_named(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 4] x) => (float[A, B] y) <int64 far = {7}, int64[1] axes = {0}>
        {
          s = Shape(x)
          [bad] n = Gather<axis = 0>(s, far)
          u = Unsqueeze(n, axes)
          y = Reshape(x, u)
        }
        """
    )
    with pytest.raises(ModelError) as error:
        load(proto, tmp_path)
    assert "bad" in str(error.value)
    assert "\n" not in str(error.value)


def test_output_that_is_an_input_or_a_constant(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y, float[2] c) <float[2] c = {1.0, 2.0}>
        { y = Identity(x) }
        """
    )
    program = assert_same_as_onnxruntime(proto, tmp_path)
    assert [op.name for op in program.entry.ops] == ["stablehlo.constant", "func.return"]
    assert np.array_equal(program.weights.array(next(iter(program.entry.ops)).properties["value"]), [1, 2])


def test_a_shape_changes_static_dimensions(tmp_path: Path) -> None:
    program = load(one_op("Relu", {"x": (1, 3)}), tmp_path, x=(4, 5))
    assert program.inputs[0].type.get_shape() == (4, 5)
    assert program.outputs[0].type.get_shape() == (4, 5)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_number_takes_the_type_of_the_input(shape: tuple[int, ...], tmp_path: Path) -> None:
    proto = one_op("Add", {"a": (2, 3), "b": shape})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    program = load_model(path, constants={"b": 2})
    assert [port.name for port in program.inputs] == ["a"]
    with pytest.raises(ModelError, match=r"found the number 2 for 'a', expected an array of shape \[2, 3\]"):
        load_model(path, constants={"a": 2})
