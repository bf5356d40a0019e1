"""All 2^32 accumulators: the emitted ops and native code against exact arithmetic, which is compiled to C.

`exact_arithmetic.py` states each behaviour over any integers. Here they are expressions of C: each one knows its bounds
and has the type that holds them, of 64 or 128 bits, so nothing wraps. The emitted arith ops become C one by one, with
the wrapping of their types. What is compiled is itself judged by Python's integers and by the interpreter, on samples.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from standard.exact_arithmetic import Exact, requantized
from standard.fixed_point_programs import Case, requantization
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.standard import lower_to_standard

CHUNK = 1 << 22
FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-fno-trapping-math", "-fwrapv", "-shared", "-fPIC"]


@dataclass(frozen=True)
class Expression:
    """An integer expression in C, and its bounds."""

    text: str
    low: int
    high: int

    @staticmethod
    def of(value: Expression | int) -> Expression:
        return value if isinstance(value, Expression) else Expression(f"{value}LL", value, value)

    @staticmethod
    def made(text: str, *bounds: int) -> Expression:
        """An expression in the type that holds its bounds; its operands must be cast by the caller."""
        return Expression(text, min(bounds), max(bounds))

    def cast(self, low: int, high: int) -> str:
        """The text, in a type that holds low..high, too."""
        low, high = min(low, self.low), max(high, self.high)
        if low >= -(1 << 63) and high < 1 << 63:
            return f"(int64_t){self.text}"
        assert max(-low, high) < 1 << 127
        return f"(__int128){self.text}"

    def _with(self, sign: str, other: Expression | int, *bounds: int) -> Expression:
        right = Expression.of(other)
        low, high = min(*bounds, right.low), max(*bounds, right.high)
        return Expression.made(f"({self.cast(low, high)} {sign} {right.cast(low, high)})", *bounds)

    def __add__(self, other: Expression | int) -> Expression:
        right = Expression.of(other)
        return self._with("+", right, self.low + right.low, self.high + right.high)

    def __sub__(self, other: Expression | int) -> Expression:
        right = Expression.of(other)
        return self._with("-", right, self.low - right.high, self.high - right.low)

    def __mul__(self, other: int) -> Expression:
        return self._with("*", other, self.low * other, self.high * other)

    def __neg__(self) -> Expression:
        return Expression.of(0) - self

    def __lshift__(self, amount: int) -> Expression:
        return self * (1 << amount)

    def __rshift__(self, amount: int) -> Expression:
        return Expression.made(f"({self.text} >> {amount})", self.low >> amount, self.high >> amount)

    def __and__(self, mask: int) -> Expression:
        return Expression.made(f"({self.text} & {mask}LL)", 0, mask)

    def compared(self, sign: str, other: Expression | int) -> str:
        right = Expression.of(other)
        return f"({self.cast(right.low, right.high)} {sign} {right.cast(self.low, self.high)})"

    def __lt__(self, other: Expression | int) -> Any:
        return self.compared("<", other)

    def __gt__(self, other: Expression | int) -> Any:
        return self.compared(">", other)

    def __ge__(self, other: Expression | int) -> Any:
        return self.compared(">=", other)


class Statements:
    """C statements; every value that is used more than once is a variable."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def variable(self, value: Expression | int) -> Expression:
        made = Expression.of(value)
        kind = "int64_t" if made.cast(0, 0).startswith("(int64_t)") else "__int128"
        name = f"v{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {made.text};")
        return Expression(name, made.low, made.high)

    def choose(self, condition: Any, a: Expression | int, b: Expression | int) -> Expression:
        yes, no = Expression.of(a), Expression.of(b)
        low, high = min(yes.low, no.low), max(yes.high, no.high)
        text = f"({condition} ? {yes.cast(low, high)} : {no.cast(low, high)})"
        return self.variable(Expression(text, low, high))


def expected(case: Case) -> list[str]:
    """Statements that give `y`, the exact result for accumulator `x`."""
    multiplier = case.multiplier
    if multiplier.shift is None:
        return _expected_of_floats(case)
    factor, shift = int(multiplier.multiplier.reshape(-1)[0]), int(multiplier.shift.reshape(-1)[0])
    made = Statements()
    of = Exact(lambda x: made.variable(Expression.of(x) * factor), made.choose)
    bounds = (case.low, case.high)
    x = Expression("x", -(1 << 31), (1 << 31) - 1)
    y = requantized(multiplier.behaviour.value, of, x, shift, case.zero_point, bounds)
    return [*made.lines, f"y = (int32_t){y.text};"]


def _expected_of_floats(case: Case) -> list[str]:
    """x * Q / 2^k, ties to even; for `float32-rne`, x and the product are first rounded to 24 bits.

    `float64-away` is what C computes in f64.
    """
    if case.multiplier.behaviour.value == "float64-away":
        factor = float(case.multiplier.multiplier.reshape(-1)[0]).hex()
        return [
            f"double r = __builtin_round((double)x * {factor}) + {case.zero_point};",
            f"y = (int32_t)(r < {case.low} ? {case.low} : r > {case.high} ? {case.high} : r);",
        ]
    single = case.multiplier.behaviour.value == "float32-rne"
    bits = 24 if single else 53
    fraction, exponent = np.frexp(float(case.multiplier.multiplier.reshape(-1)[0]))
    factor, power = int(np.ldexp(fraction, bits)), bits - int(exponent)
    kind = "int64_t" if single else "__int128"
    product = f"bits24(bits24(m) * {factor}LL)" if single else f"(__int128)m * {factor}LL"
    half = f"(({kind})1 << {power - 1})" if power else "0"
    return [
        "int64_t m = x < 0 ? -x : x;",
        f"{kind} p = {product}, k = p >> {power}, t = p - (k << {power}), h = {half};",
        f"int64_t r = (int64_t)(k + ((t > h) | ((t == h) & {int(power > 0)} & k)));",
        f"r = (x < 0 ? -r : r) + {case.zero_point};",
        f"y = (int32_t)(r < {case.low} ? {case.low} : r > {case.high} ? {case.high} : r);",
    ]


