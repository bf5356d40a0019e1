"""Softmax, log-softmax, layer and RMS normalization, in the forms of frameworks and of our importer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    DivideOp,
    ExponentialOp,
    LogOp,
    MaximumOp,
    MultiplyOp,
    PowerOp,
    ReduceOp,
    ReshapeOp,
    RsqrtOp,
    SqrtOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of

OpChain = list[Operation]
"""The ops on the path between two values of a match."""


def _behind(value: SSAValue, graph: FloatGraph) -> tuple[SSAValue, OpChain]:
    """The source of `value` through broadcasts, reshapes and maximum(-inf, x), and the ops in between."""
    way: OpChain = []
    while True:
        owner = value.owner
        if isinstance(owner, BroadcastInDimOp | ReshapeOp):
            way.append(owner)
            value = owner.operand
        # JAX writes max(-inf, reduce_max) around the maximum of a softmax.
        elif isinstance(owner, MaximumOp) and graph.splat(owner.lhs) == float("-inf"):
            way.append(owner)
            value = owner.rhs
        else:
            return value, way


def _reduced(value: SSAValue, body: type[Operation], graph: FloatGraph) -> tuple[SSAValue, OpChain] | None:
    """If `value` broadcasts a reduction with `body`: the reduction's input, and the ops in between; None otherwise."""
    value, way = _behind(value, graph)
    owner = value.owner
    if isinstance(owner, ReduceOp) and body_op(owner.body) is body and len(owner.inputs) == 1:
        return owner.inputs[0], [*way, owner]
    return None


def _exponentials(shifted: SSAValue, graph: FloatGraph) -> tuple[SSAValue, OpChain] | None:
    """The x of `shifted` = x - max(x), and its ops; None otherwise."""
    owner = shifted.owner
    if not isinstance(owner, SubtractOp):
        return None
    greatest = _reduced(owner.rhs, MaximumOp, graph)
    return (owner.lhs, [owner, *greatest[1]]) if greatest is not None and greatest[0] is owner.lhs else None


def _match(
    kernel: str, ops: Iterable[Operation], inputs: tuple[SSAValue, ...], graph: FloatGraph
) -> RegionMatch | None:
    """The match, or None if an intermediate value has other users or another kernel covers an op."""
    covered = graph.in_order(set(ops))
    inside = set(covered)
    for op in covered[:-1]:
        # A value inside a kernel has no type of its own, so others cannot read it.
        if any(use.operation not in inside for result in op.results for use in result.uses):
            return None
    return None if inside & graph.covered else RegionMatch(kernel, covered, inputs)


