"""`convolution` and `dot_general`.

Source: the StableHLO specification, "convolution" and "dot_general".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import quantization
from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.stablehlo.assembly import (
    ConvolutionDimensions,
    DotDimensionNumbers,
    WindowAttributes,
)
from zeropoint.ir.stablehlo.attributes import (
    ConvDimensionNumbersAttr,
    DotDimensionNumbersAttr,
    Precision,
    PrecisionAttr,
)
from zeropoint.ir.stablehlo.dimensions import ConvolutionLayout, DotDimensions
from zeropoint.ir.stablehlo.dot_algorithm import DotAlgorithmAttr, PrecisionConfigAndAlgorithm
from zeropoint.ir.stablehlo.elements import compatible_shapes, compatible_sizes
from zeropoint.ir.stablehlo.signatures import ANY, ANY_OR_AXIS, OpSignature, SignatureOp
from zeropoint.ir.stablehlo.windows import check_windows
from zeropoint.ir.tensors import element_of, shape_of

__all__ = ["ConvolutionOp", "DotGeneralOp", "array_values", "i64_array", "padding_attribute", "padding_values"]


@irdl_op_definition
class ConvolutionOp(SignatureOp):
    """Convolution of `lhs` by the kernel `rhs`."""

    name = "stablehlo.convolution"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, ANY_OR_AXIS), ANY_OR_AXIS)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    window_strides = opt_prop_def(I64_ARRAY)
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    lhs_dilation = opt_prop_def(I64_ARRAY)
    rhs_dilation = opt_prop_def(I64_ARRAY)
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    feature_group_count = prop_def(IntegerAttr)
    batch_group_count = prop_def(IntegerAttr)
    precision_config = opt_prop_def(ArrayAttr)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = (ConvolutionDimensions, WindowAttributes)
    assembly_format = (
        "`(` operands `)` `dim_numbers` `=` custom<ConvolutionDimensions>($dimension_numbers) `,` "
        "`window` `=` `{` custom<WindowAttributes>($window_strides, $padding, $lhs_dilation, $rhs_dilation, "
        "$window_reversal) `}` attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        layout: ConvolutionLayout,
        *,
        window_strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        window_reversal: Sequence[bool] | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
    ):
        reversal = None if window_reversal is None else DenseArrayBase.from_list(i1, list(window_reversal))
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                "window_strides": i64_array(window_strides),
                "padding": None if padding is None else padding_attribute(padding),
                "lhs_dilation": i64_array(lhs_dilation),
                "rhs_dilation": i64_array(rhs_dilation),
                "window_reversal": reversal,
                "dimension_numbers": ConvDimensionNumbersAttr(layout),
                "feature_group_count": IntegerAttr(feature_group_count, i64),
                "batch_group_count": IntegerAttr(batch_group_count, i64),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `convolution`."""
        super().verify_()
        _check_convolution(self)


@irdl_op_definition
class DotGeneralOp(SignatureOp):
    """The sum of products over the contracting dimensions, for each index of the others."""

    name = "stablehlo.dot_general"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, ANY_OR_AXIS), ANY_OR_AXIS)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr)
    algorithm = opt_prop_def(DotAlgorithmAttr)
    traits = traits_def(Pure())
    custom_directives = (DotDimensionNumbers, PrecisionConfigAndAlgorithm)
    assembly_format = (
        "$lhs `,` $rhs `,` custom<DotDimensionNumbers>($dot_dimension_numbers) "
        "custom<PrecisionConfigAndAlgorithm>($precision_config, $algorithm) attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute, dimensions: DotDimensions):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={"dot_dimension_numbers": DotDimensionNumbersAttr(dimensions)},
        )

    def verify_(self) -> None:
        """Check the constraints of `dot_general`."""
        super().verify_()
        _check_dot_general(self)


_MAX_PRECISIONS = 2


def _check_precision(op: ConvolutionOp | DotGeneralOp) -> None:
    config = op.precision_config
    if config is None:
        return
    if any(not isinstance(entry, PrecisionAttr) for entry in config):
        raise VerifyException("attribute 'precision_config' failed to satisfy constraint: Precision Config attribute")
    if len(config) > _MAX_PRECISIONS:
        raise VerifyException(f"expects precision config to be empty or have <= 2 elements, got {len(config)}")


def __check_shape(inferred: Sequence[int], result: Attribute) -> None:
    if not compatible_shapes(tuple(inferred), shape_of(result)):
        raise VerifyException(
            f"inferred shape '{list(inferred)}' is incompatible with return type of operation '{result}'"
        )


def _any_quantized(*types: Attribute) -> bool:
    return any(isinstance(element_of(found), UniformQuantizedType) for found in types)


