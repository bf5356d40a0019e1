"""`Einsum`: a chain of `dot_general` ops.

Source: the ONNX operator specification, and NumPy's `einsum` for the notation.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp, SelectOp, TransposeOp
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.limits import afford


@dataclass(frozen=True)
class _Term:
    """A value and the label of each of its dimensions."""

    value: SSAValue
    labels: str


def _spelled(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of inputs and output. An ellipsis is replaced by unused capital letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    free = [letter for letter in string.ascii_uppercase if letter not in equation]
    most = max(
        (rank - len(term.replace("...", "")) for term, rank in zip(inputs, ranks, strict=False) if "..." in term),
        default=0,
    )
    if len(inputs) != len(ranks) or most > len(free):
        raise NodeError(
            f"found equation '{equation}' for {len(ranks)} inputs of {list(ranks)} dimensions, expected a term for "
            f"each, and at most {len(free)} dimensions for '...'"
        )
    rest = "".join(free[:most])
    spelled: list[str] = []
    for term, rank in zip(inputs, ranks, strict=True):
        count = rank - len(term.replace("...", ""))
        spelled.append(term.replace("...", rest[most - count :] if count else ""))
        if len(spelled[-1]) != rank:
            raise NodeError(
                f"found equation '{equation}' for an input of {rank} dimensions, expected a letter for each in '{term}'"
            )
    joined = "".join(spelled)
    if not arrow:
        right = rest + "".join(sorted(label for label in set(joined) - set(rest) if joined.count(label) == 1))
    return spelled, right.replace("...", rest)


def _without_repeats(term: _Term, build: Builder) -> _Term:
    """A term without repeated labels. Diagonals are extracted by a mask and a sum."""
    value, labels = term.value, term.labels
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            size = shape_of(value)[first]
            afford([size, size], 1, "a mask")
            mask = build.constant(np.eye(size, dtype=np.bool_))
            mask = build.broadcast(mask, with_shape(mask, shape_of(value)), [first, second])
            value = build.reduce(build.apply(SelectOp, mask, value, build.splat(0, value)), [second], 0)
            labels = labels[:second] + labels[second + 1 :]
    return _Term(value, labels)


def _summed(term: _Term, kept: str, build: Builder) -> _Term:
    """A term summed over the labels that neither another term nor the output has."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    return _Term(build.reduce(term.value, axes, 0), "".join(label for label in term.labels if label in kept))


def _product(lhs: _Term, rhs: _Term, kept: str, build: Builder) -> _Term:
    """The product of two terms. Shared labels are batch dimensions if they are kept, else they are contracted."""
    shared = [label for label in lhs.labels if label in rhs.labels]
    batch, contracted = [x for x in shared if x in kept], [x for x in shared if x not in kept]
    sizes = dict(zip(lhs.labels + rhs.labels, shape_of(lhs.value) + shape_of(rhs.value), strict=True))
    if any(shape_of(lhs.value)[lhs.labels.index(x)] != shape_of(rhs.value)[rhs.labels.index(x)] for x in shared):
        raise NodeError(
            f"found shapes {list(shape_of(lhs.value))} and {list(shape_of(rhs.value))} of one label, expected one size"
        )
    labels = "".join(batch)
    labels += "".join(x for x in lhs.labels if x not in shared) + "".join(x for x in rhs.labels if x not in shared)
    dimensions = [tuple(term.labels.index(x) for x in group) for group in (batch, contracted) for term in (lhs, rhs)]
    shape = with_shape(lhs.value, [sizes[label] for label in labels])
    return _Term(build.insert(DotGeneralOp(lhs.value, rhs.value, shape, DotDimensions(*dimensions))), labels)


def einsum(node: OnnxNode, build: Builder) -> SSAValue:
    """`Einsum`: sums over labels that only one input has, a `dot_general` for each further input, a `transpose`."""
    values = node.operands()
    inputs, output = _spelled(node.text("equation", ""), [len(shape_of(value)) for value in values])
    terms = [_without_repeats(_Term(*pair), build) for pair in zip(values, inputs, strict=True)]
    result = _summed(terms[0], output + "".join(term.labels for term in terms[1:]), build)
    for index, term in enumerate(terms[1:], 1):
        later = output + "".join(other.labels for other in terms[index + 1 :])
        result = _product(result, _summed(term, later + result.labels, build), later, build)
    result = _summed(result, output, build)
    if sorted(result.labels) != sorted(output):
        raise NodeError(f"found output labels '{output}', expected some of the inputs' labels, each once")
    order = [result.labels.index(label) for label in output]
    return result.value if order == sorted(order) else build.insert(TransposeOp(result.value, order))
