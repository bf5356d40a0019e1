"""MLIR's linalg dialect: xDSL's, with a `generic` of several results, a `matmul` that extends narrow integers, and
named ops that xDSL lacks.

xDSL's `pooling_nchw_max` is replaced, because its body compares with the window operand instead of the maximum so far.

Source: MLIR's "'linalg' Dialect" page. Operands of sums of products are sign-extended to the type of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, cast

from xdsl.builder import ImplicitBuilder
from xdsl.dialects import linalg as xdsl_linalg
from xdsl.dialects.arith import AddfOp, AddiOp, ExtSIOp, MaximumfOp, MaxSIOp, MulfOp, MuliOp
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, IntegerType
from xdsl.dialects.linalg.abstract_ops import ConvOperation, NamedOperation, PoolingOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.parser import Parser

CombineOp = Callable[[SSAValue, SSAValue], Operation]
"""An op of two scalars."""


def _extended(value: SSAValue, wanted: AnyFloat | IntegerType) -> SSAValue:
    return ExtSIOp(value, wanted).result if isinstance(wanted, IntegerType) and value.type != wanted else value


def _products(inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
    """A body that adds the product of two operands, extended to the type of the sum."""
    kinds = NamedOperation.body_arg_types((*inputs, *outputs))
    block = Block(arg_types=kinds)
    add, multiply = (AddfOp, MulfOp) if isinstance(kinds[-1], AnyFloat) else (AddiOp, MuliOp)
    with ImplicitBuilder(block):
        a, b = (_extended(argument, kinds[-1]) for argument in block.args[:2])
        YieldOp(add(block.args[2], multiply(a, b)))
    return Region(block)


def _windows(inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], of: tuple[CombineOp, CombineOp]) -> Region:
    """A body that combines the result so far with the first operand, extended to its type. The second operand only
    gives the shape of the window.
    """
    kinds = NamedOperation.body_arg_types((*inputs, *outputs))
    block = Block(arg_types=kinds)
    with ImplicitBuilder(block):
        combine = of[isinstance(kinds[-1], AnyFloat)]
        YieldOp(combine(block.args[2], _extended(block.args[0], kinds[-1])))
    return Region(block)


class _ResultTypes:
    """xDSL's parser of `linalg.generic` reads one type behind the arrow. This one also reads several in parentheses."""

    def __init__(self, parser: Parser):
        self._parser = parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def parse_comma_separated_list(self, delimiter: Any, parse: Callable[[], Any], context: str = "") -> list[Any]:
        if parse == self._parser.parse_attribute:
            found = self._parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, parse)
            return [parse()] if found is None else found
        return self._parser.parse_comma_separated_list(delimiter, parse, context)


class GenericOp(xdsl_linalg.ops.GenericOp):
    """`linalg.generic`, whose text may have several results."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return super().parse(cast("Parser", _ResultTypes(parser)))


@irdl_op_definition
class MatmulOp(NamedOperation):
    """`linalg.matmul`: C[m, n] += A[m, k] * B[k, n]."""

    name = "linalg.matmul"
    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True
    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])

    def __init__(self, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]):
        types = [output.type for output in outputs]
        super().__init__(ins=inputs, outs=outputs, result_types=[types], hidden_region=_products(inputs, outputs))

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return _products(inputs, outputs)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        if self.indexing_maps is not None:
            return tuple(entry.data for entry in self.indexing_maps.data)
        m, n, k = (AffineDimExpr(dim) for dim in range(3))
        return (AffineMap(3, 0, (m, k)), AffineMap(3, 0, (k, n)), AffineMap(3, 0, (m, n)))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr([*[IteratorTypeAttr.parallel()] * 2, IteratorTypeAttr.reduction()])


@irdl_op_definition
class BatchMatmulOp(NamedOperation):
    """`linalg.batch_matmul`: C[b, m, n] += A[b, m, k] * B[b, k, n]."""

    name = "linalg.batch_matmul"
    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True

    def __init__(self, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]):
        types = [output.type for output in outputs]
        super().__init__(ins=inputs, outs=outputs, result_types=[types], hidden_region=_products(inputs, outputs))

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return _products(inputs, outputs)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        b, m, n, k = (AffineDimExpr(dim) for dim in range(4))
        return (AffineMap(4, 0, (b, m, k)), AffineMap(4, 0, (b, k, n)), AffineMap(4, 0, (b, m, n)))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr([*[IteratorTypeAttr.parallel()] * 3, IteratorTypeAttr.reduction()])


@irdl_op_definition
class DepthwiseConv2DNchwChwOp(ConvOperation):
    """`linalg.depthwise_conv_2d_nchw_chw`: every channel has its own filter."""

    name = "linalg.depthwise_conv_2d_nchw_chw"

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        n, oh, ow, c, kh, kw = (AffineDimExpr(dim) for dim in range(6))
        (stride_h, stride_w), (dilation_h, dilation_w) = self.strides.get_values(), self.dilations.get_values()
        position = (n, c, oh * stride_h + kh * dilation_h, ow * stride_w + kw * dilation_w)
        return (AffineMap(6, 0, position), AffineMap(6, 0, (c, kh, kw)), AffineMap(6, 0, (n, c, oh, ow)))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr([*[IteratorTypeAttr.parallel()] * 4, *[IteratorTypeAttr.reduction()] * 2])


def _pooling_maps(op: PoolingOperation) -> Sequence[AffineMap]:
    n, c, oh, ow, kh, kw = (AffineDimExpr(dim) for dim in range(6))
    (stride_h, stride_w), (dilation_h, dilation_w) = op.strides.get_values(), op.dilations.get_values()
    position = (n, c, oh * stride_h + kh * dilation_h, ow * stride_w + kw * dilation_w)
    return (AffineMap(6, 0, position), AffineMap(6, 0, (kh, kw)), AffineMap(6, 0, (n, c, oh, ow)))


@irdl_op_definition
class PoolingNchwMaxOp(PoolingOperation):
    """`linalg.pooling_nchw_max`: the greatest element of every window."""

    name = "linalg.pooling_nchw_max"

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return _windows(inputs, outputs, (MaxSIOp, MaximumfOp))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return _pooling_maps(self)


@irdl_op_definition
class PoolingNchwSumOp(PoolingOperation):
    """`linalg.pooling_nchw_sum`: the sum of every window."""

    name = "linalg.pooling_nchw_sum"

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return _windows(inputs, outputs, (AddiOp, AddfOp))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return _pooling_maps(self)


_OURS = (GenericOp, BatchMatmulOp, DepthwiseConv2DNchwChwOp, MatmulOp, PoolingNchwMaxOp, PoolingNchwSumOp)

Linalg = Dialect(
    "linalg",
    [op for op in xdsl_linalg.Linalg.operations if op.name not in {ours.name for ours in _OURS}] + list(_OURS),
    list(xdsl_linalg.Linalg.attributes),
)
"""xDSL's dialect with the ops above."""
