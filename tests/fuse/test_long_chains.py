"""Chains of elementwise ops: any length, with work that grows with it and not with its square."""

from __future__ import annotations

import pytest

from zeropoint.calibrate import instrument
from zeropoint.fuse import fuse
from zeropoint.ir.functions import is_function
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.text import parse_program
from zeropoint.report.explain import explain


def chain(length: int) -> str:
    ops = "\n".join(f"  %{i + 1} = stablehlo.tanh %{i} : tensor<4xf32>" for i in range(length))
    return (
        'func.func @main(%0: tensor<4xf32> {zeropoint.name = "x"}) -> tensor<4xf32> {\n'
        f"{ops}\n  return %{length} : tensor<4xf32>\n}}\n"
    )


def test_a_chain_longer_than_pythons_stack_becomes_one_function() -> None:
    program = fuse(parse_program(chain(1500)))
    (region,) = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
    assert len(region.body.block.ops) == 1501
    (value, made) = explain(instrument(program)).values
    assert (value.kind, made.read_by) == ("input", ())


def looks(length: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often fusion looks at an op of a chain."""
    count = 0

    def counted(op: object) -> bool:
        nonlocal count
        count += 1
        return is_function(op)

    with monkeypatch.context() as patch:
        patch.setattr("zeropoint.fuse.elementwise.is_function", counted)
        fuse(parse_program(chain(length)))
    return count


def test_the_work_on_a_chain_is_linear_in_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(200, monkeypatch) <= 2.2 * looks(100, monkeypatch)