def _check_convolution(op: ConvolutionOp) -> None:
    """Check a convolution.

    Raises VerifyException.
    """
    lhs, rhs, result = op.lhs.type, op.rhs.type, op.result.type
    layout = op.dimension_numbers.data
    lhs_shape, rhs_shape = shape_of(lhs), shape_of(rhs)
    quantized = _any_quantized(lhs, rhs)
    _check_ranks(lhs, rhs)
    if not quantized and element_of(lhs) != element_of(rhs):
        raise VerifyException(
            f"expects lhs and rhs to have compatible element type. Got: '{element_of(lhs)}' and '{element_of(rhs)}'"
        )
    _check_layout(layout, len(lhs_shape))
    features = _group_count(op.feature_group_count, "feature")
    batches = _group_count(op.batch_group_count, "batch")
    _check_groups(layout, lhs_shape, rhs_shape, features, batches)
    _check_precision(op)
    windows = check_windows(
        [rhs_shape[dim] for dim in layout.kernel_spatial_dimensions],
        strides=op.window_strides,
        padding=op.padding,
        base_dilations=op.lhs_dilation,
        window_dilations=op.rhs_dilation,
        reversal=op.window_reversal,
    )
    shape = [DYNAMIC_INDEX] * len(lhs_shape)
    for window, source, target in zip(
        windows, layout.input_spatial_dimensions, layout.output_spatial_dimensions, strict=True
    ):
        shape[target] = window.output_size(lhs_shape[source])
    batch = lhs_shape[layout.input_batch_dimension]
    shape[layout.output_batch_dimension] = batch if batch < 0 else batch // batches
    shape[layout.output_feature_dimension] = rhs_shape[layout.kernel_output_feature_dimension]
    __check_shape(shape, result)
    if quantized or _any_quantized(result):
        elements = element_of(lhs), element_of(rhs), element_of(result)
        quantization.check_convolution_axes(
            *elements[1:], layout.kernel_output_feature_dimension, layout.output_feature_dimension
        )
        quantization.check_contraction(*elements)


def _check_ranks(lhs: Attribute, rhs: Attribute) -> None:
    rank = len(shape_of(lhs))
    if rank < 2:
        raise VerifyException(f"expects convolution arguments to have >= 2 dimensions. Got: '{lhs}' and '{rhs}'.")
    if rank != len(shape_of(rhs)):
        raise VerifyException(
            f"expects convolution arguments to have same number of dimensions. Got: '{lhs}' and '{rhs}'."
        )


def _check_layout(layout: ConvolutionLayout, rank: int) -> None:
    spatial = layout.input_spatial_dimensions, layout.kernel_spatial_dimensions, layout.output_spatial_dimensions
    counts = [len(dims) for dims in spatial]
    if len(set(counts)) > 1:
        raise VerifyException(
            "expects the same size for input, kernel and output spatial-dimensions, but got "
            f"{counts[0]}, {counts[1]}, and {counts[2]} resp."
        )
    numbers = {
        "input": (layout.input_batch_dimension, layout.input_feature_dimension, *spatial[0]),
        "kernel": (layout.kernel_input_feature_dimension, layout.kernel_output_feature_dimension, *spatial[1]),
        "output": (layout.output_batch_dimension, layout.output_feature_dimension, *spatial[2]),
    }
    if any(not 0 <= dim < rank for dims in numbers.values() for dim in dims):
        raise VerifyException(f"expects input, kernel, and output dimension-numbers to be in-range [0, {rank}).")
    for name, dims in numbers.items():
        if len(set(dims)) < len(dims):
            text = ", ".join(map(str, dims))
            raise VerifyException(f"expects {name} dimension-numbers to be unique, got {{{text}}}.")
    if rank != counts[0] + 2:
        raise VerifyException(f"expects convolution arguments to have {counts[0] + 2} dimensions. Got: {rank}")


def _group_count(attribute: IntegerAttr[Any], name: str) -> int:
    if attribute.type != i64 or attribute.value.data < 1:
        raise VerifyException(
            f"attribute '{name}_group_count' failed to satisfy constraint: "
            "64-bit signless integer attribute whose value is positive"
        )
    return attribute.value.data


def _check_groups(
    layout: ConvolutionLayout, lhs_shape: Sequence[int], rhs_shape: Sequence[int], features: int, batches: int
) -> None:
    if features > 1 and batches > 1:
        raise VerifyException(
            "expects batch_group_count and feature_group_count not to be both greater than 1. "
            f"Got {batches} and {features} resp."
        )
    batch = lhs_shape[layout.input_batch_dimension]
    if batch >= 0 and batch % batches:
        raise VerifyException(
            f"expects input batch dimension ({batch}) to be divisible by batch_group_count. "
            f"Got batch_group_count = {batches}."
        )
    _check_feature_groups(
        lhs_shape[layout.input_feature_dimension],
        rhs_shape[layout.kernel_input_feature_dimension],
        rhs_shape[layout.kernel_output_feature_dimension],
        features,
        batches,
    )


