"""The lock-step walk, against the whole programs run by the interpreter."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import silent
from zeropoint.correct.judge import without_specs
from zeropoint.correct.walk import Walk, bytes_a_sample, fitting
from zeropoint.interp import Interpreter, ReferenceEngine
from zeropoint.ir.stablehlo import AddOp
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.pipeline import Options, quantize
from zeropoint.recipe import recipe_of


@some(8)
@given(case=cases())
def test_both_sides_are_what_the_whole_programs_compute(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    walk = Walk(program, ReferenceEngine(), lambda step: None)
    walk.run(case.samples, silent)
    whole, exact = Interpreter(integer_program(materialize(program))), Interpreter(without_specs(program))
    returned = program.entry.last_op.operands
    for number, sample in enumerate(case.samples):
        for found, expected in zip(returned, exact(sample).values(), strict=True):
            np.testing.assert_array_equal(walk.values[found].exact[number], expected)
        for found, expected in zip(returned, whole(sample).values(), strict=True):
            np.testing.assert_array_equal(walk.values[found].real(number), expected)


@some(4)
@given(case=cases())
def test_only_what_is_returned_is_left(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    walk = Walk(program, ReferenceEngine(), lambda step: None)
    walk.run(case.samples[:1], silent)
    assert set(walk.values) <= {*program.entry.last_op.operands, *program.entry.args}


@some(4)
@given(case=cases())
def test_as_many_samples_are_walked_as_there_is_memory_for(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    need = bytes_a_sample(program)
    assert len(fitting(program, case.samples, 2 * need)) == 2
    assert len(fitting(program, case.samples, need // 2)) == 1
    assert len(fitting(program, case.samples, 100 * need)) == len(case.samples)


def test_wide_values_take_two_bytes() -> None:
    net = Network([(1, 64)])
    total = net.insert(AddOp(net.values[0], net.values[0]))
    program = net.finish([net.insert(AddOp(total, total))])
    data = [{"x0": np.linspace(-1, 1, 64, dtype=np.float32)[None]}]
    narrow, wide = (
        bytes_a_sample(quantize(program, data, Options("cpu-wide", effort="none", recipe=recipe)).propagated)
        for recipe in (None, recipe_of([{"regex": ".*", "bits": 16}]))
    )
    floats = 64 * (4 + 4)  # the input, which is alive together with the first sum
    assert (narrow, wide) == (floats + 64 * (4 + 1), floats + 64 * (4 + 2))
