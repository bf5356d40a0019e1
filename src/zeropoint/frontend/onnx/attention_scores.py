"""Scores of attention: heads, masks, the softmax, and the sum of values.

Source: onnxruntime's contributed operators (`com.microsoft`), and its CPU kernels where the schemas leave it open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.normalization import softmax_of
from zeropoint.frontend.onnx.products import multiplied
from zeropoint.ir.stablehlo import AddOp, AndOp, ComparisonDirection, MultiplyOp, SelectOp, TransposeOp
from zeropoint.ir.tensors import shape_of, with_shape

LEAST = float(np.finfo(np.float32).min)


def heads_of(value: SSAValue, count: int, build: Builder) -> SSAValue:
    """[batch, sequence, heads * features] as [batch, heads, sequence, features]."""
    batch, sequence, size = shape_of(value)
    apart = build.reshape(value, (batch, sequence, count, size // count))
    return build.insert(TransposeOp(apart, [0, 2, 1, 3]))


def joined_heads(value: SSAValue, build: Builder) -> SSAValue:
    """[batch, heads, sequence, features] as [batch, sequence, heads * features]."""
    batch, count, sequence, size = shape_of(value)
    turned = build.insert(TransposeOp(value, [0, 2, 1, 3]))
    return build.reshape(turned, (batch, sequence, count * size))


def scale_or_default(given: float, size: int) -> float:
    """The factor of the scores; 0 stands for one over the root of the features."""
    return given or 1 / float(np.sqrt(np.float32(size)))


def attended(
    query: SSAValue, key: SSAValue, values: SSAValue, scale: float, mask: SSAValue | None, build: Builder
) -> tuple[SSAValue, SSAValue]:
    """The attention [batch, sequence, heads * features], and the scores before their softmax."""
    if shape_of(key)[:3] != shape_of(values)[:3]:
        shapes = f"{list(shape_of(key))} and {list(shape_of(values))}"
        raise NodeError(f"found keys and values of shapes {shapes}, expected the same batch, heads and sequence")
    scores = multiplied(query, build.insert(TransposeOp(key, [0, 1, 3, 2])), build)
    factor = scale_or_default(scale, shape_of(query)[-1])
    scores = build.apply(MultiplyOp, scores, build.splat(factor, scores))
    if mask is not None:
        scores = build.apply(AddOp, scores, broadcast_to(mask, shape_of(scores), build))
    return joined_heads(multiplied(softmax_of(scores, [3], build), values, build), build), scores


@dataclass(frozen=True)
class Masking:
    """What hides scores: a mask of keys, the order of the tokens, and a bias. `total` counts past tokens, too."""

    node: OnnxNode
    batch: int
    sequence: int
    total: int
    past: int

    @staticmethod
    def of(node: OnnxNode, query: SSAValue, key: SSAValue, past: int) -> Masking:
        return Masking(node, shape_of(query)[0], shape_of(query)[2], shape_of(key)[2], past)

    def added(self, mask: int, bias: int, build: Builder) -> SSAValue | None:
        """What is added to the scores, of rank 4, by the inputs with these numbers; None without any of them."""
        filler = self.node.number("mask_filter_value", -10000.0)
        found = self._padding(mask, filler, build) if self.node.has(mask) else None
        if self.node.integer("unidirectional", 0) and self.sequence > 1:
            found = self._ordered(found, build)
        if self.node.has(bias):
            given = self.node.operand(bias)
            found = given if found is None else _sum(found, given, build)
        return found

    def _padding(self, index: int, filler: float, build: Builder) -> SSAValue:
        """A mask of keys: 0 where they are visible. It has ends, ends and starts, or a number for each key."""
        given, batch, total = self.node.operand(index), self.batch, self.total
        shape = shape_of(given)
        if shape in ((batch,), (2 * batch,)):
            visible = self._between(given, build)
        elif shape in ((batch, total), (batch, self.sequence, total)):
            visible = build.compare(ComparisonDirection.GT, given, 0)
            visible = build.reshape(visible, (batch, 1, shape[1] if len(shape) == 3 else 1, total))
        else:
            raise NodeError(
                f"found a mask of shape {list(shape)}, expected [{batch}], [{2 * batch}], [{batch}, {total}] or "
                f"[{batch}, {self.sequence}, {total}]; write another one as 'attention_bias'"
            )
        number = build.constant(np.array(filler, np.float32))
        kind = with_shape(number, shape_of(visible))
        zero = build.broadcast(build.constant(np.array(0, np.float32)), kind, ())
        return build.apply(SelectOp, visible, zero, build.broadcast(number, kind, ()))

    def _between(self, given: SSAValue, build: Builder) -> SSAValue:
        """Whether each key is before the end of its batch, and not before its start, if there are starts."""
        shape = (self.batch, 1, 1, self.total)
        place = build.iota(shape, 3, i64)
        ends = [
            build.broadcast(converted(part_of(given, 0, range(i, i + self.batch), build), i64, build), place.type, [0])
            for i in range(0, shape_of(given)[0], self.batch)
        ]
        visible = build.compare(ComparisonDirection.LT, place, ends[0])
        if len(ends) == 1:
            return visible
        return build.apply(AndOp, visible, build.compare(ComparisonDirection.GE, place, ends[1]))

    def _ordered(self, mask: SSAValue | None, build: Builder) -> SSAValue:
        """The mask with the least number where a key is behind its query. onnxruntime lets the last one see all."""
        later = np.arange(self.total)[None, :] > self.past + np.arange(self.sequence)[:, None]
        later[-1] = False
        if mask is None:
            hidden = np.where(later, np.float32(LEAST), np.float32(0))
            return build.constant(hidden.reshape(1, 1, self.sequence, self.total))
        shape = (self.batch, 1, self.sequence, self.total)
        condition = build.constant(later)
        condition = build.broadcast(condition, with_shape(condition, shape), [2, 3])
        mask = broadcast_to(mask, shape, build)
        return build.apply(SelectOp, condition, build.splat(LEAST, mask), mask)


def _sum(first: SSAValue, second: SSAValue, build: Builder) -> SSAValue:
    try:
        shape = np.broadcast_shapes(shape_of(first), shape_of(second))
    except ValueError:
        shapes = f"{list(shape_of(first))} and {list(shape_of(second))}"
        raise NodeError(f"found a mask and a bias of shapes {shapes}, which do not broadcast to one") from None
    return build.apply(AddOp, broadcast_to(first, shape, build), broadcast_to(second, shape, build))
