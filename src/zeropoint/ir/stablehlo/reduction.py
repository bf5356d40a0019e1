"""`reduce` and `reduce_window`.

Source: the StableHLO specification; the RFC "StableHLO quantization for reduction ops" lets a body compute in a wider
element type than the operands have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import AnyFloat, ComplexType, DenseIntOrFPElementsAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    SameVariadicOperandSize,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array, padding_attribute
from zeropoint.ir.stablehlo.elements import (
    check_inferred,
    compatible_elements,
    compatible_shapes,
    compatible_sizes,
    inferred_fits,
    types_text,
)
from zeropoint.ir.stablehlo.reduce_assembly import ReduceParts, parse_reduce, print_reduce
from zeropoint.ir.stablehlo.signatures import VARIADIC, OpSignature, SignatureOp
from zeropoint.ir.stablehlo.windows import check_windows
from zeropoint.ir.tensors import element_of, shape_of

_Inferred = tuple[Sequence[int], Attribute]
"""The shape and the element type of a result."""


@irdl_op_definition
class ReduceOp(SignatureOp):
    """Reduces the listed dimensions with the body, starting from the initial values."""

    name = "stablehlo.reduce"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC)
    inputs = var_operand_def()
    init_values = var_operand_def()
    results_ = var_result_def()
    dimensions = prop_def(I64_ARRAY)
    body = region_def("single_block")
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        init_values: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        dimensions: Sequence[int],
        body: Region,
    ):
        super().__init__(
            operands=[inputs, init_values],
            result_types=[result_types],
            properties={"dimensions": i64_array(dimensions)},
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        """Parse the short form or the form with the full body."""
        inputs, init_values, result_types, dimensions, body, attributes = parse_reduce(parser)
        op = cls(inputs, init_values, result_types, dimensions, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        """Print the short form if it is equivalent."""
        dimensions = list(array_values(self.dimensions))
        parts = ReduceParts(
            self.inputs, self.init_values, self.result_types, dimensions, self.body, dict(self.attributes)
        )
        print_reduce(self, parts, printer)

    def verify_(self) -> None:
        """Check the constraints of `reduce`."""
        super().verify_()
        _check_reduce(self)


@irdl_op_definition
class ReduceWindowOp(SignatureOp):
    """Reduces every window with the body, starting from the initial values."""

    name = "stablehlo.reduce_window"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC)
    inputs = var_operand_def()
    init_values = var_operand_def()
    results_ = var_result_def()
    window_dimensions = prop_def(I64_ARRAY)
    window_strides = opt_prop_def(I64_ARRAY)
    base_dilations = opt_prop_def(I64_ARRAY)
    window_dilations = opt_prop_def(I64_ARRAY)
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    body = region_def("single_block")
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        init_values: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        window_dimensions: Sequence[int],
        body: Region,
        *,
        window_strides: Sequence[int] | None = None,
        base_dilations: Sequence[int] | None = None,
        window_dilations: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
    ):
        super().__init__(
            operands=[inputs, init_values],
            result_types=[result_types],
            properties={
                "window_dimensions": i64_array(window_dimensions),
                "window_strides": i64_array(window_strides),
                "base_dilations": i64_array(base_dilations),
                "window_dilations": i64_array(window_dilations),
                "padding": None if padding is None else padding_attribute(padding),
            },
            regions=[body],
        )

    def verify_(self) -> None:
        """Check the constraints of `reduce_window`."""
        super().verify_()
        _check_reduce_window(self)


def _check_reduce(op: ReduceOp) -> None:
    """Check a reduce.

    Raises VerifyException.
    """
    inputs, init_values = _types(op)
    sizes = __common_shape(inputs)
    dimensions = array_values(op.dimensions)
    for index, dimension in enumerate(dimensions):
        if not 0 <= dimension < len(sizes):
            raise VerifyException(f"Out-of-bounds dimension {dimension}, expected to be in range [0, {len(sizes)})")
        if dimension in dimensions[:index]:
            raise VerifyException(f"Duplicate reduction dimension: {dimension}")
    left = [size for dim, size in enumerate(sizes) if dim not in dimensions]
    returned = check_reducer(op.body.block, inputs, init_values, left)
    check_reduced([left] * len(inputs), returned, inputs, init_values, op.result_types)


def _check_reduce_window(op: ReduceWindowOp) -> None:
    """Check a reduce_window.

    Raises VerifyException.
    """
    inputs, init_values = _types(op)
    sizes = __common_shape(inputs)
    window_sizes = array_values(op.window_dimensions)
    if len(window_sizes) != len(sizes):
        raise VerifyException(
            f"expects window-dimensions size == input rank, but got window-dimensions size: {len(window_sizes)} "
            f"and input: '{inputs[0]}' with rank = {len(sizes)}."
        )
    windows = check_windows(
        window_sizes,
        strides=op.window_strides,
        padding=op.padding,
        base_dilations=op.base_dilations,
        window_dilations=op.window_dilations,
    )
    returned = check_reducer(op.body.block, inputs, init_values, window_sizes)
    shape = [window.output_size(size) for window, size in zip(windows, sizes, strict=True)]
    check_reduced([shape] * len(inputs), returned, inputs, init_values, op.result_types)


def check_reduced(
    shapes: Sequence[Sequence[int]],
    returned: Sequence[Attribute],
    inputs: Sequence[Attribute],
    init_values: Sequence[Attribute],
    results: Sequence[Attribute],
) -> None:
    """Check the result types: element types that the body returns or, by the RFC, those of the inputs.

    The RFC's constraints: baseline_element_type(inputs...) = baseline_element_type(results...) and
    element_type(inputs...) = element_type(init_values...). Upstream supports the first form only.

    Raises VerifyException.
    """
    kept = [(shape, element_of(found)) for shape, found in zip(shapes, inputs, strict=True)]
    if not inferred_fits(kept, results):
        made = [(shape, element_of(found)) for shape, found in zip(shapes, returned, strict=True)]
        _check_computed(made, kept, results)
        return
    computed = [element_of(found) for found in returned]
    if all(compatible_elements(found, element_of(result)) for found, result in zip(computed, results, strict=True)):
        return
    for index, (first, second) in enumerate(zip(inputs, init_values, strict=True)):
        if element_of(first) != element_of(second):
            raise VerifyException(
                f"expects the element types of input and init-value at index {index} to be the same where the body "
                f"computes in another one, but got: '{element_of(first)}' vs '{element_of(second)}'"
            )


def _check_computed(made: Sequence[_Inferred], kept: Sequence[_Inferred], results: Sequence[Attribute]) -> None:
    """Check results against the body's types, with upstream's message; it lists the other allowed types, if any."""
    try:
        check_inferred(made, results)
    except VerifyException as error:
        if inferred_fits(kept, [TensorType(element, shape) for shape, element in made]):
            raise
        quantized = any(isinstance(element, UniformQuantizedType) for _, element in kept)
        others = types_text(TensorType(element, shape) for shape, element in kept)
        scales = " with any scale and zero point" if quantized else ""
        raise VerifyException(f"{error}; allowed beside them, as the operands have them: {others}{scales}") from error


def _types(op: ReduceOp | ReduceWindowOp) -> tuple[list[Attribute], list[Attribute]]:
    inputs = [value.type for value in op.inputs]
    if not inputs:
        raise VerifyException("requires at least 1 input value")
    return inputs, [value.type for value in op.init_values]


def __common_shape(inputs: Sequence[Attribute]) -> tuple[int, ...]:
    first = shape_of(inputs[0])
    for index, other in enumerate(inputs[1:], start=1):
        if not compatible_shapes(first, shape_of(other)):
            raise VerifyException(
                f"expects all inputs to have compatible shapes. Shape at input-index {index} is not compatible with "
                "shape at input-index 0"
            )
    return first


def check_reducer(
    body: Block, inputs: Sequence[Attribute], init_values: Sequence[Attribute], allowed: Sequence[int]
) -> list[Attribute]:
    """Check a body, whose arguments may have dimensions of sizes in `allowed`. Returns the types that it returns."""
    count = len(inputs)
    arguments = [argument.type for argument in body.args]
    if len(arguments) != 2 * count:
        raise VerifyException(
            f"Reduction-region must take {2 * count} parameters, but takes {len(arguments)} parameter(s)"
        )
    returned = list(body.last_op.operand_types) if body.last_op is not None else []
    if not returned:
        raise VerifyException("The reduction-region expected to return some value(s)")
    if len(returned) != count:
        raise VerifyException(
            f"Reduction-region here must produce {count} tensors, but produces {len(returned)} instead"
        )
    for found in (*returned, *arguments):
        if not isinstance(found, TensorType):
            raise VerifyException(
                f"Reduction-region here must produce tensor-typed result(s), but produces '{found}' instead"
            )
    for index in range(count):
        _check_accumulator(index, returned[index], (arguments[index], arguments[count + index]), count)
        _check_init_value(index, returned[index], init_values[index])
        _check_argument(index, inputs[index], arguments[count + index], count, allowed)
    return returned


def _check_accumulator(index: int, returned: Attribute, arguments: tuple[Attribute, Attribute], count: int) -> None:
    for position, argument in zip((index, count + index), arguments, strict=True):
        same_element = element_of(returned) == element_of(argument) or (
            isinstance(element_of(returned), AnyFloat) and isinstance(element_of(argument), AnyFloat)
        )
        if not same_element or not compatible_shapes(shape_of(returned), shape_of(argument)):
            raise VerifyException(
                f"The type of reduction-region's parameter at index {position} is different than the corresponding "
                f"result type: '{argument}' vs '{returned}'"
            )


def _check_init_value(index: int, returned: Attribute, init_value: Attribute) -> None:
    if not compatible_shapes(shape_of(init_value), shape_of(returned)):
        raise VerifyException(
            f"The shape of reduction-region's result type at index {index} differs from the op's corresponding "
            f"init-value type: '{returned}' vs '{init_value}'"
        )
    if not _promotable(element_of(init_value), element_of(returned)):
        raise VerifyException(
            f"The element-type of reduction-region's result type at index {index} is expected to be promotable from "
            f"the op's corresponding init-value element-type: '{returned}' vs '{init_value}'"
        )


def _check_argument(index: int, operand: Attribute, argument: Attribute, count: int, allowed: Sequence[int]) -> None:
    if not _promotable(element_of(operand), element_of(argument)):
        raise VerifyException(
            f"The element-type of reduction-region's argument at index {count + index} is expected to be promotable "
            f"from '{element_of(operand)}', but got '{element_of(argument)}'"
        )
    shape = shape_of(argument)
    if len(shape) > len(allowed):
        raise VerifyException(
            f"The rank of reduction-region's argument at index {count + index} is expected to be <= {len(allowed)}, "
            f"got {len(shape)}"
        )
    matched = 0
    for size in allowed:
        if matched < len(shape) and compatible_sizes(size, shape[matched]):
            matched += 1
    if matched != len(shape):
        raise VerifyException(
            f"The shape of reduction-region's argument at index {count + index} is not compatible with that of "
            f"reduce-op's input-parameter at index {index}"
        )


def _promotable(first: Attribute, second: Attribute) -> bool:
    """Whether one element type is promotable to another; any float type is promotable to any other."""
    if isinstance(first, AnyFloat) and isinstance(second, AnyFloat):
        return True
    if isinstance(first, IntegerType) and isinstance(second, IntegerType):
        return cast("IntegerType", first).width.data <= cast("IntegerType", second).width.data
    if isinstance(first, ComplexType) and isinstance(second, ComplexType):
        return _part_width(first) <= _part_width(second)  # pyright: ignore[reportUnknownArgumentType] (ComplexType[?])
    if isinstance(first, UniformQuantizedType) and isinstance(second, UniformQuantizedType):
        return first.expressed_type == second.expressed_type and first.storage.type.width <= second.storage.type.width
    return first == second


def _part_width(complex_type: Attribute) -> int:
    return cast("ComplexType[AnyFloat]", complex_type).element_type.bitwidth


OPS = (ReduceOp, ReduceWindowOp)
