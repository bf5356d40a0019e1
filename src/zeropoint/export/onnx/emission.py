"""The context in which kernels are emitted: it maps values of the program to tensors of the model.

A quantized tensor holds integers. The format determines how an op reads them:

- QDQ: `DequantizeLinear` of every operand, the float op, `QuantizeLinear` of its result. Runtimes fuse these.
- QOperator: the operator on integers if ONNX or onnxruntime has one (`qoperators.py`), else QDQ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np
from onnx import numpy_helper
from xdsl.ir import Attribute, Block, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.onnx.graph import STORED, Attributes, GraphBuilder
from zeropoint.export.onnx.qoperators import MOVES, QOPERATORS, TensorParts
from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.locations import location_text, value_name
from zeropoint.ir.quant import DequantizeCastOp, QuantizeRegionOp, UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.openvino import fuses_hard_swish

WIDE_OPSET, NARROW_OPSET = 21, 21
"""The first opsets with casts to 16 bits, and with casts to 4 bits or by block."""
EXPANDED = re.compile(r"/expand(_\d+)?$")
"""The end of the name of a broadcast that this exporter wrote. Imported and written again, it keeps the name."""
CLIP = "/clip"
"""The end of the name of a clip in the kernel that computes its operand."""
NARROW = 4
"""The width in bits of integers of which a byte holds two."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model: name, element type and shape. If the type is quantized, the tensor holds integers."""

    name: str
    kind: Attribute
    shape: tuple[int, ...]

    @property
    def quantized(self) -> UniformQuantizedType | None:
        """The quantized type; None for other tensors."""
        return self.kind if isinstance(self.kind, UniformQuantizedType) else None


