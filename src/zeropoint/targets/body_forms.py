"""Check that the bodies of kernels have the forms that fusion makes. They are read backwards from the result.

- A function of one value is evaluated at points, as in fusion.
- Arithmetic and contractions: bounds, then (for a contraction) the bias, then the kernel's own op, then ports.
- Sums: the division by counts for a mean, then reshapes, then a reduction that starts at 0.
- Movement: one op on ports. Linear resizes: products with their matrices, and transposes.
- Softmax: e / sum(e) where e = exp(x), possibly of x minus its maximum. Layer norms have many forms, of which only the
  last op and the root are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.linear_resizes import resize_matrices, resized_dimension
from zeropoint.ir.named_functions import POINTS, TOLERANCE, computes
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ConcatenateOp,
    ConvertOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    ExponentialOp,
    GatherOp,
    IotaOp,
    LogOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    PowerOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    RsqrtOp,
    SelectOp,
    SliceOp,
    SqrtOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.litert_resize import placement_of
from zeropoint.targets.logical_kernels import FUNCTIONS

GENERIC = "elementwise_unary"
NARROW_TOLERANCE = 0.05
"""The tolerance for functions whose constants have fewer bits than f32."""
LOWEST = float(np.finfo(np.float32).min)
"""Reductions by a maximum start at this number or below."""


class _Misformed(Exception):
    """The reason why a body does not have the form of its kernel."""


class _Body:
    """The body of a region, read from its result."""

    def __init__(self, region: QuantizeRegionOp, weights: Weights):
        self.kernel, self.weights = region.logical_kernel.data, weights
        self.block = region.body.block
        assert self.block.last_op is not None
        self.results = [unstated(value) for value in self.block.last_op.operands]

    def misfit(self, found: SSAValue, expected: str) -> _Misformed:
        """The error for a value."""
        owner = found.owner
        name = "an argument of the region" if isinstance(owner, Block) else f"{owner.name} in the region"
        return _Misformed(f"found {name}, expected {expected}")

    def port(self, value: SSAValue) -> None:
        """Check that a value is an argument of the region, or a broadcast of one."""
        while isinstance(owner := (value := unstated(value)).owner, BroadcastInDimOp):
            value = owner.operand
        if not isinstance(value, BlockArgument):
            raise self.misfit(value, f"{self.kernel} of arguments of the region")

    def ports(self, op: Operation) -> None:
        """Check that an op reads ports only."""
        for operand in op.operands:
            self.port(operand)

    def unbounded(self, value: SSAValue) -> SSAValue:
        """The value before the last ops, which clamp it to constants."""
        while not isinstance(op := (value := unstated(value)).owner, Block) and Bounds().then(op, self.weights):
            is_number = isinstance(op, MaximumOp | MinimumOp) and self.number(op.lhs) is not None
            value = op.operands[1] if is_number or isinstance(op, ClampOp) else op.operands[0]
        return value

    def behind(self, value: SSAValue) -> SSAValue:
        """The value before broadcasts, reshapes, conversions and maximums with -inf."""
        while True:
            owner = (value := unstated(value)).owner
            if isinstance(owner, BroadcastInDimOp | ReshapeOp | TransposeOp | ConvertOp):
                value = owner.operands[0]
            elif isinstance(owner, MaximumOp) and -np.inf in (numbers := [self.number(v) for v in owner.operands]):
                value = owner.operands[1 - numbers.index(-np.inf)]
            else:
                return value

    def number(self, value: SSAValue) -> float | None:
        """The number that a constant repeats."""
        return splat_value(value, self.weights)


def misformed(region: QuantizeRegionOp, weights: Weights) -> str | None:
    """The reason why a region's body does not have the form of its kernel; None if it has, or if there is no form."""
    form = FORMS.get(region.logical_kernel.data)
    if form is None:
        return None
    try:
        body = _Body(region, weights)
        if len(body.results) != 1:
            raise _Misformed(f"found {len(body.results)} results of the region, expected one")
        form(body, body.results[0])
    except _Misformed as error:
        return str(error)
    return None


def _function(body: _Body, value: SSAValue) -> None:
    """A function of the only argument, with the values of the function that the kernel names."""
    if len(body.block.args) != 1:
        raise _Misformed(f"found {len(body.block.args)} arguments of the region, expected one")
    dtype = element_dtype(element_of(argument := body.block.args[0]))
    points = POINTS.astype(np.float64) if dtype == np.float64 else POINTS
    try:
        with np.errstate(all="ignore"):
            found = evaluate_chain(value, argument, points, body.weights)
    except ValueError as error:
        raise _Misformed(f"{error} in the region, expected {body.kernel} of its argument") from error
    if not computes(body.kernel, found, TOLERANCE if dtype.itemsize >= 4 else NARROW_TOLERANCE):
        at = {point: float(found[np.flatnonzero(point == POINTS)[0]]) for point in (-1.0, 1.0)}
        results = " and ".join(f"{result:g} of {point:g}" for point, result in at.items())
        raise _Misformed(f"found a function in the region that gives {results}, expected {body.kernel}")


