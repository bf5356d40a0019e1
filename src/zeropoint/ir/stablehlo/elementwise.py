"""Elementwise StableHLO ops: arithmetic, functions, comparison, selection, conversion.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType, SelectOpType
from zeropoint.ir.stablehlo.attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonTypeAttr,
)
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_shapes, real_element
from zeropoint.ir.stablehlo.quantization import check_add
from zeropoint.ir.stablehlo.signatures import check_signature
from zeropoint.ir.tensors import element_of, shape_of, with_element


class UnaryOp(IRDLOperation):
    """One operand, one result; the result type is the operand's unless given (quantized ops may differ)."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$operand attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, operand: SSAValue, result_type: Attribute | None = None):
        super().__init__(operands=[operand], result_types=[operand.type if result_type is None else result_type])

    def verify_(self) -> None:
        """Check the element types, and that they and the shapes agree."""
        check_signature(self)


class BinaryOp(IRDLOperation):
    """Two operands of one shape, one result; the result type is the left one's unless given."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$lhs `,` $rhs attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute | None = None):
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type if result_type is None else result_type])

    def verify_(self) -> None:
        """Check the element types, and that they and the shapes agree."""
        check_signature(self)


@irdl_op_definition
class AddOp(BinaryOp):
    """Sum."""

    name = "stablehlo.add"

    def verify_(self) -> None:
        """Check the constraints of `add`: quantized operands may differ in scale, and be per channel."""
        check_signature(self)
        check_add(element_of(self.lhs), element_of(self.rhs), element_of(self.result))


@irdl_op_definition
class DivideOp(BinaryOp):
    """Quotient."""

    name = "stablehlo.divide"


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The greater operand."""

    name = "stablehlo.maximum"


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The lesser operand."""

    name = "stablehlo.minimum"


@irdl_op_definition
class MultiplyOp(BinaryOp):
    """Product."""

    name = "stablehlo.multiply"


@irdl_op_definition
class PowerOp(BinaryOp):
    """The left operand to the power of the right one."""

    name = "stablehlo.power"


@irdl_op_definition
class SubtractOp(BinaryOp):
    """Difference."""

    name = "stablehlo.subtract"


@irdl_op_definition
class AndOp(BinaryOp):
    """Bitwise or logical conjunction."""

    name = "stablehlo.and"


@irdl_op_definition
class OrOp(BinaryOp):
    """Bitwise or logical disjunction."""

    name = "stablehlo.or"


@irdl_op_definition
class AbsOp(UnaryOp):
    """The absolute value; of complex numbers, which has the type of their parts."""

    name = "stablehlo.abs"

    def __init__(self, operand: SSAValue, result_type: Attribute | None = None):
        real = with_element(operand, real_element(element_of(operand)))
        super().__init__(operand, real if result_type is None else result_type)

    def verify_(self) -> None:
        """Check that the result has the operand's type (C1), real where that is complex (C2)."""
        check_signature(self)
        check_inferred([(shape_of(self.operand), real_element(element_of(self.operand)))], self.result_types)


@irdl_op_definition
class CeilOp(UnaryOp):
    """The least integer not below."""

    name = "stablehlo.ceil"


@irdl_op_definition
class CosineOp(UnaryOp):
    """The cosine."""

    name = "stablehlo.cosine"


@irdl_op_definition
class ExponentialOp(UnaryOp):
    """e to the power of the operand."""

    name = "stablehlo.exponential"


@irdl_op_definition
class ExponentialMinusOneOp(UnaryOp):
    """e to the power of the operand, minus one."""

    name = "stablehlo.exponential_minus_one"


@irdl_op_definition
class FloorOp(UnaryOp):
    """The greatest integer not above."""

    name = "stablehlo.floor"


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm."""

    name = "stablehlo.log"


@irdl_op_definition
class LogPlusOneOp(UnaryOp):
    """The natural logarithm of the operand plus one."""

    name = "stablehlo.log_plus_one"


@irdl_op_definition
class LogisticOp(UnaryOp):
    """1 / (1 + exp(-x))."""

    name = "stablehlo.logistic"


@irdl_op_definition
class NegateOp(UnaryOp):
    """The negation."""

    name = "stablehlo.negate"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """The reciprocal of the square root."""

    name = "stablehlo.rsqrt"


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1."""

    name = "stablehlo.sign"


@irdl_op_definition
class SineOp(UnaryOp):
    """The sine."""

    name = "stablehlo.sine"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root."""

    name = "stablehlo.sqrt"


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent."""

    name = "stablehlo.tanh"


@irdl_op_definition
class ConvertOp(UnaryOp):
    """Element type conversion; the shape stays."""

    name = "stablehlo.convert"


@irdl_op_definition
class ClampOp(IRDLOperation):
    """max(min, min(operand, max)); the bounds are scalars or have the operand's shape."""

    name = "stablehlo.clamp"
    min = operand_def()
    operand = operand_def()
    max = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = (
        "$min `,` $operand `,` $max attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"
    )

    def __init__(self, min: SSAValue, operand: SSAValue, max: SSAValue, result_type: Attribute | None = None):
        super().__init__(
            operands=[min, operand, max], result_types=[operand.type if result_type is None else result_type]
        )

    def verify_(self) -> None:
        """Check the constraints of `clamp`: the bounds are scalars or have the operand's shape."""
        check_signature(self)
        shape = shape_of(self.operand)
        for name, bound in (("min", shape_of(self.min)), ("max", shape_of(self.max))):
            if bound and not compatible_shapes(bound, shape):
                raise VerifyException(
                    f"{name} shape {list(bound)} is not scalar and is not compatible to operand shape {list(shape)}"
                )
        check_inferred([(shape, element_of(self.operand))], self.result_types)


@irdl_op_definition
class CompareOp(IRDLOperation):
    """An i1 tensor: whether `lhs` stands in the given relation to `rhs`."""

    name = "stablehlo.compare"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)
    traits = traits_def(Pure())
    assembly_format = (
        "$comparison_direction `,` $lhs `,` $rhs (`,` $compare_type^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, lhs: SSAValue, rhs: SSAValue, direction: ComparisonDirection):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[with_element(lhs, i1)],
            properties={"comparison_direction": ComparisonDirectionAttr(direction)},
        )

    def verify_(self) -> None:
        """Check the element types, and that they and the shapes agree."""
        check_signature(self)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`on_true` where `pred` holds, `on_false` elsewhere; `pred` is a scalar or has their shape."""

    name = "stablehlo.select"
    pred = operand_def()
    on_true = operand_def()
    on_false = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SelectOpType,)
    assembly_format = (
        "operands attr-dict `:` custom<SelectOpType>(type($pred), type($on_true), type($on_false), type($result))"
    )

    def __init__(self, pred: SSAValue, on_true: SSAValue, on_false: SSAValue):
        super().__init__(operands=[pred, on_true, on_false], result_types=[on_true.type])

    def verify_(self) -> None:
        """Check the constraints of `select`: the branches have one type, `pred` is a scalar or has their shape."""
        check_signature(self)
        shape, element = shape_of(self.on_true), element_of(self.on_true)
        if not compatible_shapes(shape, shape_of(self.on_false)) or element != element_of(self.on_false):
            raise VerifyException("requires compatible types for non-predicate operands")
        if shape_of(self.pred) and not compatible_shapes(shape_of(self.pred), shape):
            raise VerifyException("requires the same shape for all operands")
        check_inferred([(shape, element)], self.result_types)
