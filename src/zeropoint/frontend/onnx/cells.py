"""The activation functions of recurrent layers.

Source: the ONNX operator specification of `RNN`, `GRU` and `LSTM`. The numbers in `activation_alpha` and
`activation_beta` are for the functions that have such a parameter, in order. Where a list ends, the rest have defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.activations import (
    clamped_line_of,
    elu_of,
    leaky_relu_of,
    line_of,
    softplus_of,
    softsign_of,
    thresholded_relu_of,
)
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.stablehlo import LogisticOp, MaximumOp, MultiplyOp, TanhOp

CellActivation = Callable[[SSAValue, Builder], SSAValue]


@dataclass(frozen=True)
class _Function:
    """A function of a value and its parameters, which have these defaults; None if it has no such parameter."""

    name: str
    build: Callable[[SSAValue, float, float, Builder], SSAValue]
    alpha: float | None = None
    beta: float | None = None


def _scaled_tanh(value: SSAValue, alpha: float, beta: float, build: Builder) -> SSAValue:
    """alpha * tanh(beta * x)."""
    curve = build.apply(TanhOp, build.apply(MultiplyOp, value, build.splat(beta, value)))
    return build.apply(MultiplyOp, curve, build.splat(alpha, value))


_FUNCTIONS = (
    _Function("Affine", line_of, 1.0, 0.0),
    _Function("Elu", lambda x, alpha, _, build: elu_of(x, alpha, build), 1.0),
    _Function("HardSigmoid", clamped_line_of, 0.2, 0.5),
    _Function("LeakyRelu", lambda x, alpha, _, build: leaky_relu_of(x, alpha, build), 0.01),
    _Function("Relu", lambda x, _, __, build: build.apply(MaximumOp, x, build.splat(0.0, x))),
    _Function("ScaledTanh", _scaled_tanh, 1.0, 1.0),
    _Function("Sigmoid", lambda x, _, __, build: build.apply(LogisticOp, x)),
    _Function("Softplus", lambda x, _, __, build: softplus_of(x, build)),
    _Function("Softsign", lambda x, _, __, build: softsign_of(x, build)),
    _Function("Tanh", lambda x, _, __, build: build.apply(TanhOp, x)),
    _Function("ThresholdedRelu", lambda x, alpha, _, build: thresholded_relu_of(x, alpha, build), 1.0),
)
_BY_NAME = {found.name.lower(): found for found in _FUNCTIONS}


def cell_activations(node: OnnxNode, defaults: Sequence[str], way: int) -> list[CellActivation]:
    """The activation functions of one direction: as many as there are `defaults`, the names of a node that has none.

    Raises NodeError for an unknown function, and for another number of functions.
    """
    names, count = node.texts("activations") or [*defaults, *defaults], len(defaults)
    unknown = [name for name in names if name.lower() not in _BY_NAME]
    if unknown or len(names) < (way + 1) * count:
        known = ", ".join(found.name for found in _FUNCTIONS)
        raise NodeError(f"found activations {', '.join(names)}, expected {count} for each direction, some of: {known}")
    functions = [_BY_NAME[name.lower()] for name in names]
    alphas = _given([found.alpha for found in functions], node.numbers("activation_alpha"))
    betas = _given([found.beta for found in functions], node.numbers("activation_beta"))
    made = [_bound(*each) for each in zip(functions, alphas, betas, strict=True)]
    return made[way * count : (way + 1) * count]


def _given(defaults: Sequence[float | None], numbers: Sequence[float] | None) -> list[float]:
    """The parameter of each function: the next of the numbers, else its default; 0 for a function without it."""
    left = iter(numbers or ())
    return [0.0 if default is None else next(left, default) for default in defaults]


def _bound(function: _Function, alpha: float, beta: float) -> CellActivation:
    return lambda value, build: function.build(value, alpha, beta, build)
