"""Models of one op with the parameters of a row: QDQ in ONNX, which runtimes read and our own stages take.

Integers, scales and zero points are drawn by the rules of the row from a separate generator, so a row always has the
same model. Scales have 8 significant bits, so their products are exact in f32, in any order of the multiplications.
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
from zeropoint.targets import DATA, FixedScale, KernelRow, KernelSignature, Role, SameScale, port_text

OPSET, IR_VERSION = 21, 10
"""The first opset that quantizes to 16 bits, and the IR version of its files."""


@dataclass(frozen=True)
class Case:
    """One op that a kernel of the table represents; `Sqrt Reciprocal` are two, one after the other.

    `kernel` is the op that a runtime's optimizer puts there, the same op on integers where it is empty. `constant` is
    the shape of a constant operand after the inputs. `scale` is the approximate scale of the result, if the row does
    not fix it. `loaded` is false where our importer does not have the op. With `nonzero`, no element of the last input
    is real 0; with `positive`, every element of the inputs is above it. With `exported`, only what our exporter writes
    for the op becomes that kernel.
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


@dataclass(frozen=True)
class ModelPort:
    """A quantized operand or result. An input has a shape, a constant its stored integers, a result neither."""

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
        """The f32 numbers that quantize to the given integers."""
        return (stored.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


ModelOperand = ModelPort | Array | tuple[int, ...]
"""A quantized operand, a constant that is not quantized, or the shape of an input of booleans."""


def qdq_model(
    op: str, operands: Sequence[ModelOperand], results: Sequence[ModelPort], attributes: Mapping[str, Any]
) -> ModelProto:
    """A model of one op of floats, with QuantizeLinear and DequantizeLinear around it; its inputs are x0, x1, ...

    Without `results`, the op has one result, which is not quantized: positions.
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
    element = TensorProto.FLOAT if results else TensorProto.INT64
    outputs = [helper.make_tensor_value_info(end, element, None) for end in ends]
    graph = helper.make_graph(nodes, "g", given, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def row_id(row: KernelRow) -> str:
    """`add-i8-i8`, for names of tests and for the row's generator."""
    return "-".join(
        [row.kernel, *(port_text(rule).split()[-1 if rule.role is Role.OTHER else 1] for rule in row.inputs)]
    )


def generator(row: KernelRow) -> np.random.Generator:
    """A random generator whose seed depends on the row alone."""
    return np.random.default_rng(zlib.crc32(row_id(row).encode()))


def short(random: np.random.Generator, about: float, size: int | None = None) -> Any:
    """Scales of 8 significant bits, between 1 and 2 times a power of two near `about`; an array of `size`, or one."""
    unit = 2.0 ** np.floor(np.log2(about) - 7)
    return random.integers(128, 256, size) * unit


@dataclass(frozen=True)
class Built:
    """A case with the parameters of a row: operands and results of a QDQ model, and stored integers for its inputs.

    There are no `results` if the only one is of positions.
    """

    case: Case
    operands: tuple[ModelOperand, ...]
    results: tuple[ModelPort, ...]
    stored: dict[int, Array]

    @property
    def proto(self) -> ModelProto:
        """The model."""
        made = qdq_model(self.case.op, self.operands, self.results, self.case.attributes)
        if self.case.exported:
            next(node for node in made.graph.node if node.name == "op").metadata_props.add(key=WRITTEN_AS_SUM)
        return made

    @property
    def inputs(self) -> dict[str, Array]:
        """Real numbers that are quantized to the stored integers, by name."""

        def given(index: int, value: Array) -> Array:
            port = self.operands[index]
            return port.dequantized(value) if isinstance(port, ModelPort) else value

        return {f"x{index}": given(index, value) for index, value in self.stored.items()}

    def with_operand(self, index: int, **changes: Any) -> Built:
        """The same with other parameters of one operand."""
        changed = list(self.operands)
        operand = changed[index]
        assert isinstance(operand, ModelPort)
        changed[index] = replace(operand, **changes)
        return replace(self, operands=tuple(changed))

    def with_results(self, **changes: Any) -> Built:
        """The same with other parameters of the results."""
        return replace(self, results=tuple(replace(port, **changes) for port in self.results))


def built(row: KernelRow, case: Case, storages: Sequence[Storage], per_channel: bool = True, end: int = 0) -> Built:
    """The case by the row's rules: storage, zero points, scales as the relation has them, weights along their axis.

    Free zero points are in the middle half of the storage, at its least number with `end` -1, at its greatest with 1.
    The scale of a free result is then an eighth (most of the result saturates) or eight times as large.
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
        # Products of bytes are summed in 16 bits that saturate where there is no VNNI; those of half the range fit.
        top = (storage.minimum + storage.maximum) // 2 if row.accumulator_bits else storage.maximum
        zero = row.input_rule(index).zero_point
        if zero is None:
            zero = between(random, storage.minimum, top, -1 if case.positive else end)
        port = ModelPort(storage, float(short(random, 0.05)) * step(storage), zero, shape)
        first = first or port
        operands.append(replace(first, shape=shape) if same else port)
        stored[index] = random.integers(zero + 1 if case.positive else storage.minimum, top + 1, shape)
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
    if row.output.role is Role.OTHER:
        return Built(case, tuple(operands), (), stored)
    storage = storages[-1]
    scale = float(short(random, case.scale)) * step(storage) * 8.0**end
    free = ModelPort(storage, scale, between(random, storage.minimum, storage.maximum, end))
    if isinstance(row.relation, FixedScale):
        free = ModelPort(storage, row.relation.scale, row.relation.zero_point)
    elif row.output.zero_point is not None:
        free = replace(free, zero_point=row.output.zero_point)
    result = replace(first, shape=()) if same else free
    return Built(case, tuple(operands), (result,) * case.results, stored)


def step(storage: Storage) -> float:
    """The factor of a scale for wider storage, so that it has the range of 8 bits."""
    return 2.0 ** (8 - storage.type.width)


def between(random: np.random.Generator, low: int, high: int, end: int = 0) -> int:
    """A zero point in the middle half of a range, or at one of its ends."""
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
    """Weights whose greatest magnitude in each channel is 127, and a bias of the row's scale."""
    count, rule = case.weight[case.channels], row.inputs[1]
    assert rule.role is Role.WEIGHT
    value = random.integers(-127, 128, case.weight)
    np.moveaxis(value, case.channels, -1)[(0,) * (value.ndim - 1)] = 127
    middle = (storages[1].minimum + storages[1].maximum + 1) // 2
    zero = rule.zero_point
    if zero is None:  # any zero point, and the whole range
        zero = middle - min(10, (1 << storages[1].type.width) // 8)
        value = value.clip(storages[1].minimum - zero, storages[1].maximum - zero)
        value.reshape(-1)[0] = storages[1].minimum - zero
    axis = case.channels if per_channel else None
    scale = short(random, 0.005, count if per_channel else None)
    yield ModelPort(storages[1], scale, zero, value=value + zero, axis=axis)
    if case.bias:
        bias, axis = random.integers(-255, 256, count) * 16, 0 if per_channel else None
        assert row.inputs[2].zero_point == 0
        narrow = Storage.of("i32") if storages[2].type.width > 32 else storages[2]
        yield ModelPort(narrow, x.scale * scale, 0, value=bias, axis=axis)


def width_of(row: KernelRow) -> int:
    """The width of a row's result in bits; of its operand if the result is not quantized."""
    rule = row.inputs[0] if row.output.role is Role.OTHER else row.output
    return rule.storage.type.width


def signatures(row: KernelRow) -> list[tuple[Storage, ...]]:
    """The storage of all ports, for every storage that a wildcard takes."""
    first = next(i for i, rule in enumerate(row.inputs) if rule.role in DATA)
    rule = row.inputs[first]
    asked = (
        [Storage.of(f"{sign}{width}") for width in rule.widths for sign in "ui"] if rule.wildcard else [rule.storage]
    )
    found = [row.storages(KernelSignature((None,) * first + (storage,) + (None,) * 3)) for storage in asked]
    assert None not in found
    return [storages for storages in found if storages is not None]