def _check_feature_groups(inputs: int, kernel_inputs: int, outputs: int, features: int, batches: int) -> None:
    if inputs >= 0 and inputs % features:
        raise VerifyException(
            f"expects input feature dimension ({inputs}) to be a multiple of feature_group_count. "
            f"Got feature_group_count = {features}."
        )
    if inputs >= 0 and not compatible_sizes(inputs // features, kernel_inputs):
        raise VerifyException(
            f"expects input feature dimension ({inputs}) / feature_group_count = kernel input feature dimension "
            f"({kernel_inputs}). Got feature_group_count = {features}."
        )
    if outputs >= 0 and outputs % batches:
        raise VerifyException(
            f"expects output feature dimension size ({outputs}) to be a multiple of batch_group_count. "
            f"Got batch_group_count = {batches}."
        )
    if outputs >= 0 and outputs % features:
        raise VerifyException(
            f"expects kernel output feature dimension ({outputs}) to be divisible by feature_group_count. "
            f"For feature_group_count = {features}."
        )


def _check_dot_general(op: DotGeneralOp) -> None:
    """Check a dot_general.

    Raises VerifyException.
    """
    lhs, rhs, result = op.lhs.type, op.rhs.type, op.result.type
    lhs_shape, rhs_shape = shape_of(lhs), shape_of(rhs)
    dims = op.dot_dimension_numbers.data
    _check_precision(op)
    _check_dot_dimensions(dims, len(lhs_shape), len(rhs_shape))
    pairs = (
        ("batching", dims.lhs_batching_dimensions, dims.rhs_batching_dimensions),
        ("contracting", dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions),
    )
    for name, lhs_dims, rhs_dims in pairs:
        if any(not compatible_sizes(lhs_shape[a], rhs_shape[b]) for a, b in zip(lhs_dims, rhs_dims, strict=True)):
            raise VerifyException(f"{name} dimension sizes must match for lhs/rhs")
    __check_shape(_dot_general_shape(lhs_shape, rhs_shape, dims), result)
    default = PrecisionAttr(Precision.DEFAULT)
    if op.algorithm is not None and any(found != default for found in op.precision_config or ()):  # (C21)
        raise VerifyException("must specify DEFAULT precision config when algorithm is set.")
    if _any_quantized(lhs, rhs, result):
        quantization.check_dot_kernel(element_of(rhs), dims.rhs_contracting_dimensions)
        quantization.check_contraction(element_of(lhs), element_of(rhs), element_of(result))


def _dot_general_shape(lhs: Sequence[int], rhs: Sequence[int], dims: DotDimensions) -> list[int]:
    """The result shape: batching dimensions, then the free dimensions of lhs, then those of rhs."""
    lhs_used = {*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions}
    rhs_used = {*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions}
    batch = [lhs[dim] for dim in dims.lhs_batching_dimensions]
    return (
        batch
        + [size for dim, size in enumerate(lhs) if dim not in lhs_used]
        + [size for dim, size in enumerate(rhs) if dim not in rhs_used]
    )


def _check_dot_dimensions(dims: DotDimensions, lhs_rank: int, rhs_rank: int) -> None:
    if len(dims.lhs_batching_dimensions) != len(dims.rhs_batching_dimensions):
        raise VerifyException("lhs and rhs should have the same number of batching dimensions")
    if len(dims.lhs_contracting_dimensions) != len(dims.rhs_contracting_dimensions):
        raise VerifyException("lhs and rhs should have the same number of contracting dimensions")
    sides = (
        ("lhs", lhs_rank, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions),
        ("rhs", rhs_rank, dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions),
    )
    for side, _, batching, contracting in sides:
        seen: set[int] = set()
        for dim in (*batching, *contracting):
            if dim in seen:
                raise VerifyException(
                    f"has duplicated dimension from {side}_batching_dimensions and {side}_contracting_dimensions: {dim}"
                )
            seen.add(dim)
    for side, rank, batching, contracting in sides:
        for name, found in (("batching", batching), ("contracting", contracting)):
            for dim in found:
                if not 0 <= dim < rank:
                    raise VerifyException(f"{side}_{name}_dimensions value: {dim} is out of range: [0, {rank})")


OPS = (ConvolutionOp, DotGeneralOp)
