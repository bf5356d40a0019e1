"""Float functions that a format lacks, as arithmetic of StableHLO.

```mlir
%y = chlo.asinh %x : tensor<4xf32> -> tensor<4xf32>     abs, multiply, add, sqrt, divide, log_plus_one, select
```
The steps are those of `zeropoint.numerics`, which the interpreter runs. With `in_double`, they are computed as there:
in f64, but erf of f32 in f32. So the results have the same bits as those of the function. Formats without f64 compute
them in the type of the operand, within a few ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import Emission
from zeropoint.ir import chlo
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ComparisonDirection
from zeropoint.ir.tensors import element_of
from zeropoint.numerics.approximations import BINARY, IN_DOUBLE, IN_FLOAT, Approximation
from zeropoint.numerics.steps import Steps

WHOLE: Mapping[str, type[hlo.UnaryOp]] = {
    "cosine": hlo.CosineOp,
    "exponential": hlo.ExponentialOp,
    "log": hlo.LogOp,
    "sine": hlo.SineOp,
}
"""The functions that every format has."""
WHOLE_IN_DOUBLE: Mapping[str, type[hlo.UnaryOp]] = {
    "exponential_minus_one": hlo.ExponentialMinusOneOp,
    "log_plus_one": hlo.LogPlusOneOp,
    "tan": hlo.TanOp,
}
"""The functions that StableHLO has besides."""


class OpSteps:
    """The steps of functions as ops of StableHLO. Bits of floats are not among them."""

    def __init__(self, emission: Emission, *, in_double: bool):
        self._emit = emission
        self._in_double = in_double

    def whole(self, name: str, x: SSAValue) -> SSAValue | None:
        """The op that is the function, or what stands for it in formats without the op."""
        found = WHOLE.get(name) or (WHOLE_IN_DOUBLE.get(name) if self._in_double else None)
        if found is not None:
            return self.function(found, x)
        composed = COMPOSED.get(name)
        return None if composed is None else composed(self, x)

    def function(self, kind: type[hlo.UnaryOp], x: SSAValue) -> SSAValue:
        """One op."""
        return self._emit.add(kind(x))

    def number(self, like: SSAValue, value: float) -> SSAValue:
        """A constant."""
        return self._emit.splat(value, like)

    def _binary(self, kind: type[hlo.BinaryOp], a: SSAValue, b: SSAValue | float) -> SSAValue:
        return self._emit.add(kind(a, b if isinstance(b, SSAValue) else self.number(a, b)))

    def plus(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Add."""
        return self._binary(hlo.AddOp, a, b)

    def minus(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Subtract."""
        return self._binary(hlo.SubtractOp, a, b)

    def times(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Multiply."""
        return self._binary(hlo.MultiplyOp, a, b)

    def over(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Divide."""
        return self._binary(hlo.DivideOp, a, b)

    def root(self, x: SSAValue) -> SSAValue:
        """Square root."""
        return self.function(hlo.SqrtOp, x)

    def negated(self, x: SSAValue) -> SSAValue:
        """Negate."""
        return self.function(hlo.NegateOp, x)

    def magnitude(self, x: SSAValue) -> SSAValue:
        """Absolute value."""
        return self.function(hlo.AbsOp, x)

    def signed(self, x: SSAValue, sign: SSAValue) -> SSAValue:
        """|x| with the sign of another float. The sign of a zero is that of 1 over it."""
        negative = self.either(self.is_less(sign, 0.0), self.is_less(self.over(self.number(sign, 1.0), sign), 0.0))
        magnitude = self.magnitude(x)
        return self.select(negative, self.negated(magnitude), magnitude)

    def _compared(self, direction: ComparisonDirection, a: SSAValue, b: SSAValue | float) -> SSAValue:
        return self._emit.add(hlo.CompareOp(a, b if isinstance(b, SSAValue) else self.number(a, b), direction))

    def is_less(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Less."""
        return self._compared(ComparisonDirection.LT, a, b)

    def is_greater(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Greater."""
        return self._compared(ComparisonDirection.GT, a, b)

    def is_equal(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Equal."""
        return self._compared(ComparisonDirection.EQ, a, b)

    def is_nan(self, x: SSAValue) -> SSAValue:
        """Not equal to itself."""
        return self._compared(ComparisonDirection.NE, x, x)

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """And."""
        return self._binary(hlo.AndOp, a, b)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Or."""
        return self._binary(hlo.OrOp, a, b)

    def inverse(self, mask: SSAValue) -> SSAValue:
        """Not."""
        return self._emit.add(hlo.NotOp(mask))

    def select(self, mask: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """Select."""
        return self._emit.add(hlo.SelectOp(mask, yes, no))

    def down(self, x: SSAValue) -> SSAValue:
        """Floor."""
        return self.function(hlo.FloorOp, x)


def _less_one(s: OpSteps, x: SSAValue) -> SSAValue:
    """e^x - 1 as (u - 1) x / log u with u = e^x rounded, in which the errors of u cancel (Kahan)."""
    u = s.function(hlo.ExponentialOp, x)
    less = s.minus(u, 1.0)
    near = s.over(s.times(less, x), s.function(hlo.LogOp, u))
    # Where |x| > 1, nothing cancels, and log u may be infinite.
    result = s.select(s.is_greater(s.magnitude(x), 1.0), less, near)
    return s.select(s.is_equal(u, 1.0), x, result)


def _log_plus_one(s: OpSteps, x: SSAValue) -> SSAValue:
    """log (1 + x) as log u times x / (u - 1) with u = 1 + x rounded."""
    u = s.plus(x, 1.0)
    ratio = s.select(s.is_greater(x, 1e9), s.number(x, 1.0), s.over(x, s.minus(u, 1.0)))
    return s.select(s.is_equal(u, 1.0), x, s.times(s.function(hlo.LogOp, u), ratio))


def _tangent(s: OpSteps, x: SSAValue) -> SSAValue:
    return s.over(s.function(hlo.SineOp, x), s.function(hlo.CosineOp, x))


COMPOSED: Mapping[str, Callable[[OpSteps, SSAValue], SSAValue]] = {
    "exponential_minus_one": _less_one,
    "log_plus_one": _log_plus_one,
    "tan": _tangent,
}
"""The same functions in the type of the operand, composed of those that every format has."""


def _sign(s: OpSteps, x: SSAValue) -> SSAValue:
    below = s.select(s.is_less(x, 0.0), s.number(x, -1.0), x)
    return s.select(s.is_greater(x, 0.0), s.number(x, 1.0), below)


def _is_finite(s: OpSteps, x: SSAValue) -> SSAValue:
    return s.is_less(s.magnitude(x), math.inf)


def _nearest_away(s: OpSteps, x: SSAValue) -> SSAValue:
    """The integer part of |x|, plus one from a fraction of 1/2 on."""
    magnitude = s.magnitude(x)
    whole = s.down(magnitude)
    is_up = s.inverse(s.is_less(s.minus(magnitude, whole), 0.5))
    return s.signed(s.select(is_up, s.plus(whole, 1.0), whole), x)


def _nearest_even(s: OpSteps, x: SSAValue) -> SSAValue:
    """The integer part of |x|, plus one above a fraction of 1/2, and at 1/2 if it is odd."""
    magnitude = s.magnitude(x)
    whole = s.down(magnitude)
    rest, half = s.minus(magnitude, whole), s.times(whole, 0.5)
    odd = s.inverse(s.is_equal(s.down(half), half))
    is_up = s.either(s.is_greater(rest, 0.5), s.both(s.is_equal(rest, 0.5), odd))
    return s.signed(s.select(is_up, s.plus(whole, 1.0), whole), x)


_EXACT: Mapping[type[Operation], Approximation] = {
    hlo.IsFiniteOp: _is_finite,
    hlo.RoundNearestAfzOp: _nearest_away,
    hlo.RoundNearestEvenOp: _nearest_even,
    hlo.SignOp: _sign,
}
"""Functions that round nothing, in any type."""
FUNCTIONS: frozenset[type[Operation]] = frozenset(
    (
        *_EXACT,
        chlo.AcosOp,
        chlo.AcoshOp,
        chlo.AsinOp,
        chlo.AsinhOp,
        chlo.AtanOp,
        chlo.AtanhOp,
        chlo.CoshOp,
        chlo.ErfOp,
        chlo.ErfcOp,
        chlo.SinhOp,
        hlo.Atan2Op,
        hlo.CbrtOp,
        hlo.TanOp,
    )
)
"""The functions that can be expanded."""


def expand_functions(program: Program, kept: Collection[type[Operation]], *, in_double: bool = False) -> Program:
    """A copy in which the functions outside of quantized kernels are arithmetic, except those `kept`.

    The program itself if it has none. Functions of complex numbers stay.
    """
    found = [op for op in program.module.walk() if type(op) in FUNCTIONS and type(op) not in kept]
    if not any(map(_is_expanded, found)):
        return program
    program = program.clone()
    for op in list(program.module.walk()):
        if type(op) in FUNCTIONS and type(op) not in kept and _is_expanded(op):
            emission = Emission(Builder(InsertPoint.before(op)), program.weights, op.location)
            Rewriter.replace_op(op, [], [_expanded(op, emission, in_double=in_double)])
    return program


def _is_expanded(op: Operation) -> bool:
    parent = op.parent_op()
    is_inside = isinstance(parent, QuantizeRegionOp) and parent.is_quantized
    return not is_inside and isinstance(element_of(op.operands[0]), AnyFloat)


def _expanded(op: Operation, emission: Emission, *, in_double: bool) -> SSAValue:
    steps = OpSteps(emission, in_double=in_double)
    if type(op) in _EXACT:
        return _EXACT[type(op)](steps, *op.operands)
    name, given = op.name.partition(".")[2], element_of(op.results[0])
    in_float = IN_FLOAT.get(name)
    if in_float is not None and (given == f32 or not in_double):
        function, computed = in_float, f32 if in_double else _at_least_float(given)
    else:
        function = IN_DOUBLE.get(name) or BINARY[name]
        computed = f64 if in_double else _at_least_float(given)
    operands = [emission.converted(value, computed) for value in op.operands]
    return emission.converted(cast("SSAValue", function(cast("Steps[SSAValue]", steps), *operands)), given)


def _at_least_float(element: object) -> AnyFloat:
    return f64 if element == f64 else f32
