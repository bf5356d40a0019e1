"""Translation validation: the arith ops that `lower-to-standard` emits for each behaviour, against exact arithmetic.

    python tests/standard/prove.py [--seconds 20] [--every 1] [--exhaustive]      # make prove

z3 proves, for every accumulator of 32 bits and every shift, that the emitted ops give what `exact_arithmetic.py` says.
The product by the multiplier is an unknown function with a bound, so that a proof holds for all multipliers at once.
`float32-rne` multiplies floats and `exact` multiplies by 53 bits, where SMT gives up. Some multipliers are compared
instead with integers: `float32-rne` for every 1024th accumulator, or for all 2^32 with --exhaustive.
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
        return f"{self.behaviour:16}i32 -> i{self.width:<4}{self.how:48}{self.cases:6}{self.seconds:8.1f} s  {verdict}"


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
        for width in (8,) if behaviour == "fixed16" else (8, 16):
            started = time.perf_counter()
            chosen = shifts[::every]
            zero_point = -(1 << (width - 1)) + 5
            found = [counterexample(behaviour, shift, width, zero_point, seconds) for shift in chosen]
            how = f"z3: every x, shifts {chosen[0]}..{chosen[-1]}" + (f", every M < 2^{bits}" if bits else "")
            failures = tuple(filter(None, found))
            yield Row(behaviour, width, how, len(chosen), failures, time.perf_counter() - started)


def rounded_to_24_bits(magnitude: np.ndarray) -> np.ndarray:
    """Integers below 2^62 as f32 rounds them: to 24 significant bits, ties to even. In integers."""
    length = np.zeros_like(magnitude)
    for bit in (32, 16, 8, 4, 2, 1):
        length += np.where(magnitude >> (length + bit) > 0, bit, 0)
    return nearest_even(magnitude, drop := np.maximum(length - 23, 0)) << drop


def nearest_even(magnitude: np.ndarray, power: Any) -> np.ndarray:
    """magnitude / 2^power, ties to even."""
    kept, half = magnitude >> power, (np.int64(1) << power) >> 1
    rest = magnitude - (kept << power)
    return kept + ((rest > half) | ((rest == half) & (kept & 1 == 1) & (half > 0)))


def float32_in_integers(x: np.ndarray, case: Case) -> np.ndarray:
    """rne(f32(f32(x) * m)) + zero_point for m = M / 2^k with an M of 24 bits, in integers of 64 bits."""
    fraction, exponent = np.frexp(case.multiplier.multiplier.reshape(-1)[0])
    product = rounded_to_24_bits(rounded_to_24_bits(np.abs(x)) * int(np.ldexp(fraction, 24)))
    rounded = nearest_even(product, np.int64(min(24 - int(exponent), 62)))
    return np.clip(np.sign(x) * rounded + case.zero_point, case.low, case.high)


def exact_in_integers(x: np.ndarray, case: Case) -> np.ndarray:
    """x * Q / 2^k, ties to even, with Python's integers."""
    fraction, exponent = np.frexp(float(case.multiplier.multiplier.reshape(-1)[0]))
    factor, power = int(np.ldexp(fraction, 53)), 53 - int(exponent)

    def one(number: int) -> int:
        kept, rest = divmod(int(number) * factor, 1 << power)
        up = 2 * rest > 1 << power or (2 * rest == 1 << power and kept % 2 == 1)
        return min(max(kept + up + case.zero_point, case.low), case.high)

    return np.array([one(number) for number in x])


def differing(case: Case, chunks: Iterator[np.ndarray], reference: Callable[[np.ndarray, Case], np.ndarray]) -> int:
    """How many accumulators the emitted ops, run by the interpreter, requantize otherwise than a reference."""
    interpreter = Interpreter(lower_to_standard(requantization(case)))
    count = 0
    for x in chunks:
        (found,) = interpreter.run_values([x.astype(np.int32).reshape(case.shape)])
        count += int((found.reshape(-1) != reference(x, case)).sum())
    return count


def accumulators(step: int, size: int) -> Iterator[np.ndarray]:
    """Every `step`-th i32, in arrays of `size`."""
    for start in range(-(1 << 31), 1 << 31, step * size):
        yield start + step * np.arange(size, dtype=np.int64)


def comparisons(exhaustive: bool) -> Iterator[Row]:
    """A row for each behaviour that multiplies otherwise, and for the sum of two scales."""
    for behaviour, m in (("float32-rne", 0.00317), ("float32-rne", 2.0**-9), ("exact", 0.00317)):
        started = time.perf_counter()
        dtype = np.float32 if behaviour == "float32-rne" else np.float64
        multiplier = Multiplier(RequantizeBehaviour(behaviour), np.array([m], dtype))
        is_exact = behaviour == "exact"
        step, size = (1 << 16, 1 << 16) if is_exact else (1, 1 << 23) if exhaustive else (1 << 10, 1 << 22)
        case = Case(multiplier, 32, 8, -3, -128, 127, size // 2)
        count = differing(case, accumulators(step, size), exact_in_integers if is_exact else float32_in_integers)
        how = "all 2^32 x" if step == 1 else f"every {step}-th x"
        failures = (f"{count} differ",) if count else ()
        yield Row(behaviour, 8, f"{how}, m = {m:.6g}", 1, failures, time.perf_counter() - started)
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
    parser.add_argument("--exhaustive", action="store_true", help="float32-rne: all 2^32 accumulators; minutes each")
    arguments = parser.parse_args()
    failed = False
    for row in itertools.chain(proofs(arguments.every, arguments.seconds), comparisons(arguments.exhaustive)):
        print(row, flush=True)
        failed |= bool(row.failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()
