"""What a model states inside a region is not considered, for no kernel."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.solve import propagate
from zeropoint.targets import target

T, M = "tensor<1x4xf32>", "tensor<1x3xf32>"
Q = "tensor<1x4x!quant.uniform<i8:f32, 0.1>>"
STATED = {
    "nothing": "",
    "statistics": f'%q = "quant.stats"(%p) {{layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>}} : ({T}) -> {T}',
    "a reference": f'%q = "quant.stats_ref"(%p) {{statsKey = "k"}} : ({T}) -> {T}',
    "a coupling": f'%q = "quant.coupled_ref"(%p) {{coupledKey = "k"}} : ({T}) -> {T}',
    "a pair of casts": f"%s = quant.qcast %p : {T} to {Q}\n%q = quant.dcast %s : {Q} to {T}",
}
KERNELS = {
    "tanh": (f"%r = stablehlo.tanh %q : {T}", T),
    "add": (f"%r = stablehlo.add %q, %p : {T}", T),
    "reshape": (f"%r = stablehlo.reshape %q : ({T}) -> tensor<4xf32>", "tensor<4xf32>"),
    "fully_connected": (
        f"%r = stablehlo.dot_general %q, %v, contracting_dims = [1] x [0] : ({T}, tensor<4x3xf32>) -> {M}",
        M,
    ),
}


def text(kernel: str, stated: str) -> str:
    body, result = KERNELS[kernel]
    body = f"{stated}\n{body}" if stated else body.replace("%q", "%p")
    weight = ", %v: tensor<4x3xf32> = %w" if kernel == "fully_connected" else ""
    again = f", %o: {T} = %a" if kernel == "add" else ""
    return f"""func.func @main(%x: {T}) -> {result} {{
      %a = "quant.stats"(%x) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : ({T}) -> {T}
      %w = stablehlo.constant dense<[[0.5, 0.2, 0.1], [0.4, 0.1, 0.2], [0.3, 0.1, 0.5], [1.0, 0.4, 0.2]]>
        : tensor<4x3xf32>
      %0 = quant.region "{kernel}"(%p: {T} = %a{weight}{again}) -> {result} {{
        {body}
        quant.return %r : {result}
      }}
      %1 = "quant.stats"(%0) {{layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>}} : ({result}) -> {result}
      return %1 : {result}
    }}"""


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("stated", [name for name in STATED if name != "nothing"])
def test_what_is_stated_inside_a_region_changes_nothing(kernel: str, stated: str) -> None:
    made, plain = (
        integer_program(materialize(propagate(parse_program(text(kernel, STATED[name])), target("cpu"))))
        for name in (stated, "nothing")
    )
    assert print_program(made) == print_program(plain)
    x = {"arg0": np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)}
    np.testing.assert_array_equal(*(next(iter(Interpreter(run)(x).values())) for run in (made, plain)))