def match_softmax(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """e / sum(e) where e = exp(x - max(x))."""
    if not isinstance(op, DivideOp) or not isinstance(exponential := op.lhs.owner, ExponentialOp):
        return None
    total = _reduced(op.rhs, AddOp, graph)
    source = _exponentials(exponential.operand, graph)
    if total is None or total[0] is not exponential.result or source is None:
        return None
    mask, ports = _mask_before(source[0], graph)
    return _match("softmax", (op, *total[1], exponential, *source[1], *mask), ports, graph)


def _mask_before(value: SSAValue, graph: FloatGraph) -> tuple[OpChain, tuple[SSAValue, ...]]:
    """The addition of a computed, broadcast mask before a softmax, the scale before that, and the ports of the match.

    A mask is about -10000 where it hides a score. An 8-bit scale that covers this leaves no resolution for the scores.
    So the addition joins the kernel if the target has no softmax, which then stays float, or if a row of its table has
    a port for a mask. The kernel of such a row also takes scores that are multiplied by a positive number.
    """
    rows = graph.kernels.get("softmax", ())
    takes_mask = any(len(row.inputs) > 1 for row in rows)
    way: OpChain = []
    ports: tuple[SSAValue, ...] = (value,)
    add = value.owner
    if (takes_mask or not rows) and isinstance(add, AddOp):
        for scores, mask in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
            if isinstance(mask.owner, BroadcastInDimOp) and graph.array(mask.owner.operand) is None:
                way, ports = [add], (scores, mask)
                break
    if takes_mask:
        scores, *masks = ports
        for index, mask in enumerate(masks):
            if isinstance(mask.owner, BroadcastInDimOp) and graph.only_user(mask) is add:
                way.append(mask.owner)
                masks[index] = mask.owner.operand
        scores, scaling = _unscaled(scores, graph)
        way, ports = [*way, *scaling], (scores, *masks)
    return way, ports


def _unscaled(value: SSAValue, graph: FloatGraph) -> tuple[SSAValue, OpChain]:
    """If `value` = x * c or x / c with a positive number c: x and the op; otherwise `value` and no ops."""
    op = value.owner
    if isinstance(op, MultiplyOp | DivideOp) and graph.only_user(value) is not None:
        number = graph.splat(op.rhs)
        if number is not None and 0 < number < float("inf"):
            return op.lhs, [op]
    return value, []


def match_log_softmax(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """s - log(sum(exp(s))) where s = x - max(x)."""
    if not isinstance(op, SubtractOp):
        return None
    source = _exponentials(op.lhs, graph)
    logarithm, way = _behind(op.rhs, graph)
    if source is None or not isinstance(log := logarithm.owner, LogOp):
        return None
    total = _reduced(log.operand, AddOp, graph)
    if total is None or not isinstance(exponential := total[0].owner, ExponentialOp) or exponential.operand != op.lhs:
        return None
    return _match("log_softmax", (op, *source[1], *way, log, *total[1], exponential), (source[0],), graph)


def _mean(value: SSAValue, graph: FloatGraph) -> tuple[SSAValue, OpChain] | None:
    """The x of `value` = mean(x), and the ops; None otherwise.

    A mean, which may be broadcast, is a sum divided by the count or multiplied by its reciprocal.
    """
    value, way = _behind(value, graph)
    owner = value.owner
    if not isinstance(owner, DivideOp | MultiplyOp):
        return None
    number = graph.splat(owner.rhs)
    total = _reduced(owner.lhs, AddOp, graph)
    if number is None or total is None or not isinstance(total[1][-1], ReduceOp):
        return None
    count = prod(shape_of(total[0])) / prod(shape_of(total[1][-1].results[0]))
    divisor = number if isinstance(owner, DivideOp) else 1 / number if number else 0.0
    # Rounded to f32, 1/n is not exactly the reciprocal of n.
    return (total[0], [*way, owner, *total[1]]) if abs(divisor / count - 1) < 1e-5 else None


def _square(value: SSAValue, graph: FloatGraph) -> tuple[SSAValue, Operation] | None:
    """The x of `value` = x * x or power(x, 2), and the op; None otherwise."""
    owner = value.owner
    if isinstance(owner, MultiplyOp) and owner.lhs is owner.rhs:
        return owner.lhs, owner
    if isinstance(owner, PowerOp) and graph.splat(owner.rhs) == 2:
        return owner.lhs, owner
    return None


def _variance(value: SSAValue, centred: SubtractOp, graph: FloatGraph) -> OpChain | None:
    """The ops of a variance of x: mean((x - mean)^2), or max(mean(x^2) - mean^2, 0); None otherwise."""
    value, way = _behind(value, graph)
    owner = value.owner
    # E[x^2] - E[x]^2 may round to a negative number, which frameworks clamp.
    if isinstance(owner, MaximumOp) and 0 in (graph.splat(owner.lhs), graph.splat(owner.rhs)):
        way.append(owner)
        value = owner.lhs if graph.splat(owner.rhs) == 0 else owner.rhs
        owner = value.owner
    if isinstance(owner, SubtractOp):
        squares, mean_square = _mean(owner.lhs, graph), _square(owner.rhs, graph)
        if squares is None or mean_square is None or _mean(mean_square[0], graph) is None:
            return None
        square, mean = _square(squares[0], graph), _mean(mean_square[0], graph)
        if square is None or mean is None or not square[0] is mean[0] is centred.lhs:
            return None
        return [*way, owner, *squares[1], square[1], mean_square[1], *mean[1]]
    squares = _mean(value, graph)
    square = _square(squares[0], graph) if squares is not None else None
    if squares is None or square is None:
        return None
    again = square[0].owner  # exporters compute x - mean once or twice
    if not isinstance(again, SubtractOp) or again.lhs is not centred.lhs:
        return None
    mean = _mean(again.rhs, graph)
    return [*way, *squares[1], square[1], again, *mean[1]] if mean is not None and mean[0] is centred.lhs else None


def _root(value: SSAValue, inverse: bool, graph: FloatGraph) -> tuple[SSAValue, OpChain] | None:
    """The x of `value` = sqrt(x + epsilon), or of its inverse, and the ops; None otherwise."""
    value, way = _behind(value, graph)
    owner = value.owner
    if inverse and isinstance(owner, DivideOp) and graph.splat(owner.lhs) == 1:
        rest = _root(owner.rhs, False, graph)
        return None if rest is None else (rest[0], [*way, owner, *rest[1]])
    if not isinstance(owner, RsqrtOp if inverse else SqrtOp):
        return None
    shifted, more = _behind(owner.operand, graph)
    way += [owner, *more]
    if isinstance(add := shifted.owner, AddOp):
        number = graph.splat(add.rhs) if graph.splat(add.rhs) is not None else graph.splat(add.lhs)
        if number is None:
            return None
        way.append(add)
        shifted = add.lhs if graph.splat(add.rhs) is not None else add.rhs
    return shifted, way


def _deviation(value: SSAValue, inverse: bool, centred: SubtractOp, graph: FloatGraph) -> OpChain | None:
    """The ops of sqrt(variance + epsilon), or of its inverse."""
    root = _root(value, inverse, graph)
    variance = None if root is None else _variance(root[0], centred, graph)
    return None if root is None or variance is None else [*root[1], *variance]


def _size(value: SSAValue, inverse: bool, source: SSAValue, graph: FloatGraph) -> OpChain | None:
    """The ops of sqrt(mean(source^2) + epsilon), or of its inverse."""
    root = _root(value, inverse, graph)
    squares = None if root is None else _mean(root[0], graph)
    square = None if squares is None else _square(squares[0], graph)
    if root is None or squares is None or square is None or square[0] is not source:
        return None
    return [*root[1], *squares[1], square[1]]


def _scaled(value: SSAValue, graph: FloatGraph) -> tuple[SSAValue, SSAValue | None, OpChain]:
    """If `value` = v * constant: v, the constant and the ops; otherwise `value`, None and no ops."""
    product, way = _behind(value, graph)
    if isinstance(owner := product.owner, MultiplyOp):
        for inner, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
            constant, more = _behind(other, graph)
            if graph.array(constant) is not None:
                own = [op for op in more if graph.only_user(op.results[0]) is owner]
                return inner, constant, [*way, owner, *own]
    return value, None, []


def _sides(op: Operation) -> Sequence[tuple[SSAValue, SSAValue]]:
    """The dividend and the divisor, or what may be a dividend and the inverse of a divisor; empty for other ops."""
    if isinstance(op, DivideOp):
        return [(op.lhs, op.rhs)]
    return [(op.lhs, op.rhs), (op.rhs, op.lhs)] if isinstance(op, MultiplyOp) else []


_Normalized = tuple[SSAValue, SSAValue | None, OpChain]
"""The x of a quotient by its deviation or size, a scale if there is one, and the ops."""


def _normalized(op: Operation, graph: FloatGraph) -> _Normalized | None:
    """(x - mean(x)) / deviation(x); None otherwise.

    The deviation is a divisor, or its inverse is a factor. The inverse may be multiplied by the scale first.
    """
    for centre, deviation in _sides(op):
        if not isinstance(centred := centre.owner, SubtractOp):
            continue
        mean = _mean(centred.rhs, graph)
        if mean is None or mean[0] is not centred.lhs:
            continue
        inverse, scale, scaling = _scaled(deviation, graph) if isinstance(op, MultiplyOp) else (deviation, None, [])
        way = _deviation(inverse, isinstance(op, MultiplyOp), centred, graph)
        if way is not None:
            return centred.lhs, scale, [op, centred, *mean[1], *scaling, *way]
    return None


def _divided_by_size(op: Operation, graph: FloatGraph) -> _Normalized | None:
    """x / size(x), in the forms of `_normalized`; None otherwise."""
    for value, size in _sides(op):
        inverse, scale, scaling = _scaled(size, graph) if isinstance(op, MultiplyOp) else (size, None, [])
        way = _size(inverse, isinstance(op, MultiplyOp), value, graph)
        if way is not None:
            return value, scale, [op, *scaling, *way]
    return None


def _affine_step(
    value: SSAValue, kind: type[Operation], graph: FloatGraph
) -> tuple[Operation, SSAValue, OpChain] | None:
    """The only user of `value` if it is a `kind` with a constant: that op, the constant, and the ops; else None."""
    user = graph.only_user(value)
    if not isinstance(user, kind):
        return None
    other = user.operands[1] if user.operands[0] is value else user.operands[0]
    constant, way = _behind(other, graph)
    if graph.array(constant) is None:
        return None
    own = [op for op in way if graph.only_user(op.results[0]) is not None]
    return user, constant, [user, *own]


def _with_affine_steps(kernel: str, op: Operation, found: _Normalized, graph: FloatGraph) -> RegionMatch | None:
    """A normalization whose last op is `op`, then optionally `multiply` by a constant and `add` of a constant."""
    source, scale, ops = found
    value, inputs = op.results[0], [source] if scale is None else [source, scale]
    for kind in (MultiplyOp, AddOp) if scale is None else (AddOp,):
        step = _affine_step(value, kind, graph)
        if step is not None:
            user, constant, way = step
            value, ops = user.results[0], [*ops, *way]
            inputs.append(constant)
    return _match(kernel, ops, tuple(dict.fromkeys(inputs)), graph)


def match_layer_norm(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """(x - mean) / sqrt(variance + epsilon), and a factor and an addend."""
    found = _normalized(op, graph)
    return None if found is None else _with_affine_steps("layer_norm", op, found, graph)


def match_rms_norm(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """x / sqrt(mean(x^2) + epsilon), and a factor and an addend.

    A target with integer layer norms only computes the parts with its other kernels.
    """
    if "layer_norm" in graph.kernels and "rms_norm" not in graph.kernels:
        return None
    found = _divided_by_size(op, graph)
    return None if found is None else _with_affine_steps("rms_norm", op, found, graph)


PATTERNS = (match_softmax, match_log_softmax, match_layer_norm, match_rms_norm)
