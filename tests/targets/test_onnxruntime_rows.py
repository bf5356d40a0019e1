"""Every row of `onnxruntime.toml`, against onnxruntime: a QDQ model of one op is made from the row.

Its optimizer must put the row's integer kernel there, or drop the casts where the op only moves data; what the row
excludes must stay float. The kernel must compute what our interpreter computes of the quantized program, which our own
stages make of the same model, under the table's profile: every integer.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracle.qdq import Optimized, optimized
from targets.confirmation import confirming
from targets.qdq_case import loaded, propagated, variants
from zeropoint.check_target.cases import CASES as SHARED
from zeropoint.check_target.cases import IMAGE, NO_ROI, TWICE
from zeropoint.check_target.models import Built, Case, ModelPort, built, row_id, signatures
from zeropoint.interp import run
from zeropoint.ir.quant import Storage
from zeropoint.materialize import materialize
from zeropoint.targets import EitherSign, KernelRow, SameScale, target

NAME, PACKAGE = "onnxruntime", "onnxruntime"


CASES = {kernel: cases for kernel, cases in SHARED.items() if kernel in target(NAME).by_kernel}


def read_as_it_is() -> list[Any]:
    """The variants of rows whose op the runtime has; for others, see `tests/export/test_hard_sigmoid.py`."""
    return [each for each in variants(NAME) if not each.values[1].case.exported]


def fused(found: Optimized, case: Case) -> bool:
    """Whether the kernel stands alone between the casts at the edges."""
    return found.inner == (case.kernel or case.op,)


@pytest.mark.parametrize(("row", "made"), read_as_it_is())
def test_the_optimizer_puts_the_integer_kernel_of_the_row(row: KernelRow, made: Built) -> None:
    if not made.results:
        pytest.skip("positions are exported as an operator on integers, which no optimizer makes")
    with confirming(NAME, row, PACKAGE):
        found = optimized(made.proto)
        assert fused(found, made.case), found.ops


@pytest.mark.parametrize(("row", "made"), read_as_it_is())
def test_the_kernel_computes_what_our_quantized_program_says(row: KernelRow, made: Built, tmp_path: Path) -> None:
    if not made.case.loaded:
        pytest.skip(f"the importer does not know {made.case.op}")
    with confirming(NAME, row, PACKAGE):
        expected = run(materialize(propagated(NAME, loaded(made.proto, tmp_path))), made.inputs)
        found = optimized(made.proto).run(made.inputs)
        if not made.results:
            assert len(np.unique(found[0])) > 1, "the positions say nothing"
            np.testing.assert_array_equal(found[0], *expected.values())
        for port, theirs, mine in zip(made.results, found, expected.values(), strict=bool(made.results)):
            steps = [np.rint(real / np.float32(port.scale)) for real in (theirs, mine)]
            assert len(np.unique(steps[0])) > 10, "the result says nothing"
            np.testing.assert_array_equal(steps[0], steps[1])


def other_sign(port: ModelPort) -> dict[str, Any]:
    """The parameters of the same real values in storage of the other sign."""
    storage = EitherSign(port.storage).other
    return {"storage": storage, "zero_point": port.zero_point + storage.minimum - port.storage.minimum}


def with_operand(made: Built, index: int, **changes: Any) -> Built:
    """A copy in which fields of one operand are replaced."""
    changed = list(made.operands)
    operand = changed[index]
    assert isinstance(operand, ModelPort)
    changed[index] = replace(operand, **changes)
    return replace(made, operands=tuple(changed))


def with_results(made: Built, **changes: Any) -> Built:
    """A copy in which fields of all results are replaced."""
    return replace(made, results=tuple(replace(port, **changes) for port in made.results))


def in_sixteen_bits(made: Built) -> Built:
    storage = Storage.of("i16" if made.results[0].storage.type.signed else "u16")
    for index, operand in enumerate(made.operands):
        if isinstance(operand, ModelPort) and operand.value is None:
            made = with_operand(made, index, storage=storage)
    return with_results(made, storage=storage)


def excluded(row: KernelRow, made: Built) -> Iterator[tuple[str, Built]]:
    """What the row excludes, one thing after the other, each with what it is called."""
    if not made.results:
        return
    yield "a result of the other sign", with_results(made, **other_sign(made.results[0]))
    if 16 not in row.output.widths:
        yield "16 bits", in_sixteen_bits(made)
    if isinstance(row.relation, SameScale):
        yield "a result of another scale", with_results(made, scale=made.results[0].scale * 2)
        yield "a result of another zero point", with_results(made, zero_point=made.results[0].zero_point + 1)
    if made.case.weight:
        yield "weights of 16 bits", with_operand(made, 1, storage=Storage.of("i16"))
        weight, act = (made.operands[i] for i in (1, 0))
        assert isinstance(weight, ModelPort)
        assert isinstance(act, ModelPort)
        if act.storage.type.signed:
            signs = other_sign(weight)
            value = None if weight.value is None else weight.value + signs["zero_point"]
            yield "unsigned weights", with_operand(made, 1, **signs, value=value)
    if made.case.bias:
        bias = made.operands[2]
        assert isinstance(bias, ModelPort)
        yield "a bias with a zero point", with_operand(made, 2, zero_point=1)
        yield "a bias of another scale", with_operand(made, 2, scale=bias.scale * 2)


UNCHECKED = {("Gemm", "a bias with a zero point"), ("Gemm", "a bias of another scale")}
"""What a row excludes and the runtime does not look at: it takes the model and computes something else."""


def exclusions() -> list[Any]:
    found = []
    for row in target(NAME).rows:
        for case in CASES.get(row.kernel, ()):
            for storages in signatures(row) if not case.exported else ():
                for label, made in excluded(row, built(row, case, storages)):
                    names = "-".join([row_id(row), case.op, str(storages[-1]), label])
                    found.append(pytest.param(row, label, made, id=names))
    return found


@pytest.mark.parametrize(("row", "label", "made"), exclusions())
def test_what_the_row_excludes_stays_float_or_is_not_looked_at(row: KernelRow, label: str, made: Built) -> None:
    with confirming(NAME, row, PACKAGE):
        found = optimized(made.proto)
        assert fused(found, made.case) == ((made.case.op, label) in UNCHECKED), found.ops


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only on x64 is i8 rewritten to u8")
@pytest.mark.parametrize("label", ["as the row says", "unsigned weights", "a result of the other sign"])
def test_on_x64_every_sign_is_rewritten_to_u8(label: str) -> None:
    row = next(row for row in target(NAME).rows if row.kernel == "convolution" and row.output.storage.type.signed)
    case = CASES["convolution"][0]
    made = built(row, case, signatures(row)[0])
    changed = {"as the row says": made, **dict(excluded(row, made))}[label]
    with confirming(NAME, row, PACKAGE):
        assert fused(optimized(changed.proto, signed=False), case)


FLOAT = {
    "SpaceToDepth": Case("SpaceToDepth", ((2, 3, 6, 6),), attributes={"blocksize": 2}),
    "ReduceMean": Case("ReduceMean", (IMAGE,), others=([2, 3],)),
    "Resize, linear": Case("Resize", (IMAGE,), others=(NO_ROI, TWICE), attributes={"mode": "linear"}),
    "Pad": Case("Pad", (IMAGE,), others=([0, 0, 1, 1, 0, 0, 1, 1],)),
    "Relu": Case("Relu", (IMAGE,)),
    "Sub": Case("Sub", (IMAGE, IMAGE)),
    "Tanh": Case("Tanh", (IMAGE,)),
}


@pytest.mark.parametrize("case", FLOAT.values(), ids=FLOAT)
def test_ops_that_no_row_is_for_stay_float(case: Case) -> None:
    row = target(NAME).row("reshape")
    assert row is not None
    found = optimized(built(row, case, signatures(row)[0]).proto)
    assert not fused(found, case), found.ops