def _arithmetic(*kinds: type[Operation]) -> Callable[[_Body, SSAValue], None]:
    """One op on two ports, then bounds."""

    def check(body: _Body, value: SSAValue) -> None:
        made = body.unbounded(value)
        if not isinstance(made.owner, kinds):
            raise body.misfit(made, f"{kinds[0].name}, then at most maximums and minimums with numbers")
        body.ports(made.owner)

    return check


def _bound(kind: type[Operation]) -> Callable[[_Body, SSAValue], None]:
    """A maximum or minimum of two ports, then bounds; or of one port and a number."""
    of_ports = _arithmetic(kind)

    def check(body: _Body, value: SSAValue) -> None:
        if isinstance(body.unbounded(value), BlockArgument):
            owner = value.owner
            if not isinstance(owner, kind):
                raise body.misfit(value, f"{kind.name} of the argument and a number")
            return
        of_ports(body, value)

    return check


def _contraction(*kinds: type[Operation]) -> Callable[[_Body, SSAValue], None]:
    """A contraction of two arguments, then the bias, then bounds."""

    def check(body: _Body, value: SSAValue) -> None:
        made = body.unbounded(value)
        if isinstance(total := made.owner, AddOp):
            sides = [unstated(total.lhs), unstated(total.rhs)]
            made = next((side for side in sides if isinstance(side.owner, kinds)), made)
            for side in sides if made in sides else []:
                if side is not made:
                    body.port(side)
        if not isinstance(made.owner, kinds):
            raise body.misfit(made, f"{kinds[0].name}, then at most a bias, and maximums and minimums with numbers")
        body.ports(made.owner)

    return check


def _compare(body: _Body, value: SSAValue) -> None:
    if not isinstance(value.owner, CompareOp):
        raise body.misfit(value, CompareOp.name)
    body.ports(value.owner)


def _prelu(body: _Body, value: SSAValue) -> None:
    """`select(x >= 0, x, x * slope)`."""
    chosen = value.owner
    if not isinstance(chosen, SelectOp):
        raise body.misfit(value, f"{SelectOp.name} by the sign of the argument")
    test, product, kept = unstated(chosen.pred).owner, unstated(chosen.on_false).owner, unstated(chosen.on_true)
    tests = (
        isinstance(test, CompareOp)
        and test.comparison_direction.data in (ComparisonDirection.GE, ComparisonDirection.GT)
        and unstated(test.lhs) is kept
        and body.number(test.rhs) == 0.0
    )
    if not tests or not isinstance(product, MultiplyOp) or kept not in map(unstated, product.operands):
        raise body.misfit(value, "select(x >= 0, x, x * slope) of the arguments x and slope")
    body.ports(product)


def _squared_difference(body: _Body, value: SSAValue) -> None:
    """`d * d`, where d is the difference of the arguments."""
    square = value.owner
    if not isinstance(square, MultiplyOp) or len(set(map(unstated, square.operands))) != 1:
        raise body.misfit(value, "a difference times itself")
    difference = unstated(square.lhs).owner
    if not isinstance(difference, SubtractOp):
        raise body.misfit(value, "the square of a difference")
    body.ports(difference)


def _reduction(kind: type[Operation], *, divided: bool = False) -> Callable[[_Body, SSAValue], None]:
    """A reduction of the argument by `kind` from its neutral element. `divided`: whether counts divide it."""

    def check(body: _Body, value: SSAValue) -> None:
        scaled = 0
        while kind is AddOp and isinstance(op := value.owner, DivideOp | MultiplyOp | ReshapeOp | BroadcastInDimOp):
            if isinstance(op, DivideOp | MultiplyOp):
                if body.number(op.rhs) is None and constant_array(op.rhs, body.weights) is None:
                    raise body.misfit(op.rhs, f"a constant in {op.name}")
                scaled += 1
            value = unstated(op.operands[0])
        if scaled != divided:
            raise _Misformed(f"found a sum divided {scaled} times in the region, expected {int(divided)}")
        op = value.owner
        if not isinstance(op, ReduceOp | ReduceWindowOp) or len(op.inputs) != 1 or body_op(op.body) is not kind:
            raise body.misfit(value, f"a reduction by {kind.name}")
        start = body.number(op.init_values[0])
        if start is None or not STARTS[kind](start):
            found = "a computed number" if start is None else f"{start:g}"
            raise _Misformed(
                f"found a reduction by {kind.name} from {found} in the region, expected its neutral element"
            )
        if not isinstance(unstated(op.inputs[0]), BlockArgument):
            raise body.misfit(unstated(op.inputs[0]), f"{op.name} of an argument of the region")

    return check


