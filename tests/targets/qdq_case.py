"""QDQ models of one op, made by the rules of a row: for runtimes that read ONNX, and for our own stages."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from oracle.qdq import Operand, Port, qdq_model
from targets.confirmation import row_id
from zeropoint.frontend import load_model
from zeropoint.fuse import fuse
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage
from zeropoint.simplify import simplify
from zeropoint.solve import move_rescales, propagate
from zeropoint.targets import DATA, FixedScale, KernelRow, Role, SameScale, Signature, target


@dataclass(frozen=True)
class Case:
    """One op that a kernel of the table stands for.

    `kernel` is the op that the optimizer puts there, the same op on integers where it is empty. `scale` is about that
    of the result, where it is free. `loaded` is false where our importer does not know the op.
    `steps` is by how many storage steps the runtime's result may differ from ours; `why` says why it does.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    kernel: str = ""
    weight: tuple[int, ...] = ()
    channels: int = 0
    bias: bool = False
    condition: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    others: tuple[Any, ...] = ()
    results: int = 1
    scale: float = 0.1
    loaded: bool = True
    steps: int = 0
    why: str = ""


def generator(row: KernelRow) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(row_id(row).encode()))


def short(random: np.random.Generator, about: float, size: int | None = None) -> Any:
    """Scales of 8 bits: their products are exact in f32, where runtimes and we multiply in another order."""
    unit = 2.0 ** np.floor(np.log2(about) - 7)
    return random.integers(128, 256, size) * unit


@dataclass(frozen=True)
class Built:
    """A case with the parameters of a row: operands and results of a QDQ model, and stored integers for its inputs."""

    case: Case
    operands: tuple[Operand, ...]
    results: tuple[Port, ...]
    stored: dict[int, np.ndarray]

    @property
    def proto(self) -> Any:
        return qdq_model(self.case.op, self.operands, self.results, self.case.attributes)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        def given(index: int, value: np.ndarray) -> np.ndarray:
            port = self.operands[index]
            return port.dequantized(value) if isinstance(port, Port) else value

        return {f"x{index}": given(index, value) for index, value in self.stored.items()}

    def with_operand(self, index: int, **changes: Any) -> Built:
        """The same with other parameters of one operand."""
        changed = list(self.operands)
        changed[index] = replace(changed[index], **changes)
        return replace(self, operands=tuple(changed))

    def with_results(self, **changes: Any) -> Built:
        """The same with other parameters of the results."""
        return replace(self, results=tuple(replace(port, **changes) for port in self.results))


def built(row: KernelRow, case: Case, storages: Sequence[Storage], per_channel: bool = True) -> Built:
    """The case by the row's rules: storage, zero points, scales as the relation has them, weights along their axis."""
    random = generator(row)
    operands: list[Operand] = [case.shapes[0]] if case.condition else []
    stored = {0: random.random(case.shapes[0]) < 0.5} if case.condition else {}
    same = isinstance(row.relation, SameScale)
    first = None
    for shape in case.shapes:
        index = len(operands)
        assert row.input_rule(index).role in DATA
        storage = storages[index]
        # Products of bytes are summed in 16 bits that saturate where there is no VNNI; those of half the range fit.
        top = (storage.minimum + storage.maximum) // 2 if row.accumulator_bits else storage.maximum
        zero = row.input_rule(index).zero_point
        zero = between(random, storage.minimum, top) if zero is None else zero
        port = Port(storage, float(short(random, 0.05)) * step(storage), zero, shape)
        first = first or port
        operands.append(replace(first, shape=shape) if same else port)
        stored[index] = random.integers(storage.minimum, top + 1, shape)
    assert first is not None
    if case.weight:
        operands += contraction_constants(row, case, random, first, storages, per_channel)
    operands += [np.asarray(other) for other in case.others]
    storage = storages[-1]
    free = Port(
        storage, float(short(random, case.scale)) * step(storage), between(random, storage.minimum, storage.maximum)
    )
    if isinstance(row.relation, FixedScale):
        free = Port(storage, row.relation.scale, row.relation.zero_point)
    result = replace(first, shape=()) if same else free
    return Built(case, tuple(operands), (result,) * case.results, stored)


def step(storage: Storage) -> float:
    """What a scale is times, so that wider storage has the range of 8 bits."""
    return 2.0 ** (8 - storage.type.width)


def between(random: np.random.Generator, low: int, high: int) -> int:
    """A zero point in the middle half of a range."""
    quarter = (high - low + 1) // 4
    return int(random.integers(low + quarter, high - quarter))


def contraction_constants(
    row: KernelRow, case: Case, random: np.random.Generator, x: Port, storages: Sequence[Storage], per_channel: bool
) -> Iterator[Port]:
    """Weights whose greatest magnitude in each channel is 127, and a bias of the row's scale."""
    count, rule = case.weight[case.channels], row.inputs[1]
    assert rule.role is Role.WEIGHT
    value = random.integers(-127, 128, case.weight)
    np.moveaxis(value, case.channels, -1)[(0,) * (value.ndim - 1)] = 127
    middle = (storages[1].minimum + storages[1].maximum + 1) // 2
    zero = rule.zero_point
    if zero is None:  # any zero point, and the whole range
        zero = middle - 10
        value = value.clip(storages[1].minimum - zero, storages[1].maximum - zero)
        value.reshape(-1)[0] = storages[1].minimum - zero
    axis = case.channels if per_channel else None
    scale = short(random, 0.005, count if per_channel else None)
    yield Port(storages[1], scale, zero, value=value + zero, axis=axis)
    if case.bias:
        bias, axis = random.integers(-255, 256, count) * 16, 0 if per_channel else None
        assert row.inputs[2].zero_point == 0
        yield Port(storages[2], x.scale * scale, 0, value=bias, axis=axis)


def signatures(row: KernelRow) -> list[tuple[Storage, ...]]:
    """The storage of all ports, for every storage that a wildcard takes."""
    first = next(i for i, rule in enumerate(row.inputs) if rule.role in DATA)
    rule = row.inputs[first]
    asked = (
        [Storage.of(f"{sign}{width}") for width in rule.widths for sign in "ui"] if rule.wildcard else [rule.storage]
    )
    found = [row.storages(Signature((None,) * first + (storage,) + (None,) * 3)) for storage in asked]
    assert None not in found
    return [storages for storages in found if storages is not None]


def propagated(name: str, program: Program) -> Program:
    """The regions that our stages make of a float program for a target, with their types."""
    table = target(name)
    return move_rescales(propagate(fuse(simplify(program), table), table), table)


def loaded(proto: onnx.ModelProto, folder: Path) -> Program:
    """The float program of a model, with the casts that pin its types."""
    onnx.save(proto, folder / "model.onnx")
    return load_model(folder / "model.onnx")
