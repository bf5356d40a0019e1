"""What a target's table says to fusion: the bounds that its kernels take in, the composites that they cover."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from networks import Network
from solve.own_targets import row, table
from solve.rfc import kernels
from zeropoint import fuse as fusion
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir import named_functions
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ClampOp
from zeropoint.ir.text import parse_program
from zeropoint.materialize import materialize
from zeropoint.passes import PASSES
from zeropoint.report.explain import explain
from zeropoint.solve import propagate
from zeropoint.targets import TargetError, target
from zeropoint.targets.logical_kernels import FUSED

GATE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "my.gate" %0 {decomposition = @gate} : (tensor<4xf32>) -> tensor<4xf32> loc("gate1")
  %2 = "quant.stats"(%1) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @gate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.logistic %x : tensor<4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def clipped(low: float, high: float) -> Program:
    net = Network([(4,), (4,)])
    total = net.insert(AddOp(*net.values))
    return net.finish([net.insert(ClampOp(net.constant(np.array(low)), total, net.constant(np.array(high))))])


def test_the_bounds_of_a_target_go_with_extends(tmp_path: Path) -> None:
    mine = table(tmp_path, row(composites=["my.gate"]))
    for made in (target("litert"), mine, target("litert-16x8")):
        assert kernels(fuse(clipped(0.0, 6.0), made)) == ["add"]
        assert len(kernels(fuse(clipped(0.0, 3.0), made))) > 1


def test_a_table_says_which_bounds_its_kernels_take(tmp_path: Path) -> None:
    assert kernels(fuse(clipped(0.0, 3.0), table(tmp_path, "bounds = [[0, 3]]"))) == ["add"]
    assert len(kernels(fuse(clipped(0.0, 6.0), table(tmp_path, "bounds = [[0, 3]]")))) > 1
    assert kernels(fuse(clipped(-0.25, 0.5), table(tmp_path, 'bounds = "any"'))) == ["add"]
    assert len(kernels(fuse(clipped(0.0, 3.0), table(tmp_path, "bounds = []", "cpu")))) > 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bounds = 3", r"found bounds 3, expected 'any' or a list of pairs"),
        ("bounds = [[0]]", r"found bounds \[0\], expected 'any' or a list of pairs"),
        ("bounds = [[6, 0]]", r"found bounds \[6, 0\], expected the lower bound first"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence):
        table(tmp_path, text)


def test_a_composite_that_a_row_names_is_its_kernel(tmp_path: Path) -> None:
    program = parse_program(GATE)
    mine = table(tmp_path, row(composites=["my.gate"]), "cpu")
    fused = PASSES["fuse"].run(program, mine)
    assert kernels(fused) == ["gate"]
    assert kernels(fuse(program, target("cpu"))) == ["elementwise_unary"]
    quantized = materialize(propagate(fused, mine))
    x = {"arg0": np.array([-1.0, -0.25, 0.5, 1.0], np.float32)}
    expected = Interpreter(program)(x)
    (name,) = expected
    np.testing.assert_allclose(Interpreter(quantized)(x)[name], expected[name], atol=2 / 127)
    assert not [op for op in explain(quantized).float_ops if "no kernel covers it" in op.reason]


def test_a_row_whose_kernel_nothing_makes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TargetError, match=r"column 'name': found kernel 'max_pol', which no pattern produces, expected 'max_poo"
    ):
        table(tmp_path, row(name="max_pol"))
    with pytest.raises(
        TargetError, match=r"found kernel 'gate', which no pattern produces.*composites = \['NAMESPACE.NAME'\]"
    ):
        table(tmp_path, row())
    with pytest.raises(TargetError, match=r"column 'composites': found composites of 'add', which patterns produce"):
        table(tmp_path, row(name="add", composites=["my.add"]))
    assert table(tmp_path, row(composites=[])).by_kernel["gate"]


def test_the_list_of_kernels_that_fusion_makes_is_that_of_its_patterns() -> None:
    """Every name in the list is a text in the patterns, so that a row of it can be reached."""
    files = [*Path(fusion.__file__ or "").parent.glob("*.py"), Path(named_functions.__file__ or "")]
    texts = {
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert texts >= FUSED
