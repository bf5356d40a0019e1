"""Elementwise StableHLO ops: arithmetic, functions, comparison, selection, conversion.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType, SelectOpType
from zeropoint.ir.stablehlo.attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonTypeAttr,
)
from zeropoint.ir.stablehlo.elements import (
    ElementKind,
    TensorConstraint,
    check_inferred,
    compatible_shapes,
)
from zeropoint.ir.stablehlo.quantization import check_add
from zeropoint.ir.stablehlo.signatures import (
    ANY,
    ANY_OR_AXIS,
    EVERY_KIND,
    FUNCTION,
    NUMBER,
    PREDICATE,
    REAL,
    OpSignature,
    SignatureOp,
    compatible_element_types,
    compatible_operand_element_types,
    elementwise,
    same_shape,
    same_shape_and_base,
)
from zeropoint.ir.tensors import element_of, real_element, shape_of, with_element

_SIGNED = TensorConstraint(
    (ElementKind.SIGNLESS_INTEGER, ElementKind.FLOAT, ElementKind.COMPLEX, ElementKind.PER_TENSOR)
)
_SIGNED_REAL = TensorConstraint((ElementKind.SIGNLESS_INTEGER, ElementKind.FLOAT, ElementKind.PER_TENSOR))
_NOT_QUANTIZED = TensorConstraint(EVERY_KIND)


class UnaryOp(SignatureOp):
    """One operand, one result. The result type defaults to the operand's; for quantized ops it may differ."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$operand attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, operand: SSAValue, result_type: Attribute | None = None):
        super().__init__(operands=[operand], result_types=[operand.type if result_type is None else result_type])


class BinaryOp(SignatureOp):
    """Two operands of one shape, one result. The result type defaults to the left operand's."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$lhs `,` $rhs attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute | None = None):
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type if result_type is None else result_type])


@irdl_op_definition
class AddOp(BinaryOp):
    """Sum."""

    name = "stablehlo.add"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS,), ANY_OR_AXIS, (same_shape,))

    def verify_(self) -> None:
        """Check the constraints of `add`: quantized operands may differ in scale and may be per channel."""
        super().verify_()
        check_add(element_of(self.lhs), element_of(self.rhs), element_of(self.result))


@irdl_op_definition
class DivideOp(BinaryOp):
    """Quotient."""

    name = "stablehlo.divide"
    SIGNATURE: ClassVar[OpSignature] = elementwise(NUMBER)


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The greater operand."""

    name = "stablehlo.maximum"
    SIGNATURE: ClassVar[OpSignature] = elementwise(ANY)


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The lesser operand."""

    name = "stablehlo.minimum"
    SIGNATURE: ClassVar[OpSignature] = elementwise(ANY)


@irdl_op_definition
class MultiplyOp(BinaryOp):
    """Product."""

    name = "stablehlo.multiply"
    SIGNATURE: ClassVar[OpSignature] = elementwise(ANY)


@irdl_op_definition
class PowerOp(BinaryOp):
    """The left operand raised to the power of the right one."""

    name = "stablehlo.power"
    SIGNATURE: ClassVar[OpSignature] = elementwise(NUMBER)


@irdl_op_definition
class SubtractOp(BinaryOp):
    """Difference."""

    name = "stablehlo.subtract"
    SIGNATURE: ClassVar[OpSignature] = elementwise(NUMBER)


@irdl_op_definition
class AbsOp(UnaryOp):
    """The absolute value; for complex numbers, the result is real."""

    name = "stablehlo.abs"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_SIGNED,), _SIGNED_REAL, (same_shape_and_base,))

    def __init__(self, operand: SSAValue, result_type: Attribute | None = None):
        real = with_element(operand, real_element(element_of(operand)))
        super().__init__(operand, real if result_type is None else result_type)

    def verify_(self) -> None:
        """Check that the result has the operand's type (C1), or the real type of a complex operand (C2)."""
        super().verify_()
        check_inferred([(shape_of(self.operand), real_element(element_of(self.operand)))], self.result_types)


