"""The batch normalizations.

Source: the StableHLO specification, "batch_norm_inference" (C1 to C7), "batch_norm_training" (C1 to C7),
"batch_norm_grad" (C1 to C5); the error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.elements import (
    ElementKind,
    TensorConstraint,
    check_inferred,
    compatible_shapes,
    compatible_sizes,
)
from zeropoint.ir.stablehlo.signatures import REAL, OpSignature, SignatureOp, compatible_element_types
from zeropoint.ir.tensors import element_of, shape_of

_FEATURES = TensorConstraint((ElementKind.FLOAT, ElementKind.PER_TENSOR), "1D tensor", rank=1)


class _BatchNormOp(SignatureOp):
    """Base class: ops with a feature dimension and an epsilon, which is added to the variance."""

    epsilon = prop_def(FloatAttr)
    feature_index = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    @property
    def feature(self) -> int:
        """The feature dimension: it has one scale per index."""
        return int(self.feature_index.value.data)

    def check(self, whole: Sequence[SSAValue], per_feature: Sequence[SSAValue]) -> None:
        """Check operands of the full shape, and operands with one value per feature."""
        if self.feature < 0:
            raise VerifyException(
                "attribute 'feature_index' failed to satisfy constraint: 64-bit signless integer attribute whose value "
                "is non-negative"
            )
        super().verify_()
        if self.epsilon.type != f32:
            raise VerifyException("attribute 'epsilon' failed to satisfy constraint: 32-bit float attribute")
        for values, name in ((whole, "multi"), (per_feature, "single")):
            first = shape_of(values[0])
            if not all(compatible_shapes(first, shape_of(value)) for value in values[1:]):
                raise VerifyException(f"expects {name}-dimensional operands to have compatible shapes.")
        shape, feature = shape_of(whole[0]), self.feature
        if feature >= len(shape):
            raise VerifyException(
                "expects featureIndex to be smaller than the rank of multi-dimensional operands; got featureIndex "
                f"{feature}, and rank {len(shape)}."
            )
        count = shape_of(per_feature[0])[0]
        if not compatible_sizes(count, shape[feature]):
            raise VerifyException(
                "expects the size of single-dimensional operands to be compatible with feature count, but the size of "
                f"single-dimensional operands is {count} and the feature count is {shape[feature]}."
            )
        made = [shape, (shape[feature],), (shape[feature],)][: len(self.results)]
        check_inferred([(sizes, element_of(whole[0])) for sizes in made], self.result_types)


def _properties(epsilon: float, feature_index: int) -> dict[str, FloatAttr | IntegerAttr]:
    return {"epsilon": FloatAttr(epsilon, f32), "feature_index": IntegerAttr(feature_index, i64)}


@irdl_op_definition
class BatchNormInferenceOp(_BatchNormOp):
    """(operand - mean) / sqrt(variance + epsilon) * scale + offset, with one mean, variance, ... per feature."""

    name = "stablehlo.batch_norm_inference"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((REAL, _FEATURES), REAL, (compatible_element_types,))
    operand = operand_def()
    scale = operand_def()
    offset = operand_def()
    mean = operand_def()
    variance = operand_def()
    result = result_def()

    def __init__(self, operands: Sequence[SSAValue], epsilon: float, feature_index: int):
        properties = _properties(epsilon, feature_index)
        super().__init__(operands=list(operands), result_types=[operands[0].type], properties=properties)

    def verify_(self) -> None:
        """Check the constraints of `batch_norm_inference`."""
        self.check([self.operand], [self.scale, self.offset, self.mean, self.variance])


@irdl_op_definition
class BatchNormTrainingOp(_BatchNormOp):
    """`batch_norm_inference` with the operand's own mean and variance, which are also results."""

    name = "stablehlo.batch_norm_training"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((REAL, _FEATURES), REAL, (compatible_element_types,))
    operand = operand_def()
    scale = operand_def()
    offset = operand_def()
    output = result_def()
    batch_mean = result_def()
    batch_var = result_def()

    def __init__(self, operands: Sequence[SSAValue], epsilon: float, feature_index: int):
        properties = _properties(epsilon, feature_index)
        types = [operands[0].type, operands[1].type, operands[1].type]
        super().__init__(operands=list(operands), result_types=types, properties=properties)

    def verify_(self) -> None:
        """Check the constraints of `batch_norm_training`."""
        self.check([self.operand], [self.scale, self.offset])


@irdl_op_definition
class BatchNormGradOp(_BatchNormOp):
    """The gradients of batch_norm_training's operands, given the gradient of its output."""

    name = "stablehlo.batch_norm_grad"
    SIGNATURE: ClassVar[OpSignature] = OpSignature(
        (REAL, _FEATURES, _FEATURES, _FEATURES, REAL), REAL, (compatible_element_types,)
    )
    operand = operand_def()
    scale = operand_def()
    mean = operand_def()
    variance = operand_def()
    grad_output = operand_def()
    grad_operand = result_def()
    grad_scale = result_def()
    grad_offset = result_def()

    def __init__(self, operands: Sequence[SSAValue], epsilon: float, feature_index: int):
        properties = _properties(epsilon, feature_index)
        types = [operands[0].type, operands[1].type, operands[1].type]
        super().__init__(operands=list(operands), result_types=types, properties=properties)

    def verify_(self) -> None:
        """Check the constraints of `batch_norm_grad`."""
        self.check([self.operand, self.grad_output], [self.scale, self.mean, self.variance])


OPS = (BatchNormInferenceOp, BatchNormTrainingOp, BatchNormGradOp)
BatchNormOp = BatchNormInferenceOp | BatchNormTrainingOp | BatchNormGradOp