HEADER = """#include <stdint.h>
static inline int64_t bits24(int64_t p) {  /* the nearest number of 24 significant bits, ties to even; p < 2^62 */
  int length = 64 - __builtin_clzll((uint64_t)p | 1), n = length > 24 ? length - 24 : 0;
  int64_t half = ((int64_t)1 << n) >> 1, kept = p >> n, rest = p - (kept << n);
  return (kept + ((rest > half) | ((rest == half) & (n > 0) & kept))) << n;
}
"""


BINARY = {
    "arith.addi": "{0} + {1}", "arith.subi": "{0} - {1}", "arith.muli": "{0} * {1}", "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}", "arith.shli": "{0} << {1}", "arith.shrsi": "{0} >> {1}", "arith.mulf": "{0} * {1}",
    "arith.maxsi": "{0} > {1} ? {0} : {1}", "arith.minsi": "{0} < {1} ? {0} : {1}",
    "arith.maximumf": "{0} > {1} ? {0} : {1}", "arith.minimumf": "{0} < {1} ? {0} : {1}",
    "arith.select": "{0} ? {1} : {2}", "math.roundeven": "__builtin_rintf({0})", "math.round": "__builtin_round({0})",
    "arith.extsi": "{0}", "arith.trunci": "{0}", "arith.sitofp": "{0}", "arith.fptosi": "{0}",
}  # fmt: skip
RELATIONS = {0: "==", 4: ">", 5: ">="}
KINDS = {
    "i1": "int",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "f32": "float",
    "f64": "double",
}


def emitted(case: Case) -> list[str]:
    """Statements that give `y`, by the ops of the generic that `lower-to-standard` emits."""
    program = lower_to_standard(requantization(case))
    (generic,) = [op for op in program.module.walk() if op.name == "linalg.generic"]
    block, lines = generic.regions[0].block, list[str]()
    names: dict[SSAValue, str] = {block.args[0]: "(int32_t)x"}
    *ops, last = block.ops
    for n, op in enumerate(ops):
        lines.append(f"{KINDS[str(op.results[0].type)]} e{n} = {_statement(op, names)};")
        names[op.results[0]] = f"e{n}"
    return [*lines, f"y = {names[last.operands[0]]};"]


def _statement(op: Operation, names: dict[SSAValue, str]) -> str:
    given = [names[operand] for operand in op.operands]
    made: Any = op
    if op.name == "arith.constant":
        number = made.value.value.data
        if not isinstance(number, float):
            return f"{number}LL"
        return float(number).hex() if str(made.result.type) == "f64" else f"{float(np.float32(number)).hex()}f"
    if op.name == "arith.cmpi":
        return f"{given[0]} {RELATIONS[int(made.predicate.value.data)]} {given[1]}"
    return BINARY[op.name].format(*given)


Fill = Callable[[int, np.ndarray], None]


def compiled(case: Case) -> tuple[Fill, Fill]:
    """The exact arithmetic and the emitted ops: each fills an array with the results of consecutive accumulators."""
    bodies = {"expected": expected(case), "emitted": emitted(case)}
    text = HEADER + "".join(
        f"void {name}(int64_t first, int64_t count, int32_t *out) {{\n  for (int64_t n = 0; n < count; n++) {{\n"
        f"    int64_t x = first + n; int32_t y;\n    " + "\n    ".join(lines) + "\n    out[n] = y;\n  }\n}\n"
        for name, lines in bodies.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "case.c", Path(folder) / "case.so"
        source.write_text(text)
        subprocess.run(["gcc", *FLAGS, "-o", str(library), str(source)], check=True, capture_output=True)
        loaded = ctypes.CDLL(str(library))

    def filler(name: str) -> Fill:
        function = getattr(loaded, name)
        function.argtypes, function.restype = (ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p), None
        return lambda first, out: function(first, len(out), out.ctypes.data)

    return filler("expected"), filler("emitted")


def differing(case: Case, every: int = 1) -> tuple[int, int]:
    """How many accumulators the emitted ops, and native code, requantize otherwise than exact arithmetic does.

    Of all 2^32, or of each `every`-th chunk of them.
    """
    exact, ops = compiled(case)
    program = requantization(case)
    native = NativeProgram(program, threads=1)
    (port,) = program.inputs
    ours, theirs = np.empty(CHUNK, np.int32), np.empty(CHUNK, np.int32)
    wrong = [0, 0]
    for first in range(-(1 << 31), 1 << 31, every * CHUNK):
        exact(first, theirs)
        ops(first, ours)
        x = np.arange(first, first + CHUNK, dtype=np.int32).reshape(case.shape)
        (found,) = native({port.name: x}).values()
        wrong[0] += int(np.count_nonzero(ours != theirs))
        wrong[1] += int(np.count_nonzero(found.reshape(-1) != theirs))
    return wrong[0], wrong[1]
