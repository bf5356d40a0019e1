"""Our ranges beside those of upstream's `int-range-optimizations`, on every integer op that both know.

Both must contain what random programs compute, in Python integers. From operands of equal ranges, both give the same
range, or the table below says why not.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from oracle.integer_ranges import Bound, answers
from oracle.mlir import require
from ranges.scalar_programs import ScalarProgram, Step, computed, ends_of, extreme, wrapped
from zeropoint.ir.text import parse_program
from zeropoint.ranges import EXACT, Interval, ranges_of

NARROWER = {
    "abs": "upstream has no rule",
    "and": "upstream takes the whole type if a range contains numbers of both signs",
    "divide": "upstream takes the whole type if the divisor may be 0; ours is the guarded division that we emit",
    "not": "upstream keeps the bits that all numbers share",
    "or": "upstream keeps the bits that all numbers share",
    "remainder": "upstream bounds it by the divisor alone, and takes the whole type if that may be 0",
    "shift_left": "upstream takes the whole type if the amount may be the width or more; ours is the guarded shift",
    "shift_right_arithmetic": "the same",
    "shift_right_logical": "the same",
    "xor": "upstream keeps the bits that all numbers share",
}
"""Ops for which our range may be the narrower one."""
WIDER = {
    "remainder": "of constants we do not compute it",
    "select": "we do not decide comparisons",
    "shift_right_logical": "a negative number may be shifted by 0 or not",
}
"""Ops for which our range may be the wider one. All others are only if their numbers may wrap around."""

Pair = tuple[int, int]


def bounds_of(found: Interval, element: str) -> Pair:
    low, high = ends_of(element)
    return (found.least if found.least >= -EXACT else low), (found.greatest if found.greatest <= EXACT else high)


def our_ranges(made: ScalarProgram) -> dict[str, Pair]:
    program = parse_program(made.text)
    ranges, end = ranges_of(program), program.entry.last_op
    assert end is not None
    steps = zip(made.returned, end.operands, strict=True)
    constants = {step.result: (step.number, step.number) for step in made.steps if step.name == "constant"}
    arguments = {name: ends_of(element) for name, element in made.arguments.items()}
    return {**constants, **arguments} | {s.result: bounds_of(ranges.of(value), s.element) for s, value in steps}


def verdicts(made: ScalarProgram, ours: dict[str, Pair]) -> dict[str, str]:
    """How our range of each result compares with upstream's: equal, narrower, wider, or neither of them."""
    asked: list[Bound] = []
    for n, step in enumerate(made.returned):
        low, high = ours[step.result]
        for at_most, number in ((True, high), (True, max(high - 1, low)), (False, low), (False, min(low + 1, high))):
            asked.append(Bound(n, step.element, at_most, number))
    given = answers(parse_program(made.text), asked)
    found = dict[str, str]()
    for n, step in enumerate(made.returned):
        above, closer_above, below, closer_below = given[4 * n : 4 * n + 4]
        one = len(set(ours[step.result])) == 1  # then the closer bounds are the same
        narrower, wider = not (above and below), not one and (closer_above or closer_below)
        found[step.result] = {(0, 0): "equal", (1, 0): "narrower", (0, 1): "wider"}.get((narrower, wider), "neither")
    return found


def numbers(step: Step, ours: dict[str, Pair]) -> Iterator[int]:
    """What an op computes from numbers of its operands' ranges: the ends, those beside them, 0, powers of two."""
    powers = {sign << n for n in range(64) for sign in (1, -1)}
    near = [
        [x for x in {*range(low - 2, low + 3), *range(high - 2, high + 3), 0, *powers} if low <= x <= high]
        for low, high in (ours[name] for name in step.operands)
    ]
    yield from (computed(step.name, step.element, given) for given in itertools.product(*near))


def explained(step: Step, verdict: str, ours: dict[str, Pair]) -> bool:
    """Whether a range that is not upstream's, from operands of its ranges, is for a reason that we know, and right."""
    reached = [] if step.name in ("clamp", "select") else list(numbers(step, ours))
    (low, high), whole = ours[step.result], ends_of(step.element)
    if verdict == "narrower":
        return step.name in NARROWER and all(low <= wrapped(number, step.element) <= high for number in reached)
    wraps = any(not whole[0] <= number <= whole[1] for number in reached)
    near = step.element == "i64" and whole[1] in [abs(end) for name in step.operands for end in ours[name]]
    return verdict == "wider" and (step.name in WIDER or wraps or near)


@pytest.mark.parametrize("seed", range(10))
def test_upstreams_range_analysis_agrees(seed: int) -> None:
    require()
    rng, seen = random.Random(seed), Counter[str]()
    for _ in range(20):
        made = ScalarProgram(rng)
        ours = our_ranges(made)
        found = verdicts(made, ours)
        for _ in range(50):
            values = made.run({name: extreme(rng, element) for name, element in made.arguments.items()})
            for step in made.returned:
                low, high = ours[step.result]
                assert low <= values[step.result] <= high, (step, made.text)
        for step in made.returned:
            verdict = found[step.result]
            if all(found.get(name, "equal") == "equal" for name in step.operands):
                seen[verdict] += 1
                assert verdict == "equal" or explained(step, verdict, ours), (step, verdict, ours, made.text)
    assert seen["equal"] > 0.8 * seen.total()


LOOP = """func.func @main(%x: tensor<i8>, %y: tensor<i8>) -> (tensor<i32>, tensor<i32>, tensor<i32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %a = stablehlo.convert %x : (tensor<i8>) -> tensor<i32>
  %b = stablehlo.convert %y : (tensor<i8>) -> tensor<i32>
  %r:3 = stablehlo.while(%i = %z, %m = %a, %s = %z) : tensor<i32>, tensor<i32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %k = stablehlo.maximum %m, %b : tensor<i32>
    %t = stablehlo.add %s, %a : tensor<i32>
    stablehlo.return %j, %k, %t : tensor<i32>, tensor<i32>, tensor<i32>
  }
  return %r#0, %r#1, %r#2 : tensor<i32>, tensor<i32>, tensor<i32>
}"""
"""A counter, a maximum and a sum."""


def test_upstream_proves_no_bound_of_a_loop_that_we_do_not() -> None:
    """It knows the maximum, as we do. A counter and a sum may be any number to it; we bound the counter."""
    require()
    program = parse_program(LOOP)
    ranges, end, whole = ranges_of(program), program.entry.last_op, ends_of("i32")
    assert end is not None
    found = [(ranges.of(value).least, ranges.of(value).greatest) for value in end.operands]
    assert found == [(0, 10), (-128, 127), whole]
    questions = [
        Bound(n, "i32", at_most, number)
        for n, (low, high) in enumerate([(whole[0] + 1, whole[1] - 1), (-128, 127), (whole[0] + 1, whole[1] - 1)])
        for at_most, number in ((True, high), (False, low))
    ]
    assert answers(program, questions) == [False, False, True, True, False, False]
