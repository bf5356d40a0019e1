"""Models of one op with the parameters of a row, as ONNX files with QuantizeLinear and DequantizeLinear (QDQ).

Integers, scales and zero points are random, within the rules of the row. The seed depends only on the row, so a row
always has the same model. Scales have 8 significant bits, so their products are exact in f32 in any order.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from zeropoint.frontend.onnx.node import WRITTEN_AS_SUM
from zeropoint.ir.quant import Storage
from zeropoint.ir.tensors import Array
from zeropoint.targets import DATA, OUTPUT, KernelRow, KernelSignature, PortRule, Role, SameScale, port_text

BYTE = 8
OPSET, IR_VERSION = 21, 10
"""The first opset that quantizes to 16 bits, and the IR version of its files."""


@dataclass(frozen=True)
class Case:
    """The ONNX op that tests a kernel; `Sqrt Reciprocal` is one op after the other.

    `kernel` is the op that onnxruntime's optimizer replaces it by; empty if it runs the same op on integers. With
    `exported`, it does so only for the ops that our exporter writes. `constant` is the shape of a constant operand
    after the inputs. `weight` is the shape of the weight, and `channels` its dimension of output channels. `others` are
    constant operands that are not quantized, after all others. `scale` is the approximate scale of the result, if the
    row does not fix it. With `loaded` false, our importer expresses the op by other kernels. With `nonzero`, no element
    of the last input is real 0; with `positive`, all elements of the inputs are greater than 0. With `halves`, scales
    are powers of two, so that many results are in the middle of two integers. With `real`, the result is a float.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    kernel: str = ""
    constant: tuple[int, ...] = ()
    weight: tuple[int, ...] = ()
    channels: int = 0
    bias: bool = False
    condition: bool = False
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    others: tuple[Any, ...] = ()
    results: int = 1
    scale: float = 0.1
    loaded: bool = True
    nonzero: bool = False
    positive: bool = False
    exported: bool = False
    halves: bool = False
    real: bool = False