@irdl_op_definition
class CeilOp(UnaryOp):
    """The least integer not below the operand."""

    name = "stablehlo.ceil"
    SIGNATURE: ClassVar[OpSignature] = elementwise(REAL)


@irdl_op_definition
class CosineOp(UnaryOp):
    """The cosine."""

    name = "stablehlo.cosine"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class ExponentialOp(UnaryOp):
    """e to the power of the operand."""

    name = "stablehlo.exponential"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class ExponentialMinusOneOp(UnaryOp):
    """e to the power of the operand, minus one."""

    name = "stablehlo.exponential_minus_one"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class FloorOp(UnaryOp):
    """The greatest integer not above the operand."""

    name = "stablehlo.floor"
    SIGNATURE: ClassVar[OpSignature] = elementwise(REAL)


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm."""

    name = "stablehlo.log"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class LogPlusOneOp(UnaryOp):
    """The natural logarithm of the operand plus one."""

    name = "stablehlo.log_plus_one"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class LogisticOp(UnaryOp):
    """1 / (1 + exp(-x))."""

    name = "stablehlo.logistic"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class NegateOp(UnaryOp):
    """The negation."""

    name = "stablehlo.negate"
    SIGNATURE: ClassVar[OpSignature] = elementwise(NUMBER)


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """The reciprocal of the square root."""

    name = "stablehlo.rsqrt"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1."""

    name = "stablehlo.sign"
    SIGNATURE: ClassVar[OpSignature] = elementwise(_SIGNED)


@irdl_op_definition
class SineOp(UnaryOp):
    """The sine."""

    name = "stablehlo.sine"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root."""

    name = "stablehlo.sqrt"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent."""

    name = "stablehlo.tanh"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class ConvertOp(UnaryOp):
    """Element type conversion."""

    name = "stablehlo.convert"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_NOT_QUANTIZED,), _NOT_QUANTIZED, (same_shape,))


@irdl_op_definition
class ClampOp(SignatureOp):
    """max(min, min(operand, max)); the bounds are scalars or have the operand's shape."""

    name = "stablehlo.clamp"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY, (compatible_element_types,))
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
        super().verify_()
        shape = shape_of(self.operand)
        for name, bound in (("min", shape_of(self.min)), ("max", shape_of(self.max))):
            if bound and not compatible_shapes(bound, shape):
                raise VerifyException(
                    f"{name} shape {list(bound)} is not scalar and is not compatible to operand shape {list(shape)}"
                )
        check_inferred([(shape, element_of(self.operand))], self.result_types)


@irdl_op_definition
class CompareOp(SignatureOp):
    """Compares `lhs` with `rhs` elementwise in the given direction; the result is an i1 tensor."""

    name = "stablehlo.compare"
    SIGNATURE: ClassVar[OpSignature] = OpSignature(
        (ANY,), PREDICATE, (compatible_operand_element_types, same_shape_and_base)
    )
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


@irdl_op_definition
class SelectOp(SignatureOp):
    """`on_true` where `pred` holds, `on_false` elsewhere; `pred` is a scalar or has their shape."""

    name = "stablehlo.select"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((PREDICATE, ANY), ANY)
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
        super().verify_()
        shape, element = shape_of(self.on_true), element_of(self.on_true)
        if not compatible_shapes(shape, shape_of(self.on_false)) or element != element_of(self.on_false):
            raise VerifyException("requires compatible types for non-predicate operands")
        if shape_of(self.pred) and not compatible_shapes(shape_of(self.pred), shape):
            raise VerifyException("requires the same shape for all operands")
        check_inferred([(shape, element)], self.result_types)


OPS = (
    AddOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PowerOp,
    SubtractOp,
    AbsOp,
    CeilOp,
    CosineOp,
    ExponentialOp,
    ExponentialMinusOneOp,
    FloorOp,
    LogOp,
    LogPlusOneOp,
    LogisticOp,
    NegateOp,
    RsqrtOp,
    SignOp,
    SineOp,
    SqrtOp,
    TanhOp,
    ConvertOp,
    ClampOp,
    CompareOp,
    SelectOp,
)
