"""`cholesky`, `triangular_solve` and `fft`.

Source: the StableHLO specification, "cholesky" (C1 to C4), "triangular_solve" (C1 to C6), "fft" (C1 to C5); the
error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, BoolAttr, ComplexType, Float32Type, Float64Type, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array
from zeropoint.ir.stablehlo.assembly import integers_text, parse_integers
from zeropoint.ir.stablehlo.attributes import FftType, FftTypeAttr, Transpose, TransposeAttr
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_shapes, compatible_sizes
from zeropoint.ir.stablehlo.signatures import (
    FLOAT_OR_COMPLEX,
    FUNCTION,
    OpSignature,
    SignatureOp,
    compatible_element_types,
)
from zeropoint.ir.tensors import element_of, shape_of


def _sizes(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))


@irdl_op_definition
class CholeskyOp(SignatureOp):
    """The Cholesky factor of each positive definite matrix of a batch; `lower` selects the half that is used."""

    name = "stablehlo.cholesky"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((FUNCTION,), FUNCTION)
    a = operand_def()
    result = result_def()
    lower = opt_prop_def(BoolAttr)
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, lower: bool = False):
        properties = {"lower": BoolAttr.from_bool(True)} if lower else {}
        super().__init__(operands=[a], result_types=[a.type], properties=properties)

    @classmethod
    def parse(cls, parser: Parser) -> CholeskyOp:
        """Parse `%a, lower = true : type`."""
        value = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("lower")
            parser.parse_punctuation("=")
            if parser.parse_boolean():  # false is the default
                properties["lower"] = BoolAttr.from_bool(True)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        found = parser.parse_type()
        operands = parser.resolve_operands([value], [found], position)
        return cls.create(operands=operands, result_types=[found], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%a, lower = true : type`."""
        printer.print_string(" ")
        printer.print_operand(self.a)
        if self.lower is not None and self.lower.value.data:
            printer.print_string(", lower = true")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        """Check the constraints of `cholesky`."""
        super().verify_()
        shape = shape_of(self.a)
        if len(shape) < 2:
            raise VerifyException(f"argument 'a' must have rank >= 2, got shape {_sizes(shape)}.")
        if not compatible_sizes(shape[-1], shape[-2]):
            raise VerifyException(f"minor dimensions of 'a' must have equal size, got shape {_sizes(shape)}.")
        check_inferred([(shape, element_of(self.a))], self.result_types)