@dataclass(frozen=True)
class ModelPort:
    """A quantized operand or result. Inputs have a shape, constants their stored integers as `value`, results neither.

    `scale` and `zero_point` are numbers, or arrays along `axis`.
    """

    storage: Storage
    scale: Any
    zero_point: Any
    shape: tuple[int, ...] = ()
    value: Array | None = None
    axis: int | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of stored integers."""
        kind = self.storage.type
        name = f"{'' if kind.signed else 'u'}int{kind.width}"
        return np.dtype(getattr(ml_dtypes, name) if kind.width < 8 else name)

    def dequantized(self, stored: Array) -> Array:
        """The real values of stored integers, in f32: scale * (stored - zero_point)."""
        return (stored.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


ModelOperand = ModelPort | Array | tuple[int, ...]
"""A quantized operand, a constant that is not quantized, or the shape of an input of booleans."""


def qdq_model(
    op: str,
    operands: Sequence[ModelOperand],
    results: Sequence[ModelPort],
    attributes: Mapping[str, Any],
    element: int = TensorProto.INT64,
) -> ModelProto:
    """A model of one float op between QuantizeLinear and DequantizeLinear, with inputs x0, x1, ... and outputs y0, ...

    Without `results`, the op has one result of type `element` that is not quantized: positions, or floats.
    """
    constants: dict[str, Array] = {}
    nodes: list[NodeProto] = []
    given: list[ValueInfoProto] = []
    names: list[str] = []

    def parameters(name: str, port: ModelPort) -> list[str]:
        scale, zero_point = np.asarray(port.scale, np.float32), np.asarray(port.zero_point, port.dtype)
        constants[f"{name}_scale"], constants[f"{name}_zero"] = scale, np.broadcast_to(zero_point, scale.shape)
        return [f"{name}_scale", f"{name}_zero"]

    for index, operand in enumerate(operands):
        name = f"x{index}"
        names.append(name if not isinstance(operand, ModelPort) else f"{name}_real")
        if isinstance(operand, tuple):
            given.append(helper.make_tensor_value_info(name, TensorProto.BOOL, operand))
        elif isinstance(operand, np.ndarray):
            constants[name] = operand
        else:
            around = parameters(name, operand)
            if operand.value is None:
                given.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, operand.shape))
                nodes.append(helper.make_node("QuantizeLinear", [name, *around], [f"{name}_stored"]))
            else:
                constants[f"{name}_stored"] = operand.value.astype(operand.dtype)
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}_stored", *around], [names[-1]]))
            if operand.axis is not None:
                nodes[-1].attribute.append(helper.make_attribute("axis", operand.axis))
    ends = [f"y{index}" for index in range(len(results))] or ["y0"]
    first, *more = op.split()
    made = [f"{end}_real" for end in ends] if results else ends
    nodes.append(helper.make_node(first, names, made, name="op", **attributes))
    for after in more:
        nodes[-1].output[0] = f"{after}_operand"
        nodes.append(helper.make_node(after, [f"{after}_operand"], [f"{ends[0]}_real"], name=after))
    for end, port in zip(ends, results, strict=False):
        around = parameters(end, port)
        nodes.append(helper.make_node("QuantizeLinear", [f"{end}_real", *around], [f"{end}_stored"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{end}_stored", *around], [end]))
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    element = TensorProto.FLOAT if results else element
    outputs = [helper.make_tensor_value_info(end, element, None) for end in ends]
    graph = helper.make_graph(nodes, "g", given, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def row_id(row: KernelRow) -> str:
    """The kernel and the storage of its operands, `add-i8-i8`: names a test, and seeds the generator."""
    return "-".join(
        [row.kernel, *(port_text(rule).split()[-1 if rule.role is Role.OTHER else 1] for rule in row.inputs)]
    )


def generator(row: KernelRow) -> np.random.Generator:
    """A random generator whose seed depends only on the row."""
    return np.random.default_rng(zlib.crc32(row_id(row).encode()))


def short(random: np.random.Generator, about: float, size: int | None = None, halves: bool = False) -> Any:
    """Random scales of 8 significant bits in [p, 2p), where p is the power of two below `about`; one without `size`.

    With `halves`, all are p.
    """
    unit = 2.0 ** np.floor(np.log2(about) - 7)
    return random.integers(128, 129 if halves else 256, size) * unit


@dataclass(frozen=True)
class Built:
    """A case with the parameters of a row: operands and results of a QDQ model, and stored integers for its inputs.

    `results` is empty if the result is not quantized (positions, floats). `stored` has an entry by operand number.
    """

    case: Case
    operands: tuple[ModelOperand, ...]
    results: tuple[ModelPort, ...]
    stored: dict[int, Array]

    @property
    def proto(self) -> ModelProto:
        """The model."""
        element = TensorProto.FLOAT if self.case.real else TensorProto.INT64
        made = qdq_model(self.case.op, self.operands, self.results, self.case.attributes, element)
        if self.case.exported:
            next(node for node in made.graph.node if node.name == "op").metadata_props.add(key=WRITTEN_AS_SUM)
        return made

    @property
    def inputs(self) -> dict[str, Array]:
        """The inputs by name: real numbers that quantize to the stored integers."""

        def given(index: int, value: Array) -> Array:
            port = self.operands[index]
            return port.dequantized(value) if isinstance(port, ModelPort) else value

        return {f"x{index}": given(index, value) for index, value in self.stored.items()}


def built(row: KernelRow, case: Case, storages: Sequence[Storage], per_channel: bool = True, end: int = 0) -> Built:
    """Build a case with storage, zero points and scales that satisfy the rules of the row.

    Zero points that the row leaves free are in the middle half of the storage's range; with `end` -1 they are its
    minimum, with 1 its maximum. A scale that the row leaves free is then divided by 8, so that most results saturate,
    or multiplied by 8.
    """
    random = generator(row)
    operands: list[ModelOperand] = [case.shapes[0]] if case.condition else []
    stored: dict[int, Array] = {0: random.random(case.shapes[0]) < 0.5} if case.condition else {}
    same = isinstance(row.relation, SameScale)
    first = None
    for shape in case.shapes:
        index = len(operands)
        assert row.input_rule(index).role in DATA
        storage = storages[index]
        zero = row.input_rule(index).zero_point
        bottom, top = _stored_range(row, storage, zero)
        if zero is None:
            zero = between(random, storage.minimum, top, -1 if case.positive else end)
        port = ModelPort(storage, float(short(random, 0.05, None, case.halves)) * step(storage), zero, shape)
        if (fixed := row.fixed(index, storage)) is not None:
            port = replace(port, scale=fixed.scale, zero_point=fixed.zero_point)
        first = first or port
        operands.append(replace(first, shape=shape) if same else port)
        stored[index] = random.integers(zero + 1 if case.positive else bottom, top + 1, shape)
        if case.nonzero and shape is case.shapes[-1]:
            beside = zero + 1 if zero < top else zero - 1
            stored[index] = np.where(stored[index] == zero, beside, stored[index])
    assert first is not None
    if case.constant:
        storage = storages[len(operands)]
        value = random.integers(storage.minimum, storage.maximum + 1, case.constant)
        zero = between(random, storage.minimum, storage.maximum, end)
        operands.append(ModelPort(storage, float(short(random, 0.01)) * step(storage), zero, value=value))
    if case.weight:
        operands += contraction_constants(row, case, random, first, storages, per_channel)
    operands += [np.asarray(other) for other in case.others]
    if row.output.role is Role.OTHER or case.real:
        return Built(case, tuple(operands), (), stored)
    storage = storages[-1]
    scale = float(short(random, case.scale, None, case.halves)) * step(storage) * 8.0**end
    free = ModelPort(storage, scale, between(random, storage.minimum, storage.maximum, end))
    if (fixed := row.fixed(OUTPUT, storage)) is not None:
        free = ModelPort(storage, fixed.scale, fixed.zero_point)
    elif row.output.zero_point is not None:
        free = replace(free, zero_point=row.output.zero_point)
    result = replace(first, shape=()) if same else free
    return Built(case, tuple(operands), (result,) * case.results, stored)


def _stored_range(row: KernelRow, storage: Storage, zero: int | None) -> tuple[int, int]:
    """The least and the greatest stored integer of a row's operand with a zero point, or with one that is free.

    Without VNNI, pairs of u8 x i8 products are summed in 16 bits, which saturate: 2 * 255 * 127 > 32767. With half the
    range, the sum fits. That half is around zero points in the middle.
    """
    low, high = storage.minimum, storage.maximum
    if not row.accumulator_bits:
        return low, high
    if zero is not None and zero == storage.type.middle and storage.type.width == BYTE:
        return (low + zero) // 2, (high + zero) // 2
    return low, (low + high) // 2


def step(storage: Storage) -> float:
    """The factor for scales of storage that is not 8 bits wide, so that its real range is that of 8 bits."""
    return 2.0 ** (8 - storage.type.width)


def between(random: np.random.Generator, low: int, high: int, end: int = 0) -> int:
    """A random zero point in the middle half of a range; its minimum with `end` -1, its maximum with 1."""
    quarter = (high - low + 1) // 4
    found = int(random.integers(low + quarter, high - quarter))
    return {-1: low, 0: found, 1: high}[end]


def contraction_constants(
    row: KernelRow,
    case: Case,
    random: np.random.Generator,
    x: ModelPort,
    storages: Sequence[Storage],
    per_channel: bool,
) -> Iterator[ModelPort]:
    """Weights whose largest magnitude in each channel is 127, and a bias at scale x.scale * weight scale."""
    count, rule = case.weight[case.channels], row.inputs[1]
    assert rule.role is Role.WEIGHT
    value = random.integers(-127, 128, case.weight)
    np.moveaxis(value, case.channels, -1)[(0,) * (value.ndim - 1)] = 127
    middle = (storages[1].minimum + storages[1].maximum + 1) // 2
    zero = rule.zero_point
    if zero is None:  # the row allows any zero point: test one that is not the middle, and the lowest weight
        zero = middle - min(10, (1 << storages[1].type.width) // 8)
        value = value.clip(storages[1].minimum - zero, storages[1].maximum - zero)
        value.reshape(-1)[0] = storages[1].minimum - zero
    axis = case.channels if per_channel else None
    scale = short(random, 0.005, count if per_channel else None, case.halves)
    yield ModelPort(storages[1], scale, zero, value=value + zero, axis=axis)
    if case.bias:
        bias, axis = random.integers(-255, 256, count) * 16, 0 if per_channel else None
        assert row.inputs[2].zero_point == 0
        narrow = Storage.of("i32") if storages[2].type.width > 32 else storages[2]
        yield ModelPort(narrow, x.scale * scale, 0, value=bias, axis=axis)


def width_of(row: KernelRow) -> int:
    """The storage width of a row's result in bits; of its first operand if the result is not quantized."""
    rule = row.inputs[0] if row.output.role is Role.OTHER else row.output
    return rule.storage.type.width


def signatures(row: KernelRow) -> list[tuple[Storage, ...]]:
    """The storage of all ports, once for every storage that the row's wildcards match: the first operand's and, if it
    does not follow from that, the result's."""
    first = next(i for i, rule in enumerate(row.inputs) if rule.role in DATA)
    results = _matched(row.output) if row.output.wildcard and not row.same_storage else [None]
    asked = [(given, made) for given in _matched(row.inputs[first]) for made in results]
    found = [row.storages(KernelSignature((None,) * first + (given,) + (None,) * 3, made)) for given, made in asked]
    assert None not in found
    return [storages for storages in found if storages is not None]


def _matched(rule: PortRule) -> list[Storage]:
    """The storages that a rule matches, of the widths of its wildcard."""
    return [Storage.of(f"{sign}{width}") for width in rule.widths for sign in "ui"] if rule.wildcard else [rule.storage]