STARTS: Mapping[type[Operation], Callable[[float], bool]] = {
    AddOp: lambda start: start == 0,
    MaximumOp: lambda start: start <= LOWEST,
    MinimumOp: lambda start: start >= -LOWEST,
}
"""The initial values of reductions, which must not change any result."""


def _movement(kind: type[Operation]) -> Callable[[_Body, SSAValue], None]:
    """One op on arguments. A padding value is a number, and indices may be computed in any way."""

    def check(body: _Body, value: SSAValue) -> None:
        op = value.owner
        if not isinstance(op, kind):
            raise body.misfit(value, f"{kind.name} as the only op")
        for operand in op.operands[:1] if isinstance(op, GatherOp | PadOp) else op.operands:
            if not isinstance(unstated(operand), BlockArgument):
                raise body.misfit(unstated(operand), f"{kind.name} of arguments of the region")
        if isinstance(op, PadOp) and body.number(op.padding_value) is None:
            raise body.misfit(op.padding_value, "a number to pad with")

    return check


def _position(kind: type[Operation]) -> Callable[[_Body, SSAValue], None]:
    """The first position at which the argument equals its extreme (`fuse/positions.py`)."""

    def check(body: _Body, value: SSAValue) -> None:
        first = value.owner
        chosen = unstated(first.inputs[0]).owner if isinstance(first, ReduceOp) else None
        least = isinstance(first, ReduceOp) and body_op(first.body) is MinimumOp
        if not least or not isinstance(chosen, SelectOp) or not isinstance(unstated(chosen.on_true).owner, IotaOp):
            raise body.misfit(value, f"{ReduceOp.name} by {MinimumOp.name} of selected positions")
        test = unstated(chosen.pred).owner
        if not isinstance(test, CompareOp) or test.comparison_direction.data is not ComparisonDirection.EQ:
            raise body.misfit(unstated(chosen.pred), f"{CompareOp.name} EQ")
        sides = [body.behind(operand) for operand in test.operands]
        for argument, extreme in (sides, sides[::-1]):
            op = extreme.owner
            if isinstance(argument, BlockArgument) and isinstance(op, ReduceOp) and unstated(op.inputs[0]) is argument:
                return _reduction(kind)(body, extreme)
        raise body.misfit(sides[1], f"a comparison of the argument with its reduction by {kind.name}")

    return check


def _total_of_exponentials(body: _Body, value: SSAValue) -> ExponentialOp:
    """The exponentials that `value` sums."""
    total = body.behind(value)
    op = total.owner
    if isinstance(op, ReduceOp) and body_op(op.body) is AddOp and body.number(op.init_values[0]) == 0:
        inner = body.behind(op.inputs[0])
        if isinstance(inner.owner, ExponentialOp):
            return inner.owner
    raise body.misfit(total, f"a sum of {ExponentialOp.name}")


def _scores(body: _Body, value: SSAValue) -> None:
    """Arguments, scaled and masked, possibly minus their maximum."""
    op = (value := body.behind(value)).owner
    if isinstance(op, SubtractOp):
        greatest = body.behind(op.rhs)
        reduction, value = greatest.owner, body.behind(op.lhs)
        inputs = (
            reduction.inputs[:1] if isinstance(reduction, ReduceOp) and body_op(reduction.body) is MaximumOp else ()
        )
        if [body.behind(operand) for operand in inputs] != [value]:
            raise body.misfit(greatest, f"the reduction of the scores by {MaximumOp.name}")
    pending = [value]
    while pending:
        value = body.behind(pending.pop())
        if isinstance(value.owner, AddOp | MultiplyOp | DivideOp):
            pending += value.owner.operands
        elif not isinstance(value, BlockArgument) and constant_array(value, body.weights) is None:
            raise body.misfit(value, f"{body.kernel} of arguments, scaled and masked")


def _softmax(body: _Body, value: SSAValue) -> None:
    """e / sum(e) where e = exp(x - max(x)) or exp(x)."""
    value = body.behind(value)
    op = value.owner
    exponential = body.behind(op.lhs).owner if isinstance(op, DivideOp) else None
    if not isinstance(op, DivideOp) or not isinstance(exponential, ExponentialOp):
        raise body.misfit(value, f"{DivideOp.name} of {ExponentialOp.name}")
    if _total_of_exponentials(body, op.rhs) is not exponential:
        raise body.misfit(op.rhs, "the sum of the exponentials that it divides")
    _scores(body, exponential.operand)


