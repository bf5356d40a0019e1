"""The lock-step walk, against the whole programs run by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import silent
from zeropoint.correct.judge import without_specs
from zeropoint.correct.walk import Walk, WalkStep, bytes_a_sample, fitting
from zeropoint.interp import Interpreter, Observe, ReferenceEngine, Runnable
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp
from zeropoint.ir.tensors import Array
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.pipeline import Options, quantize
from zeropoint.recipe import recipe_of


@pytest.mark.parametrize("visited", [True, False])
@some(8)
@given(case=cases())
def test_both_sides_are_what_the_whole_programs_compute(case: Case, visited: bool) -> None:
    program, steps = quantized(case.program, case.calibration, stage="propagated"), list[WalkStep]()
    walk = Walk(program, ReferenceEngine(), steps.append, visits=lambda region: visited)
    walk.run(case.samples, silent)
    assert bool(steps) == (visited and bool(regions_of(program)))
    whole, exact = Interpreter(integer_program(materialize(program))), Interpreter(without_specs(program))
    returned = program.entry.last_op.operands
    for number, sample in enumerate(case.samples):
        for found, expected in zip(returned, exact(sample).values(), strict=True):
            np.testing.assert_array_equal(walk.values[found].exact[number], expected)
        for found, expected in zip(returned, whole(sample).values(), strict=True):
            np.testing.assert_array_equal(walk.values[found].real(number), expected)


def test_a_value_whose_last_reader_is_not_visited_is_dropped_as_it_is_read() -> None:
    net = Network([(1, 64), (1, 64)])
    first = net.insert(AddOp(net.values[0], net.values[1]))
    program = net.finish([net.insert(AddOp(first, net.values[1]))])
    values = [np.linspace(-1, number + 1, 64, dtype=np.float32)[None] for number in range(3)]
    data = [{"x0": value, "x1": value[:, ::-1]} for value in values]
    made, counts = quantized(program, data, stage="propagated"), list[int]()

    class Watched(ReferenceEngine):
        def prepare(self, program: Program) -> Runnable:
            run = super().prepare(program)

            def watched(inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
                last = [*walk.values.values()][-1]
                counts.append(sum(array.size > 0 for form in (last.exact, last.stored) for array in form))
                return run(inputs, observe=observe)

            return watched

    walk = Walk(made, Watched(), lambda step: None, visits=lambda region: False)
    walk.run(data, silent)
    assert counts[-6:] == [6, 5, 4, 3, 2, 1]  # of both networks: the float one runs first


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
