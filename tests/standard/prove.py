"""Translation validation: the arith ops that `lower-to-standard` emits for each behaviour, against exact arithmetic.

    python tests/standard/prove.py [--seconds 20] [--every 1] [--without-z3] [--exhaustive]      # make prove

z3 proves, for every accumulator of 32 bits and every shift, that the emitted ops give what `exact_arithmetic.py` says.
The product by the multiplier is an unknown function with a bound, so that a proof holds for all multipliers at once.
`float32-rne` multiplies floats and `exact` multiplies by 53 bits, where SMT gives up. There, and once more for the
others, ops and native code with given multipliers are compared with exact integers one accumulator after the other
(`exhaustive.py`): all 2^32 with --exhaustive, otherwise 4 million of every 256 million.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from standard import exhaustive
from standard.exact_arithmetic import FORMS, Exact, requantized
from standard.fixed_point_programs import Case, requantization
from zeropoint.interp import Interpreter
from zeropoint.ir.fxpmath import WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.numerics import CommonScaleSum, Multiplier, RequantizeBehaviour
from zeropoint.standard import lower_to_standard

WIDE = 100
"""Bits of exact integers: no step of any behaviour exceeds them."""


@dataclass(frozen=True)
class Row:
    """A line of the table: what was shown of a behaviour for storage of some width, and by how many queries."""

    behaviour: str
    width: int
    how: str
    cases: int
    failures: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        verdict = "; ".join(self.failures) if self.failures else "holds"
        return f"{self.behaviour:16}i32 -> i{self.width:<4}{self.how:54}{self.cases:6}{self.seconds:8.1f} s  {verdict}"


def body_of(case: Case) -> tuple[list[Operation], list[SSAValue]]:
    """The ops of the generic that computes a requantization, and the arguments of its block."""
    program = lower_to_standard(requantization(case))
    (generic,) = [op for op in program.module.walk() if op.name == "linalg.generic"]
    block = generic.regions[0].block
    return list(block.ops), list(block.args)


def emitted(case: Case, x: Any, product: Callable[[Any], Any] | None) -> Any:
    """The emitted ops as a bit vector. `product` stands for the multiplication by the multiplier."""
    import z3

    ops, arguments = body_of(case)
    values: dict[SSAValue, Any] = {arguments[0]: x}
    binary: dict[str, Callable[[Any, Any], Any]] = {
        "arith.addi": lambda a, b: a + b,
        "arith.andi": lambda a, b: a & b,
        "arith.maxsi": lambda a, b: z3.If(a > b, a, b),
        "arith.minsi": lambda a, b: z3.If(a < b, a, b),
        "arith.muli": lambda a, b: a * b if product is None else product(a),
        "arith.ori": lambda a, b: a | b,
        "arith.shli": lambda a, b: a << b,
        "arith.shrsi": lambda a, b: a >> b,
        "arith.subi": lambda a, b: a - b,
    }
    relations = {0: lambda a, b: a == b, 4: lambda a, b: a > b, 5: lambda a, b: a >= b}
    for op in ops[:-1]:
        given = [values[operand] for operand in op.operands]
        made: Any = op
        if op.name == "arith.constant":
            found = z3.BitVecVal(made.value.value.data, made.result.type.width.data)
        elif op.name == "arith.extsi":
            found = z3.SignExt(made.result.type.width.data - given[0].size(), given[0])
        elif op.name == "arith.trunci":
            found = z3.Extract(made.result.type.width.data - 1, 0, given[0])
        elif op.name == "arith.cmpi":
            found = relations[int(made.predicate.value.data)](*given)
        elif op.name == "arith.select":
            found = z3.If(*given)
        else:
            found = binary[op.name](*given)
        values[op.results[0]] = found
    return values[ops[-1].operands[0]]


def case_of(behaviour: str, shift: int, width: int, zero_point: int) -> Case:
    """A case with the greatest multiplier, whose product is abstracted."""
    bits = FORMS[behaviour][2]
    factor = (1 << bits) - 1 if bits else 1
    multiplier = Multiplier(RequantizeBehaviour(behaviour), np.array([factor]), np.array([shift]))
    return Case(multiplier, 32, width, zero_point, -(1 << (width - 1)), (1 << (width - 1)) - 1)


def counterexample(behaviour: str, shift: int, width: int, zero_point: int, seconds: float) -> str:
    """Why the emitted ops are not the exact arithmetic for some accumulator; empty if z3 proves that they are."""
    import z3

    case, bits = case_of(behaviour, shift, width, zero_point), FORMS[behaviour][2]
    solver = z3.SolverFor("QF_UFBV")
    solver.set("timeout", int(seconds * 1000))
    x = z3.BitVec("x", 32)
    word = 32 if behaviour == "fixed16" else 64
    multiply = z3.Function("multiply", z3.BitVecSort(word), z3.BitVecSort(word))

    def product(a: Any) -> Any:
        """An unknown function f with f(a) between 0 and a * (2^bits - 1), whatever the multiplier."""
        found, given = multiply(a), z3.SignExt(WIDE - word, a)
        wide, limit = z3.SignExt(WIDE - word, found), (given << bits) - given
        solver.add(z3.If(a >= 0, z3.And(wide >= 0, wide <= limit), z3.And(wide <= 0, wide >= limit)))
        return found

    def exact_product(a: Any) -> Any:
        return z3.SignExt(WIDE - word, product(z3.Extract(word - 1, 0, a)))

    def choose(condition: Any, a: Any, b: Any) -> Any:
        return z3.If(condition, *(each if z3.is_expr(each) else z3.BitVecVal(each, WIDE) for each in (a, b)))

    ours = emitted(case, x, product)
    of = Exact(exact_product, choose)
    theirs = requantized(behaviour, of, z3.SignExt(WIDE - 32, x), shift, zero_point, (case.low, case.high))
    solver.add(z3.SignExt(WIDE - width, ours) != theirs)
    found = solver.check()
    if found == z3.unsat:
        return ""
    if found == z3.unknown:
        return f"shift {shift}: not decided in {seconds:.0f} s"
    return f"shift {shift}, zero point {zero_point}: differs at {solver.model()[x].as_signed_long()}"


def proofs(every: int, seconds: float) -> Iterator[Row]:
    """A row for each behaviour of integers and each width, for every shift or each `every`-th."""
    for behaviour, (_, shifts, bits) in FORMS.items():
        for width in (8,) if behaviour == "fixed16" else (8, 16, 32):
            started = time.perf_counter()
            chosen = shifts[::every]
            zero_point = -(1 << (width - 1)) + 5
            found = [counterexample(behaviour, shift, width, zero_point, seconds) for shift in chosen]
            how = f"z3: every x, shifts {chosen[0]}..{chosen[-1]}" + (f", every M < 2^{bits}" if bits else "")
            failures = tuple(filter(None, found))
            yield Row(behaviour, width, how, len(chosen), failures, time.perf_counter() - started)


def case_of_constants(behaviour: str, multiplier: float, shift: int | None, width: int) -> Case:
    """A case with one multiplier, for as many accumulators as `exhaustive` takes at once."""
    dtype = {"float32-rne": np.float32, "float64-away": np.float64, "exact": np.float64}.get(behaviour, np.int64)
    shifts = None if shift is None else np.array([shift])
    made = Multiplier(RequantizeBehaviour(behaviour), np.array([multiplier], dtype), shifts)
    return Case(made, 32, width, -3, -(1 << (width - 1)), (1 << (width - 1)) - 1, exhaustive.CHUNK // 2)


EXHAUSTED: tuple[tuple[str, float, int | None, int], ...] = (
    ("float32-rne", 0.00317, None, 8),
    ("float32-rne", 2.0**-9, None, 8),
    ("float32-rne", 0.7, None, 8),
    ("float32-rne", 0.7, None, 16),
    ("float32-rne", 1.7, None, 32),
    ("float64-away", 0.00317, None, 8),
    ("float64-away", 2.0**-9, None, 16),
    ("exact", 0.00317, None, 8),
    ("exact", 2.0**-9, None, 16),
    ("fixed16", 24013, 9, 8),
    ("fixed16", 32767, -6, 8),
    ("fixed32", 1518500250, 40, 8),
    ("fixed32", 2147483647, 33, 16),
    ("fixed32", 1073741823, -2, 32),
    ("fixed32-double", 1518500250, -9, 8),
    ("fixed32-double", 1518500250, 3, 16),
    ("tosa-double", 1518500250, 40, 8),
    ("tosa-double", 1073741824, 31, 16),
    ("pot", 1, 9, 8),
)
"""Behaviour, multiplier, shift and width of the requantizations that are compared for accumulators one by one."""


def comparisons(every: int) -> Iterator[Row]:
    """A row for each of `EXHAUSTED`, of all accumulators or each `every`-th chunk, and for the sum of two scales."""
    for behaviour, multiplier, shift, width in EXHAUSTED:
        started = time.perf_counter()
        of_ops, of_native = exhaustive.differing(case_of_constants(behaviour, multiplier, shift, width), every)
        how = "all 2^32 x" if every == 1 else f"every {every}-th 2^22 x"
        how += f", M = {multiplier:.6g}" + ("" if shift is None else f", shift {shift}") + ": ops, native"
        found = (f"{of_ops} of the ops differ" * (of_ops > 0), f"{of_native} in native code" * (of_native > 0))
        yield Row(behaviour, width, how, 2, tuple(filter(None, found)), time.perf_counter() - started)
    yield weighted_sum()


def weighted_sum() -> Row:
    """Every pair of 8-bit operands, against Python's integers."""
    started, total = time.perf_counter(), CommonScaleSum((1_234_567, -6_054_321), (-128, 127), 22, 5, -128, 127)
    kind = TensorType(i8, [256, 256])
    function = FuncOp("main", ([kind, kind], []))
    op = WeightedSumOp(function.body.block.args, kind, total)
    function.body.block.add_ops([op, ReturnOp(op.result)])
    function.update_function_type()
    interpreter = Interpreter(lower_to_standard(Program(ModuleOp([function]))))
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(*[np.arange(-128, 128, dtype=np.int8)] * 2))
    (found,) = interpreter.run_values([a, b])
    sums = (a.astype(object) + 128) * 1_234_567 - (b.astype(object) - 127) * 6_054_321 + (1 << 21)
    expected = np.clip((sums >> 22) + 5, -128, 127)
    count = int((found != expected).sum())
    failures = (f"{count} differ",) if count else ()
    return Row("weighted_sum", 8, "all 2^16 pairs of i8", 1, failures, time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="for each query of z3")
    parser.add_argument("--every", type=int, default=1, help="prove each n-th shift only")
    parser.add_argument("--exhaustive", action="store_true", help="all 2^32 accumulators: a minute each")
    parser.add_argument("--without-z3", action="store_true", help="only compare accumulators one by one")
    arguments = parser.parse_args()
    failed = False
    proved = () if arguments.without_z3 else proofs(arguments.every, arguments.seconds)
    for row in itertools.chain(proved, comparisons(1 if arguments.exhaustive else 64)):
        print(row, flush=True)
        failed |= bool(row.failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()
