"""`select_and_scatter`: the gradient of pooling.

Source: the StableHLO specification, "select_and_scatter"; the RFC "StableHLO quantization for reduction ops" lets its
`scatter` compute in a wider element type. The error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, TensorType, i1
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array, padding_attribute
from zeropoint.ir.stablehlo.elements import compatible_shapes
from zeropoint.ir.stablehlo.reduction import check_reduced, check_reducer
from zeropoint.ir.stablehlo.signatures import ANY, OpSignature, SignatureOp
from zeropoint.ir.stablehlo.windows import check_windows
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class SelectAndScatterOp(SignatureOp):
    """Combines, with `scatter`, the values of `source` at the elements that `select` picks in windows of `operand`."""

    name = "stablehlo.select_and_scatter"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY)
    operand = operand_def()
    source = operand_def()
    init_value = operand_def()
    result = result_def()
    window_dimensions = opt_prop_def(I64_ARRAY)
    window_strides = opt_prop_def(I64_ARRAY)
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    select = region_def("single_block")
    scatter = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        source: SSAValue,
        init_value: SSAValue,
        select: Region,
        scatter: Region,
        *,
        window_dimensions: Sequence[int] | None = None,
        window_strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
    ):
        super().__init__(
            operands=[operand, source, init_value],
            result_types=[operand.type],
            properties={
                "window_dimensions": i64_array(window_dimensions),
                "window_strides": i64_array(window_strides),
                "padding": None if padding is None else padding_attribute(padding),
            },
            regions=[select, scatter],
        )

    def verify_(self) -> None:
        """Check the constraints of `select_and_scatter`."""
        super().verify_()
        _check_select(self)
        source, init = self.source.type, self.init_value.type
        returned = check_reducer(self.scatter.block, [TensorType(element_of(source), [])], [init], ())  # (C10)
        _check_windows(self)
        operand = self.operand.type
        # (C11), and the RFC's constraints: the element types that scatter returns, or the operand's.
        check_reduced([shape_of(operand)], returned, [operand], [init], self.result_types)


def _check_select(op: SelectAndScatterOp) -> None:
    """C9: select has type (tensor<E>, tensor<E>) -> tensor<i1>."""
    arguments = [argument.type for argument in op.select.block.args]
    if len(arguments) != 2:
        raise VerifyException(f"expects the select-region to take 2 parameters, but takes {len(arguments)}")
    expected = TensorType(element_of(op.operand), [])
    for index, found in enumerate(arguments):
        if found != expected and not _same_but_for_precision(found, expected):
            raise VerifyException(
                f"expects the type of select-region's parameter at index {index} to be '{expected}', but got '{found}'"
            )
    returned = [] if op.select.block.last_op is None else list(op.select.block.last_op.operand_types)
    if len(returned) != 1:
        raise VerifyException(f"expects select-region to return single value, but got: {len(returned)}")
    found = returned[0]
    if found != TensorType(i1, []):
        raise VerifyException(f"expects the return-type of select-region to be tensor<i1>, but got: '{found}'")


def _same_elements(first: Attribute, second: Attribute) -> bool:
    """Whether element types are equal; as upstream, float types of any precision count as equal."""
    one, other = element_of(first), element_of(second)
    return one == other or (isinstance(one, AnyFloat) and isinstance(other, AnyFloat))


def _same_but_for_precision(first: Attribute, second: Attribute) -> bool:
    return type(first) is TensorType and shape_of(first) == shape_of(second) and _same_elements(first, second)


def _check_windows(op: SelectAndScatterOp) -> None:
    """C1, C2, C4 to C8: the windows, with one value of `source` for each."""
    sizes, operand = array_values(op.window_dimensions), op.operand.type
    rank = len(shape_of(operand))
    if len(sizes) != rank:
        raise VerifyException(
            f"expects window-dimensions size == operand rank, but got window-dimensions size: {len(sizes)} and "
            f"operand-type: '{operand}' with rank = {rank}."
        )
    padding = cast("DenseIntOrFPElementsAttr[Any] | None", op.padding)
    windows = check_windows(
        sizes, strides=op.window_strides, padding=padding, base_dilations=None, window_dilations=None
    )
    shape = tuple(window.output_size(size) for window, size in zip(windows, shape_of(operand), strict=True))
    source = op.source.type
    expected = TensorType(element_of(operand), shape)
    if not compatible_shapes(shape, shape_of(source)) or not _same_elements(expected, source):
        raise VerifyException(f"expects source-type to be '{expected}', but got'{source}'")


OPS = (SelectAndScatterOp,)
