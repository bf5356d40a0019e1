"""What upstream's op definitions say of each op: element types of operands and results, and the rules that bind them.

Source: upstream StableHLO's op definitions (operand and result constraints, traits); the sentences are upstream's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.elements import (
    ElementKind,
    TensorConstraint,
    compatible_elements,
    compatible_shapes,
)
from zeropoint.ir.tensors import element_of, shape_of


def _types(op: Operation) -> list[Attribute]:
    return [*op.operand_types, *op.result_types]


def _all_shapes_match(types: list[Attribute]) -> bool:
    first = shape_of(types[0])
    return all(compatible_shapes(first, shape_of(other)) for other in types[1:])


def _all_elements_match(types: list[Attribute]) -> bool:
    first = element_of(types[0])
    return all(compatible_elements(first, element_of(other)) for other in types[1:])


def at_least_one(op: Operation) -> None:
    """There is an operand."""
    if not op.operands:
        raise VerifyException("expected 1 or more operands, but found 0")


def same_shape(op: Operation) -> None:
    """All operands and results have one shape."""
    if not _all_shapes_match(_types(op)):
        raise VerifyException("requires the same shape for all operands and results")


def compatible_types(op: Operation) -> None:
    """All operands and results have one shape and one element type, but for scales and zero points."""
    types = _types(op)
    if not (_all_shapes_match(types) and _all_elements_match(types)):
        raise VerifyException("requires compatible types for all operands and results")


def compatible_element_types(op: Operation) -> None:
    """All operands and results have one element type, but for scales and zero points."""
    if not _all_elements_match(_types(op)):
        raise VerifyException("requires compatible element types for all operands and results")


def compatible_operand_element_types(op: Operation) -> None:
    """All operands have one element type, but for scales and zero points."""
    if not _all_elements_match(list(op.operand_types)):
        raise VerifyException("requires compatible element types for all operands")


def same_operand_elements(op: Operation) -> None:
    """All operands have one element type."""
    if len({element_of(found) for found in op.operand_types}) > 1:
        raise VerifyException("requires the same element type for all operands")


def same_element_type(op: Operation) -> None:
    """All operands and results have one element type."""
    first, *others = (element_of(found) for found in _types(op))
    if any(other != first for other in others):
        raise VerifyException("requires the same element type for all operands and results")


def same_shape_and_base(op: Operation) -> None:
    """All operands and results are tensors of one shape."""
    if not _all_shapes_match(_types(op)):
        raise VerifyException("all non-scalar operands/results must have the same shape and base type")


@dataclass(frozen=True)
class Signature:
    """One constraint per operand, of which the last holds for all that follow; one for the results; and rules.

    With `middle`, one operand stands between two groups of as many operands each.
    """

    operands: tuple[TensorConstraint, ...]
    results: TensorConstraint
    rules: tuple[Callable[[Operation], None], ...] = ()
    middle: TensorConstraint | None = None

    def operand(self, index: int, count: int) -> TensorConstraint:
        """The constraint of operand `index` of `count`."""
        if self.middle is not None and index == count // 2:
            return self.middle
        return self.operands[min(index, len(self.operands) - 1)]


_K = ElementKind
_EVERY_KIND = (_K.FLOAT, _K.BOOL, _K.INTEGER, _K.COMPLEX)
_NOT_QUANTIZED = TensorConstraint(_EVERY_KIND)
_ANY = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR))
_ANY_OR_AXIS = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR, _K.PER_AXIS))
_STATIC = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR, _K.PER_AXIS), "statically shaped tensor", is_static=True)
_BOUNDED = TensorConstraint(
    (*_EVERY_KIND, _K.PER_TENSOR, _K.PER_AXIS), "statically shaped or single bounded dimension tensor", is_static=True
)
_VARIADIC = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR), "variadic of ranked tensor")
_SCALAR = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR), "0D tensor", rank=0)
_NUMBER = TensorConstraint((_K.INTEGER, _K.FLOAT, _K.COMPLEX, _K.PER_TENSOR))
_SIGNED = TensorConstraint((_K.SIGNLESS_INTEGER, _K.FLOAT, _K.COMPLEX, _K.PER_TENSOR))
_SIGNED_REAL = TensorConstraint((_K.SIGNLESS_INTEGER, _K.FLOAT, _K.PER_TENSOR))
_FUNCTION = TensorConstraint((_K.FLOAT, _K.COMPLEX, _K.PER_TENSOR))
_REAL = TensorConstraint((_K.FLOAT, _K.PER_TENSOR))
_INTEGERS = TensorConstraint((_K.INTEGER,))
_POSITIONS = TensorConstraint((_K.ANY_INTEGER,))
_BITS = TensorConstraint((_K.BOOL, _K.INTEGER))
_PREDICATE = TensorConstraint((_K.BOOL,))
_FEATURES = TensorConstraint((_K.FLOAT, _K.PER_TENSOR), "1D tensor", rank=1)
_FREE = TensorConstraint((), is_free=True)
"""What the op's own check says something of."""
_INT32 = TensorConstraint((_K.INT32,))
_MEMREF = f" or memref of {' or '.join(kind.value for kind in (*_EVERY_KIND, _K.PER_TENSOR))} values"
_VALUES = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR), "variadic of ranked tensor", or_per_axis=True, or_token=True)
_LOOPED = TensorConstraint(
    (*_EVERY_KIND, _K.PER_TENSOR), "variadic of ranked tensor", or_per_axis=True, or_token=True, afterwards=_MEMREF
)
_KEPT = TensorConstraint((*_EVERY_KIND, _K.PER_TENSOR), "variadic of ranked tensor", or_token=True)
_FLOAT = TensorConstraint((_K.FLOAT,))
_FLOAT_OR_COMPLEX = TensorConstraint((_K.FLOAT, _K.COMPLEX))
_PART = TensorConstraint((_K.PART,))
_COMPLEX = TensorConstraint((_K.COMPLEX,))
_INDICES = TensorConstraint((_K.INTEGER,), "variadic of 0D tensor", rank=0)
_COUNTED = TensorConstraint(_NUMBER.kinds, "statically shaped tensor", is_static=True)
_QUANTIZED = TensorConstraint((_K.PER_TENSOR, _K.PER_AXIS))
_FLOAT_OR_QUANTIZED = TensorConstraint((_K.FLOAT, _K.PER_TENSOR, _K.PER_AXIS))