@irdl_op_definition
class TriangularSolveOp(SignatureOp):
    """Solves op(a) x = b, or x op(a) = b, for x, for each triangular matrix of a batch."""

    name = "stablehlo.triangular_solve"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((FLOAT_OR_COMPLEX,), FLOAT_OR_COMPLEX, (compatible_element_types,))
    a = operand_def()
    b = operand_def()
    result = result_def()
    left_side = prop_def(BoolAttr)
    lower = prop_def(BoolAttr)
    unit_diagonal = prop_def(BoolAttr)
    transpose_a = prop_def(TransposeAttr)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Check the constraints of `triangular_solve`."""
        super().verify_()
        a, b, left = shape_of(self.a), shape_of(self.b), bool(self.left_side.value.data)
        types = f"'{self.a.type}' and '{self.b.type}'"
        if len(a) < 2:
            raise VerifyException(f"operand 'a' must have rank >= 2, but got '{self.a.type}'")
        if not compatible_sizes(a[-1], a[-2]):
            raise VerifyException(f"two minor dimensions of operand 'a' must be compatible, but got '{self.a.type}'")
        if len(a) != len(b):
            raise VerifyException(f"operands must have equal rank, but got {types}")
        if not compatible_sizes(a[-1], b[-2 if left else -1]):
            raise VerifyException(f"shared dimension of operands 'a' and 'b' must be compatible, but got {types}")
        if not compatible_shapes(a[:-2], b[:-2]):
            raise VerifyException(f"batch dimensions of the operands must be compatible, but got {types}")
        if self.transpose_a.data is Transpose.INVALID:
            raise VerifyException("Invalid transpose option value for triangular solve")
        check_inferred([(b, element_of(self.b))], self.result_types)


@irdl_op_definition
class FftOp(SignatureOp):
    """The discrete Fourier transform over the last dimensions, real or complex, forward or inverse."""

    name = "stablehlo.fft"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((FLOAT_OR_COMPLEX,), FLOAT_OR_COMPLEX)
    operand = operand_def()
    result = result_def()
    fft_type = prop_def(FftTypeAttr)
    fft_length = prop_def(I64_ARRAY)
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, kind: FftType, lengths: Sequence[int]):
        shape, element = _transformed(operand.type, kind, lengths)
        super().__init__(
            operands=[operand],
            result_types=[TensorType(element, shape)],
            properties={"fft_type": FftTypeAttr(kind), "fft_length": i64_array(lengths)},
        )

    @classmethod
    def parse(cls, parser: Parser) -> FftOp:
        """Parse `%x, type = FFT, length = [4] : (type) -> type`."""
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        parser.parse_keyword("type")
        parser.parse_punctuation("=")
        kind = FftTypeAttr(parser.parse_str_enum(FftType))
        parser.parse_punctuation(",")
        parser.parse_keyword("length")
        parser.parse_punctuation("=")
        lengths = i64_array(parse_integers(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        signature = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands([value], signature.inputs.data, position),
            result_types=signature.outputs.data,
            properties={"fft_type": kind, "fft_length": lengths},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        """Print `%x, type = FFT, length = [4] : (type) -> type`."""
        printer.print_string(" ")
        printer.print_operand(self.operand)
        lengths = integers_text(array_values(self.fft_length))
        printer.print_string(f", type = {self.fft_type.data.value}, length = {lengths}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)

    def verify_(self) -> None:
        """Check the constraints of `fft`."""
        super().verify_()
        inferred = _transformed(self.operand.type, self.fft_type.data, array_values(self.fft_length))
        check_inferred([inferred], self.result_types)


def _transformed(operand: Attribute, kind: FftType, lengths: Sequence[int]) -> tuple[tuple[int, ...], Attribute]:
    """The shape and element type of a transform's result. Raises VerifyException for an invalid transform."""
    rank, shape, element = len(lengths), shape_of(operand), element_of(operand)
    if not 1 <= rank <= 3:
        raise VerifyException(f"rank must be between 1 and 3, but got {rank}.")
    if kind is FftType.RFFT and not isinstance(element, Float32Type | Float64Type):
        raise VerifyException(f"RFFT requires f32 or f64 input type, but is given '{element}'.")
    if kind is not FftType.RFFT and not isinstance(element, ComplexType):
        raise VerifyException(f"FFT/IFFT/IRFFT take a complex tensor as input, but is given '{operand}'.")
    if len(shape) < rank:
        raise VerifyException(f"operand rank must not be less than fft rank of {rank} for operand of type '{operand}'.")
    if kind is FftType.RFFT:
        if not compatible_shapes(shape[len(shape) - rank :], tuple(lengths)):
            raise VerifyException(
                f"RFFT requires innermost dimensions to be compatible with fft_length. Got: {_sizes(shape)} but wanted "
                f"{_sizes(lengths)}."
            )
        halved = lengths[-1] // 2 + 1 if lengths[-1] else 0
        return (*shape[:-1], halved), ComplexType(cast("Any", element))
    if kind is FftType.IRFFT:
        _check_inverse(shape, lengths)
        return (*shape[:-1], lengths[-1]), cast("Attribute", cast("ComplexType[Any]", element).element_type)
    return shape, cast("Attribute", element)


def _check_inverse(shape: Sequence[int], lengths: Sequence[int]) -> None:
    rank = len(lengths)
    if not compatible_shapes(tuple(shape[len(shape) - rank : -1]), tuple(lengths[:-1])):
        raise VerifyException(
            f"IRFFT requires non-final dimensions to be compatible with fft_length. Got: {_sizes(shape)} but wanted "
            f"{_sizes(lengths)}, and {_sizes(shape[len(shape) - rank : -1])} != {_sizes(lengths[:-1])}."
        )
    if shape[-1] != DYNAMIC_INDEX and shape[-1] != lengths[-1] // 2 + 1:
        raise VerifyException(
            f"IRFFT requires innermost dimension to be compatible with fft_length[-1]/2+1. Got: {shape[-1]} but "
            f"fft_length is {_sizes(lengths)}."
        )


OPS = (CholeskyOp, TriangularSolveOp, FftOp)