@dataclass
class OnnxEmission:
    """The model under construction, and the tensor of each value of the program."""

    builder: GraphBuilder
    weights: Weights
    qoperators: bool = False
    weight_form: str = "exact"
    for_openvino: bool = False
    """Whether OpenVINO runs the file. Then every cast gets a zero point constant of its own. If casts shared one,
    OpenVINO would dequantize an output in the kernel that computes it, by a fused multiply-add, and results would
    differ from (q - z) * s in the last bits."""
    tensors: dict[tuple[SSAValue, Attribute], Tensor] = field(default_factory=dict[tuple[SSAValue, Attribute], Tensor])
    made: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    reals: dict[tuple[str, Attribute], str] = field(default_factory=dict[tuple[str, Attribute], str])
    """The names of dequantized tensors. The key includes the type, because equal constants share a name even if their
    scales differ."""
    loose: dict[SSAValue, Tensor] = field(default_factory=dict[SSAValue, Tensor])
    """Operands of broadcasts, reshaped to the rank of the result. Arithmetic ops of ONNX broadcast their operands."""

    later: dict[SSAValue, Callable[[], Tensor]] = field(default_factory=dict[SSAValue, Callable[[], Tensor]])
    """Values that are written when they are first read."""
    clipped: dict[str, str] = field(default_factory=dict[str, str])
    """The tensor before each clip that is part of its kernel, by the name of the clipped tensor."""
    current: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that the op under construction and its body compute."""
    reserved: dict[str, str] = field(default_factory=dict[str, str])
    """The names that the nodes of this op will have."""

    def begin(self, op: Operation) -> None:
        """Start the emission of an op. What its nodes read is named after the nodes, with the same number."""
        self.builder.release()
        self.reserved.clear()
        self.current = {value for each in op.walk() if not isinstance(each, ConstantOp) for value in each.results}

    def name(self, value: SSAValue, without: str = "") -> str:
        """The name of a value: that of the model's node that computes it, or of the input.

        `without` is an ending that the importer gave it. A value of the op under construction has the name of its node
        in this file, which has a number if the model's name is taken.
        """
        owner = value.owner
        name = value_name(value) if isinstance(owner, Block) else location_text(owner.location) or owner.name
        name = name.removesuffix(without)
        if value not in self.current:
            return name
        if name not in self.reserved:
            self.reserved[name] = self.builder.reserve(name)
        return self.reserved[name]

    def put(self, value: SSAValue, tensor: Tensor) -> None:
        """Record the tensor of a value."""
        self.tensors[value, tensor.kind] = tensor
        self.made[value] = tensor.kind

    def put_cast(self, value: SSAValue, make: Callable[[], Tensor]) -> None:
        """Record what `make` writes. For OpenVINO, a cast that only kernels read is written when the first one reads
        it, as those of operands are, which are casts of the program after an import."""
        if self.for_openvino and all(isinstance(use.operation, QuantizeRegionOp) for use in value.uses):
            self.later[value] = make
        else:
            self.put(value, make())

    def operand(self, value: SSAValue, kind: Attribute) -> Tensor:
        """The tensor of a value in a given type: a constant, or the value cast from the type it was computed in."""
        if isinstance(value.owner, DequantizeCastOp) and element_of(value.owner.input) == kind:
            value = value.owner.input
        if value in self.later:
            self.put(value, self.later.pop(value)())
        found = self.tensors.get((value, kind))
        if found is None:
            if value in self.loose and value not in self.made:
                self.put(value, self.repeated(self.loose[value], shape_of(value), self.name(value)))
                return self.operand(value, kind)
            array = self.array(value)
            made = self.made.get(value)
            if array is not None:
                found = self.constant(array, kind, self.name(value))
            elif made is not None:
                tensor = self.tensors[value, made]
                found = self.cast(tensor, kind, tensor.name.removesuffix(STORED))
            else:
                owner = value.owner if isinstance(value.owner, Operation) else None
                raise ExportError("found a value that no exported op computes", owner)
            self.tensors[value, kind] = found
        return found

    def cast(self, tensor: Tensor, kind: Attribute, name: str) -> Tensor:
        """The tensor cast to another type by `DequantizeLinear` and `QuantizeLinear`.

        From one quantized type to another, the scale of the first op is repeated along a dimension. onnxruntime
        replaces two pairs of casts with one scale each by a pair of its own (DoubleQDQPairsRemover), which rounds once.
        """
        if tensor.kind == kind:
            return tensor
        if not isinstance(kind, UniformQuantizedType):
            return Tensor(self.real(tensor), kind, tensor.shape)
        repeated = None if self.for_openvino else _by_channel(tensor)
        return self._stored(self.real(repeated or tensor), kind, tensor.shape, name)

    def part(self, tensor: Tensor, kind: Attribute) -> Tensor:
        """An operand of a concatenation, which for OpenVINO has the type of the result.

        OpenVINO 2026.4.1 ends with a segmentation fault if a concatenation of floats is quantized twice. The cast is
        named after what it casts, as it is after an import.
        """
        if tensor.kind == kind or not self.for_openvino or not isinstance(kind, UniformQuantizedType):
            return tensor
        return self.cast(
            tensor, kind, self.builder.result(self.clipped.get(tensor.name, tensor.name).removesuffix(STORED))
        )

    def joined(self, parts: Sequence[Tensor], kind: Attribute, shape: Sequence[int], name: str, axis: int) -> Tensor:
        """The concatenation of tensors that `part` returned."""
        emitted = self.direct if self.for_openvino and isinstance(kind, UniformQuantizedType) else self.apply
        return emitted("Concat", parts, kind, shape, name, {"axis": axis})

    def is_real(self, value: SSAValue) -> bool:
        """Whether a kernel returns a float instead of its quantized type, because OpenVINO computes the next kernel in
        it."""
        maker = value.owner
        return self.for_openvino and isinstance(maker, QuantizeRegionOp) and fuses_hard_swish(maker)

    def array(self, value: SSAValue) -> Array | None:
        """The array of a constant or of a broadcast constant; None for a computed value."""
        return broadcast_array(value, self.weights)

    def constant(self, array: Array, kind: Attribute, name: str, *, shared: bool = True) -> Tensor:
        """A constant: quantized to integers if `kind` is a quantized type, else the array itself."""
        stored = stored_array(array, kind).astype(file_dtype(kind)) if isinstance(kind, UniformQuantizedType) else array
        return Tensor(self.builder.constant(name, stored, shared=shared), kind, array.shape)

    def integers(self, values: Sequence[int], name: str = "shape") -> str:
        """An i64 constant: a shape, axes, starts."""
        return self.builder.constant(name, np.asarray(values, np.int64))

    def parameters(self, kind: UniformQuantizedType, name: str) -> tuple[str, str]:
        """The scale and zero point of a type, as constants."""
        scales, points = kind.scales.astype(np.float32), kind.zero_points.astype(file_dtype(kind))
        if kind.is_per_layer:
            # A scale of shape [1] would mean one scale per channel, with one channel.
            scales, points = scales.reshape(()), points.reshape(())
        # With the option session.x64quantprecision, onnxruntime rejects weights that share a zero point constant.
        own = kind.is_per_channel or self.for_openvino
        return (
            self.builder.constant(f"{name}_scale", scales),
            self.builder.constant(f"{name}_zero_point", points, shared=not own),
        )

    def real(self, tensor: Tensor) -> str:
        """The name of the dequantized tensor. All readers share one `DequantizeLinear`."""
        kind = tensor.quantized
        if kind is None:
            return tensor.name
        if (tensor.name, kind) not in self.reals:
            stem = tensor.name.removesuffix(STORED)
            self.reals[tensor.name, kind] = made = self.builder.unique(f"{stem}_dequantized")
            inputs = [tensor.name, *self.parameters(kind, stem)]
            self.builder.node("DequantizeLinear", inputs, [made], made, self._layout(kind))
        return self.reals[tensor.name, kind]

    def real_by_channel(self, value: SSAValue) -> Tensor | None:
        """A value with one scale, dequantized by a `DequantizeLinear` that repeats the scale along a dimension.

        None for other values, and for values of one element.
        """
        if isinstance(value.owner, DequantizeCastOp):
            value = value.owner.input
        made = self.made.get(value)
        if not isinstance(made, UniformQuantizedType) or not made.is_per_layer:
            return None
        repeated = _by_channel(self.tensors[value, made])
        return None if repeated is None else Tensor(self.real(repeated), made.expressed_type, repeated.shape)

    def _stored(self, real: str, kind: UniformQuantizedType, shape: tuple[int, ...], name: str) -> Tensor:
        made = self.builder.stored(name)
        inputs = [real, *self.parameters(kind, made.removesuffix(STORED))]
        self.builder.node("QuantizeLinear", inputs, [made], made, self._layout(kind))
        return self._within(Tensor(made, kind, shape), name)

    def _within(self, tensor: Tensor, name: str) -> Tensor:
        """The integers clipped to the storage range of the type, if that is not the full range of the integers."""
        kind = tensor.quantized
        if kind is None or kind.storage.is_full_range:
            return tensor
        ends = [np.array(end, file_dtype(kind)) for end in (kind.storage.minimum, kind.storage.maximum)]
        limits = [self.builder.constant("bound", end) for end in ends]
        return self.direct("Clip", [tensor], kind, tensor.shape, f"{name}/storage", extra=limits)

    def clip(self, tensor: Tensor, limits: Sequence[str], name: str) -> Tensor:
        """A tensor clipped in the kernel that computes it. `limits` are the names of two constants."""
        made = self.direct("Clip", [tensor], tensor.kind, tensor.shape, name, extra=limits)
        self.clipped[made.name] = tensor.name
        return made

    def _layout(self, kind: UniformQuantizedType) -> Attributes:
        if kind.storage.type.width == 16:
            self.builder.needs(WIDE_OPSET)
        if kind.storage.type.width < 8:
            self.builder.needs(NARROW_OPSET)
        if kind.blocks is not None:
            self.builder.needs(NARROW_OPSET)
            # ONNX supports blocks along one axis. Along all other axes the block size is 1.
            axis, size = max(kind.blocks, key=lambda pair: pair[1])
            return {"axis": axis, "block_size": size}
        return {} if kind.axis is None else {"axis": kind.axis}

    def apply(
        self,
        op: str,
        inputs: Sequence[Tensor],
        kind: Attribute,
        shape: Sequence[int],
        name: str,
        attributes: Attributes | None = None,
        extra: Sequence[str] = (),
    ) -> Tensor:
        """Emit an op with a result of the given type. `extra` are the names of other inputs, such as shapes and axes.

        Quantized operands and results are cast, or the QOperator of the op is emitted.
        """
        shape = tuple(shape)
        if self.qoperators and isinstance(kind, UniformQuantizedType):
            found = self._qoperator(op, inputs, kind, shape, name, attributes or {}, extra)
            if found is not None:
                return found
        named, result = self._result(name)
        self.builder.node(op, [*map(self.real, inputs), *extra], [result], named, attributes)
        if not isinstance(kind, UniformQuantizedType):
            return Tensor(result, kind, shape)
        return self._stored(result, kind, shape, named)

    def _result(self, name: str) -> tuple[str, str]:
        """The names of a node and of its tensor, which differ only if an output has the name of the node."""
        named = self.builder.result(name)
        return named, self.builder.unique(named) if named in self.builder.promised else named

    def direct(
        self,
        op: str,
        inputs: Sequence[Tensor],
        kind: Attribute,
        shape: Sequence[int],
        name: str,
        attributes: Attributes | None = None,
        extra: Sequence[str] = (),
    ) -> Tensor:
        """Emit an op that reads and writes stored integers, without casts."""
        named, made = self._result(name)
        if isinstance(kind, UniformQuantizedType):
            made = self.builder.stored(named)
        self.builder.node(op, [*(tensor.name for tensor in inputs), *extra], [made], named, attributes)
        return Tensor(made, kind, tuple(shape))

    def _qoperator(
        self,
        op: str,
        inputs: Sequence[Tensor],
        kind: UniformQuantizedType,
        shape: tuple[int, ...],
        name: str,
        attributes: Attributes,
        extra: Sequence[str],
    ) -> Tensor | None:
        rule = QOPERATORS.get(op)
        # Ops that only move elements work on the integers directly, because casts around them would only cost time.
        if op in MOVES and all(tensor.kind == kind for tensor in inputs):
            return self.direct(op, inputs, kind, shape, name, attributes, extra)
        if rule is None or any(tensor.quantized is None for tensor in inputs) or kind.storage.type.width != 8:
            return None
        parts = [
            TensorParts(tensor.name, *self.parameters(quantized, tensor.name.removesuffix(STORED)))
            for tensor in inputs
            if (quantized := tensor.quantized) is not None
        ]
        named = self.builder.result(name)
        made = self.builder.stored(named)
        node = rule.make(parts, TensorParts(made, *self.parameters(kind, named)))
        changed = {**attributes, **rule.attributes(self.builder.opset)}
        self.builder.node(rule.name, node, [made], named, changed, rule.domain)
        return self._within(Tensor(made, kind, shape), name)

    def reshaped(self, tensor: Tensor, shape: Sequence[int], name: str) -> Tensor:
        """The same elements in another shape."""
        if tuple(shape) == tensor.shape:
            return tensor
        constant, kind = self.builder.constants.get(tensor.name), tensor.quantized
        if constant is not None and (kind is None or kind.is_per_layer):
            array = numpy_helper.to_array(constant).reshape(shape)
            return Tensor(self.builder.constant(f"{name}/reshape", array), tensor.kind, tuple(shape))
        return self.apply("Reshape", [tensor], tensor.kind, shape, f"{name}/reshape", extra=[self.integers(shape)])

    def transposed(self, tensor: Tensor, order: Sequence[int], name: str) -> Tensor:
        """The transposed tensor; the tensor itself if the order is the identity."""
        if list(order) == sorted(order):
            return tensor
        shape = [tensor.shape[axis] for axis in order]
        return self.apply("Transpose", [tensor], tensor.kind, shape, f"{name}/transpose", {"perm": list(order)})

    def padded(self, tensor: Tensor, padding: Sequence[tuple[int, int]], name: str, value: float = 0.0) -> Tensor:
        """The tensor with a constant concatenated at both ends of each dimension.

        Runtimes have integer kernels for concatenation, but not for `Pad`. Of a `Pad` along one dimension, OpenVINO
        makes one that pads with another number.
        """
        for axis, (low, high) in enumerate(padding):
            before, after = (
                [self._filled((*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]), tensor.kind, value, name)]
                if size
                else []
                for size in (low, high)
            )
            if before or after:
                shape = (*tensor.shape[:axis], tensor.shape[axis] + low + high, *tensor.shape[axis + 1 :])
                parts = [*before, tensor, *after]
                tensor = self.joined(parts, tensor.kind, shape, f"{name}/padded", axis)
        return tensor

    def _filled(self, shape: Sequence[int], kind: Attribute, value: float, name: str) -> Tensor:
        return self.constant(np.full(shape, value, np.float32), kind, f"{name}/padding")

    def repeated(self, tensor: Tensor, shape: Sequence[int], name: str) -> Tensor:
        """The tensor with dimensions of size 1 repeated to `shape`."""
        if tuple(shape) == tensor.shape:
            return tensor
        named = name if EXPANDED.search(name) else f"{name}/expand"
        return self.apply("Expand", [tensor], tensor.kind, shape, named, extra=[self.integers(shape)])


def file_dtype(kind: UniformQuantizedType) -> np.dtype[np.generic]:
    """The dtype of stored integers in the file, including ONNX's 4-bit types."""
    storage = kind.storage.type
    if storage.width == NARROW:
        return np.dtype(ml_dtypes.int4 if storage.signed else ml_dtypes.uint4)
    return storage.dtype


def _by_channel(tensor: Tensor) -> Tensor | None:
    """The tensor with its one scale repeated along its shortest dimension. None for other types and for one element."""
    made = tensor.quantized
    if made is None or not made.is_per_layer:
        return None
    size, axis = min(((size, axis) for axis, size in enumerate(tensor.shape) if size > 1), default=(0, 0))
    if not size:
        return None
    kind = UniformQuantizedType.per_channel(
        made.storage, axis, [made.scale] * size, [made.zero_point] * size, expressed_type=made.expressed_type
    )
    return replace(tensor, kind=kind)