def _elementwise(constraint: TensorConstraint) -> Signature:
    return Signature((constraint,), constraint, (compatible_types,))


_SIGNATURES: dict[str, Signature] = {
    "stablehlo.abs": Signature((_SIGNED,), _SIGNED_REAL, (same_shape_and_base,)),
    "stablehlo.add": Signature((_ANY_OR_AXIS,), _ANY_OR_AXIS, (same_shape,)),
    "stablehlo.all_gather": Signature((_VARIADIC,), _VARIADIC),
    "stablehlo.all_reduce": Signature((_VARIADIC,), _VARIADIC),
    "stablehlo.all_to_all": Signature((_VARIADIC,), _VARIADIC),
    "stablehlo.and": _elementwise(_BITS),
    "stablehlo.atan2": _elementwise(_FUNCTION),
    "stablehlo.bitcast_convert": Signature((_ANY_OR_AXIS,), _ANY_OR_AXIS),
    "stablehlo.batch_norm_grad": Signature(
        (_REAL, _FEATURES, _FEATURES, _FEATURES, _REAL), _REAL, (compatible_element_types,)
    ),
    "stablehlo.batch_norm_inference": Signature((_REAL, _FEATURES), _REAL, (compatible_element_types,)),
    "stablehlo.batch_norm_training": Signature((_REAL, _FEATURES), _REAL, (compatible_element_types,)),
    "stablehlo.broadcast_in_dim": Signature((_ANY_OR_AXIS,), _BOUNDED, (compatible_element_types,)),
    "stablehlo.case": Signature((_INT32,), _VALUES),
    "stablehlo.cbrt": _elementwise(_FUNCTION),
    "stablehlo.ceil": _elementwise(_REAL),
    "stablehlo.cholesky": Signature((_FUNCTION,), _FUNCTION),
    "stablehlo.clamp": Signature((_ANY,), _ANY, (compatible_element_types,)),
    "stablehlo.collective_broadcast": Signature((_ANY,), _ANY, (same_element_type,)),
    "stablehlo.collective_permute": Signature((_ANY,), _ANY, (same_element_type,)),
    "stablehlo.compare": Signature((_ANY,), _PREDICATE, (compatible_operand_element_types, same_shape_and_base)),
    "stablehlo.complex": Signature((_PART,), _COMPLEX, (same_operand_elements, same_shape)),
    "stablehlo.concatenate": Signature((_VARIADIC,), _ANY, (same_element_type,)),
    "stablehlo.constant": Signature((), _STATIC),
    "stablehlo.convert": Signature((_NOT_QUANTIZED,), _NOT_QUANTIZED, (same_shape,)),
    "stablehlo.convolution": Signature((_ANY, _ANY_OR_AXIS), _ANY_OR_AXIS),
    "stablehlo.cosine": _elementwise(_FUNCTION),
    "stablehlo.count_leading_zeros": _elementwise(_INTEGERS),
    "stablehlo.divide": _elementwise(_NUMBER),
    "stablehlo.dot_general": Signature((_ANY, _ANY_OR_AXIS), _ANY_OR_AXIS),
    "stablehlo.dynamic_broadcast_in_dim": Signature((_ANY_OR_AXIS, _FREE), _ANY_OR_AXIS),
    "stablehlo.dynamic_conv": Signature((_ANY, _ANY_OR_AXIS, _FREE), _ANY_OR_AXIS),
    "stablehlo.dynamic_gather": Signature((_ANY, _POSITIONS, _FREE), _ANY),
    "stablehlo.dynamic_iota": Signature((_FREE,), _ANY),
    "stablehlo.dynamic_pad": Signature((_ANY, _SCALAR, _FREE), _ANY),
    "stablehlo.dynamic_reshape": Signature((_ANY_OR_AXIS, _FREE), _ANY_OR_AXIS),
    "stablehlo.dynamic_slice": Signature((_ANY, _INDICES), _ANY),
    "stablehlo.dynamic_update_slice": Signature((_ANY, _ANY, _INDICES), _ANY),
    "stablehlo.exponential": _elementwise(_FUNCTION),
    "stablehlo.exponential_minus_one": _elementwise(_FUNCTION),
    "stablehlo.fft": Signature((_FLOAT_OR_COMPLEX,), _FLOAT_OR_COMPLEX),
    "stablehlo.floor": _elementwise(_REAL),
    "stablehlo.gather": Signature((_ANY, _INTEGERS), _ANY),
    "stablehlo.imag": Signature((_FLOAT_OR_COMPLEX,), _FLOAT, (same_shape_and_base,)),
    "stablehlo.iota": Signature((), _COUNTED),
    "stablehlo.get_dimension_size": Signature((_ANY_OR_AXIS,), _INT32),
    "stablehlo.if": Signature((_PREDICATE,), _VALUES),
    "stablehlo.is_finite": Signature((_REAL,), _PREDICATE, (same_shape,)),
    "stablehlo.log": _elementwise(_FUNCTION),
    "stablehlo.log_plus_one": _elementwise(_FUNCTION),
    "stablehlo.logistic": _elementwise(_FUNCTION),
    "stablehlo.map": Signature((_VARIADIC,), _ANY, (at_least_one, same_shape)),
    "stablehlo.maximum": _elementwise(_ANY),
    "stablehlo.minimum": _elementwise(_ANY),
    "stablehlo.multiply": _elementwise(_ANY),
    "stablehlo.negate": _elementwise(_NUMBER),
    "stablehlo.not": _elementwise(_BITS),
    "stablehlo.optimization_barrier": Signature((_KEPT,), _KEPT),
    "stablehlo.or": _elementwise(_BITS),
    "stablehlo.pad": Signature((_ANY, _SCALAR), _ANY, (same_element_type,)),
    "stablehlo.popcnt": _elementwise(_INTEGERS),
    "stablehlo.power": _elementwise(_NUMBER),
    "stablehlo.real": Signature((_FLOAT_OR_COMPLEX,), _FLOAT, (same_shape_and_base,)),
    "stablehlo.reduce": Signature((_VARIADIC,), _VARIADIC),
    "stablehlo.reduce_scatter": Signature((_ANY,), _ANY),
    "stablehlo.reduce_precision": Signature((_REAL,), _REAL, (same_shape_and_base, compatible_types)),
    "stablehlo.reduce_window": Signature((_VARIADIC,), _VARIADIC),
    "stablehlo.remainder": _elementwise(_NUMBER),
    "stablehlo.reshape": Signature((_ANY_OR_AXIS,), _BOUNDED, (compatible_element_types,)),
    "stablehlo.reverse": Signature((_ANY,), _ANY, (same_element_type,)),
    "stablehlo.round_nearest_afz": _elementwise(_REAL),
    "stablehlo.round_nearest_even": _elementwise(_REAL),
    "stablehlo.rsqrt": _elementwise(_FUNCTION),
    "stablehlo.scatter": Signature((_VARIADIC,), _VARIADIC, middle=_POSITIONS),
    "stablehlo.select": Signature((_PREDICATE, _ANY), _ANY),
    "stablehlo.select_and_scatter": Signature((_ANY,), _ANY),
    "stablehlo.shift_left": _elementwise(_INTEGERS),
    "stablehlo.shift_right_arithmetic": _elementwise(_INTEGERS),
    "stablehlo.shift_right_logical": _elementwise(_INTEGERS),
    "stablehlo.sign": _elementwise(_SIGNED),
    "stablehlo.sine": _elementwise(_FUNCTION),
    "stablehlo.slice": Signature((_ANY,), _ANY, (same_element_type,)),
    "stablehlo.sort": Signature((_VARIADIC,), _VARIADIC, (at_least_one, same_shape)),
    "stablehlo.sqrt": _elementwise(_FUNCTION),
    "stablehlo.subtract": _elementwise(_NUMBER),
    "stablehlo.tan": _elementwise(_FUNCTION),
    "stablehlo.tanh": _elementwise(_FUNCTION),
    "stablehlo.transpose": Signature((_ANY_OR_AXIS,), _ANY_OR_AXIS, (compatible_element_types,)),
    "stablehlo.triangular_solve": Signature((_FLOAT_OR_COMPLEX,), _FLOAT_OR_COMPLEX, (compatible_element_types,)),
    "stablehlo.uniform_dequantize": Signature((_QUANTIZED,), _FLOAT, (same_shape_and_base,)),
    "stablehlo.uniform_quantize": Signature((_FLOAT_OR_QUANTIZED,), _QUANTIZED, (same_shape_and_base,)),
    "stablehlo.while": Signature((_LOOPED,), _LOOPED),
    "stablehlo.xor": _elementwise(_BITS),
}


def check_signature(op: Operation) -> None:
    """Check what the op's definition says of its types.

    Raises VerifyException.
    """
    signature = _SIGNATURES[op.name]
    for index, operand in enumerate(op.operands):
        signature.operand(index, len(op.operands)).check(operand.type, f"operand #{index}")
    for index, result in enumerate(op.results):
        signature.results.check(result.type, f"result #{index}")
    for rule in signature.rules:
        rule(op)