def _log_softmax(body: _Body, value: SSAValue) -> None:
    """s - log(sum(exp(s))) where s = x - max(x) or x."""
    value = body.behind(value)
    op = value.owner
    log = body.behind(op.rhs) if isinstance(op, SubtractOp) else value
    if not isinstance(op, SubtractOp) or not isinstance(log.owner, LogOp):
        raise body.misfit(log, f"{SubtractOp.name} of a {LogOp.name}")
    exponential = _total_of_exponentials(body, log.owner.operand)
    if body.behind(exponential.operand) is not body.behind(op.lhs):
        raise body.misfit(body.behind(exponential.operand), "exponentials of the subtraction's first operand")
    _scores(body, op.lhs)


def _layer_norm(body: _Body, value: SSAValue) -> None:
    """A quotient or a product, and possibly a sum, of a deviation and a root of sums."""
    _divided_by_root(body, value, (SubtractOp,))


def _rms_norm(body: _Body, value: SSAValue) -> None:
    """A quotient or a product, and possibly a sum, of a value and a root of sums."""
    _divided_by_root(body, value)


def _divided_by_root(body: _Body, value: SSAValue, *parts: tuple[type[Operation], ...]) -> None:
    if not isinstance(body.behind(value).owner, AddOp | MultiplyOp | DivideOp):
        raise body.misfit(value, f"{MultiplyOp.name}, {DivideOp.name} or {AddOp.name}")
    ops = list(body.block.ops)
    for kinds in ((RsqrtOp, SqrtOp, PowerOp), *parts, (ReduceOp,)):
        if not any(isinstance(op, kinds) for op in ops):
            raise _Misformed(f"found no {' or '.join(kind.name for kind in kinds)} in the region, expected one")


def _nothing(body: _Body, value: SSAValue) -> None:
    if not isinstance(value, BlockArgument):
        raise body.misfit(value, "the argument of the region as its result")


def _resize(body: _Body, value: SSAValue) -> None:
    """Products with the matrices of a linear resize, and transposes."""
    while not isinstance(owner := (value := unstated(value)).owner, Block):
        if not isinstance(owner, TransposeOp) and resized_dimension(owner) is None:
            raise body.misfit(value, "products with the matrices of a linear resize, and transposes")
        value = owner.operands[0]
    if placement_of(list(resize_matrices(body.block.ops, body.weights).values())) is None:
        raise _Misformed("found matrices in the region that are not those of a linear resize")


FORMS: Mapping[str, Callable[[_Body, SSAValue], None]] = {
    **{kernel: _function for kernel in FUNCTIONS if kernel != GENERIC},
    **dict.fromkeys(("batch_matmul", "fully_connected"), _contraction(DotGeneralOp)),
    **dict.fromkeys(("convolution", "depthwise_convolution", "transpose_convolution"), _contraction(ConvolutionOp)),
    **dict.fromkeys(("average_pool", "mean"), _reduction(AddOp, divided=True)),
    "add": _arithmetic(AddOp),
    "arg_max": _position(MaximumOp),
    "arg_min": _position(MinimumOp),
    "broadcast": _movement(BroadcastInDimOp),
    "compare": _compare,
    "concatenate": _movement(ConcatenateOp),
    "divide": _arithmetic(DivideOp),
    "gather": _movement(GatherOp),
    "layer_norm": _layer_norm,
    "linear_resize": _resize,
    "log_softmax": _log_softmax,
    "max_pool": _reduction(MaximumOp),
    "maximum": _bound(MaximumOp),
    "minimum": _bound(MinimumOp),
    "multiply": _arithmetic(MultiplyOp),
    "pad": _movement(PadOp),
    "prelu": _prelu,
    "reduce_max": _reduction(MaximumOp),
    "reduce_min": _reduction(MinimumOp),
    "rescale": _nothing,
    "reshape": _movement(ReshapeOp),
    "reverse": _movement(ReverseOp),
    "rms_norm": _rms_norm,
    "select": _movement(SelectOp),
    "slice": _movement(SliceOp),
    "softmax": _softmax,
    "squared_difference": _squared_difference,
    "subtract": _arithmetic(SubtractOp),
    "sum": _reduction(AddOp),
    "transpose": _movement(TransposeOp),
}
"""The forms of kernels that patterns make and that have a certain meaning. `elementwise_unary` may be any function."""
