"""Shape arithmetic that the importer evaluates gives the program that folding it by onnxscript gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load
from zeropoint.frontend.onnx import shapes
from zeropoint.ir.text import print_program

BATCH = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3, H, 4] x) => (float[M, K] y)
<int64 zero = {0}, int64 two = {2}, int64[1] axes = {0}, int64[1] rest = {-1}>
{
  [act] a = Relu(x)
  [shape] s = Shape(a)
  [batch] n = Gather<axis = 0>(s, zero)
  [height] h = Gather<axis = 0>(s, two)
  [times] m = Mul(n, h)
  [same] c = Cast<to = 7>(m)
  [over] d = Div(c, h)
  [first] u = Unsqueeze(d, axes)
  [list] l = Concat<axis = 0>(u, rest)
  [flat] f = Reshape(a, l)
  [last] y = Tanh(f)
}
"""
SLICED = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3, 4] x) => (float[A, B] y) <int64[1] zero = {0}, int64[1] one = {1}>
{
  [shape] s = Shape(x)
  [from] b = Slice(s, zero, one, zero)
  minus = Constant<value_ints = [-1]>()
  [list] l = Concat<axis = 0>(b, minus)
  [flat] y = Reshape(x, l)
}
"""
BIASES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y) <float[2] b = {1.5, -2.0}>
{
  form = Constant<value_ints = [1, -1, 1, 1]>()
  c = Constant<value = float[2] {3.0, 4.0}>()
  [first] d = Reshape(b, form)
  [sum] e = Add(x, d)
  [second] f = Reshape(c, form)
  [product] y = Mul(e, f)
}
"""
STATE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3] x) => (float[N, 3] y)
{
  [shape] s = Shape(x)
  [zeros] z = ConstantOfShape<value = float[1] {0.5}>(s)
  [sum] y = Add(x, z)
}
"""
MODELS = {"batch": BATCH, "sliced": SLICED, "biases": BIASES, "state": STATE}
SHAPES = {"batch": (2, 3, 5, 4), "sliced": (2, 3, 4), "state": (2, 3)}


@pytest.mark.parametrize("name", MODELS)
def test_onnxscript_folds_to_the_same_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto, given = onnx.parser.parse_model(MODELS[name]), {"x": SHAPES[name]} if name in SHAPES else {}
    ours = print_program(assert_same_as_onnxruntime(proto, tmp_path, **given), locations=True)
    monkeypatch.setattr(shapes, "evaluates", lambda *_: False)
    assert ours == print_program(load(proto, tmp_path, **given), locations=True)


@pytest.mark.parametrize("name", MODELS)
def test_onnxscript_is_not_imported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODELS[name]), path)
    given = {"x": SHAPES[name]} if name in SHAPES else {}
    code = (
        f"import sys; from zeropoint.frontend import load_model; load_model({str(path)!r}, {given!r}); "
        "sys.exit('onnx_ir' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FLOATS = BATCH.replace("[same] c = Cast<to = 7>(m)", "k = Cast<to = 1>(m)\n  [same] c = Cast<to = 7>(k)")
MISFIT = BIASES.replace("[1, -1, 1, 1]", "[1, 3, 1, 1]")
SCALED = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3] x) => (float[N, 3] y) <float factor = {2.0}>
{
  [shape] s = Shape(x)
  [zeros] z = ConstantOfShape(s)
  [scaled] m = Mul(z, factor)
  [sum] y = Add(x, m)
}
"""


@pytest.mark.parametrize(("text", "shape"), [(FLOATS, (2, 3, 5, 4)), (SCALED, (2, 3))], ids=["cast", "scaled"])
def test_floats_computed_from_shapes_are_folded(text: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    program = assert_same_as_onnxruntime(onnx.parser.parse_model(text), tmp_path, x=shape)
    assert not [op for op in program.entry.ops if op.name in ("stablehlo.multiply", "stablehlo.divide")]


def test_a_shape_that_a_constant_does_not_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="first"):
        load(onnx.parser.parse_model(MISFIT), tmp_path)


ODD = {
    "a shape from a start below the first dimension": "n = Shape<start = -9, end = 2>(x)",
    "a shape to an end below the first dimension": "m = Shape<start = 1, end = -4>(x)\n n = Concat<axis = 0>(m, ones)",
    "a slice backwards from before the first element": "n = Slice(s, before, least, zero, minus)",
    "a slice backwards to the greatest integer": "n = Slice(s, two, greatest, zero, minus)",
    "squeezed at no given dimension": "m = Unsqueeze(two, zero)\n k = Squeeze(m, none)\n n = Unsqueeze(k, zero)",
    "divided toward zero": "m = Sub(two, s)\n n = Div(m, two)",
}
ODD_OLD = {
    "dimensions that count from both ends": "n = Unsqueeze<axes = [-1, 0]>(s)",
    "dimensions that count from the end": "n = Unsqueeze<axes = [-2, -1]>(s)",
}
ODD_MODEL = """
<ir_version: 8, opset_import: ["" : OPSET]>
g (float[2, 3, 4] x) => (float y)
<int64[1] zero = {0}, int64[1] two = {2}, int64[1] minus = {-1}, int64[1] before = {-9}, int64[2] ones = {1, 1},
 int64[1] least = {-9223372036854775807}, int64[1] greatest = {9223372036854775807}, int64[0] none = {}>
{
  s = Shape(x)
  NODES
  f = Cast<to = 1>(n)
  first = Constant<value_int = 1>()
  r = Gather<axis = 0>(x, first)
  t = Gather<axis = 0>(r, first)
  u = Gather<axis = 0>(t, first)
  y = Add(f, u)
}
"""


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize(
    ("nodes", "opset"),
    [pytest.param(nodes, opset, id=name) for odd, opset in ((ODD, 17), (ODD_OLD, 12)) for name, nodes in odd.items()],
)
def test_odd_forms_are_evaluated_as_onnxruntime_does(
    nodes: str, opset: int, folded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in graphs whose other nodes onnxscript folds, as those with floats."""
    if folded:
        monkeypatch.setattr(shapes, "evaluates", lambda *_: False)
    text = ODD_MODEL.replace("NODES", nodes).replace("OPSET", str(opset))
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    assert_same_as_onnxruntime(proto, tmp_path)
