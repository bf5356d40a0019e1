"""Functions that LiteRT does not have, of those that it has. They are equal up to rounding, as all float functions.

| function | form |
|---|---|
| asin, acos | ATAN2 of x and sqrt((1 - x) (1 + x)) |
| asinh | sign(x) log(abs(x) + sqrt(x^2 + 1)) |
| acosh, atanh | log(x + sqrt((x - 1) (x + 1))), log((1 + x) / (1 - x)) / 2 |
| atan | ATAN2 of x and 1 |
| cbrt | sign(x) POW(abs(x), 1/3) |
| sinh, cosh | (exp(x) - exp(-x)) / 2, (exp(x) + exp(-x)) / 2; near 0, sinh is 2 t / (1 - t^2) with t = tanh(x / 2) |
| erf | GELU(z) / (z / 2) - 1 with z = x sqrt(2); 0 where x is 0 |
| tan | sin(x) / cos(x) |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import Operation

from zeropoint.export.litert.composition import Composition
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir import chlo
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_of


def _root_of_product(run: Composition, first: int, second: int) -> int:
    return run.apply("SQRT", run.times(first, second))


def _cosine_of(run: Composition, x: int) -> int:
    one = run.constant(1)
    return _root_of_product(run, run.minus(one, x), run.plus(one, x))


def _asin(run: Composition, x: int) -> int:
    return run.apply("ATAN2", x, _cosine_of(run, x))


def _acos(run: Composition, x: int) -> int:
    return run.apply("ATAN2", _cosine_of(run, x), x)


def _atan(run: Composition, x: int) -> int:
    return run.apply("ATAN2", x, run.constant(1, whole=True))


def _atan2(run: Composition, y: int, x: int) -> int:
    return run.apply("ATAN2", y, x)


def _asinh(run: Composition, x: int) -> int:
    size = run.apply("ABS", x)
    root = run.apply("SQRT", run.plus(run.times(x, x), run.constant(1)))
    return run.times(run.apply("SIGN", x), run.apply("LOG", run.plus(size, root)))


def _acosh(run: Composition, x: int) -> int:
    one = run.constant(1)
    root = _root_of_product(run, run.minus(x, one), run.plus(x, one))
    return run.apply("LOG", run.plus(x, root))


def _atanh(run: Composition, x: int) -> int:
    one = run.constant(1)
    quotient = run.over(run.plus(one, x), run.minus(one, x))
    return run.times(run.apply("LOG", quotient), run.constant(0.5))


def _cbrt(run: Composition, x: int) -> int:
    return run.times(run.apply("SIGN", x), run.apply("POW", run.apply("ABS", x), run.constant(1 / 3)))


def _cosh(run: Composition, x: int) -> int:
    both = run.plus(run.apply("EXP", x), run.apply("EXP", run.apply("NEG", x)))
    return run.times(both, run.constant(0.5))


def _sinh(run: Composition, x: int) -> int:
    half = run.constant(0.5)
    far = run.times(run.minus(run.apply("EXP", x), run.apply("EXP", run.apply("NEG", x))), half)
    tangent = run.apply("TANH", run.times(x, half))
    below = run.minus(run.constant(1), run.times(tangent, tangent))
    near = run.over(run.times(run.constant(2), tangent), below)
    return run.choose(run.compare("LESS", run.apply("ABS", x), run.constant(1)), near, far)


def _erf(run: Composition, x: int) -> int:
    scaled = run.times(x, run.constant(np.sqrt(2)))
    quotient = run.over(run.apply("GELU", scaled), run.times(scaled, run.constant(0.5)))
    is_zero = run.compare("EQUAL", x, run.constant(0))
    return run.choose(is_zero, x, run.minus(quotient, run.constant(1)))


def _tan(run: Composition, x: int) -> int:
    return run.over(run.apply("SIN", x), run.apply("COS", x))


FUNCTIONS: Mapping[type[Operation], Callable[..., int]] = {
    chlo.AcosOp: _acos,
    chlo.AcoshOp: _acosh,
    chlo.AsinOp: _asin,
    chlo.AsinhOp: _asinh,
    chlo.AtanOp: _atan,
    chlo.AtanhOp: _atanh,
    chlo.CoshOp: _cosh,
    chlo.ErfOp: _erf,
    chlo.SinhOp: _sinh,
    hlo.Atan2Op: _atan2,
    hlo.CbrtOp: _cbrt,
    hlo.TanOp: _tan,
}


def composed(op: Operation, emit: LitertEmission) -> None:
    """A function as several operators."""
    kind = element_of(op.results[0])
    run = Composition(emit, op, kind)
    run.finish(FUNCTIONS[type(op)](run, *(emit.operand(value, kind) for value in op.operands)))
