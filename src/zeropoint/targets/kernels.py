"""Rows of a kernel table: what one kernel of a target demands of its ports.

Source: the RFC on quantization transformations, section "Target Constraints": per (logical kernel, signature) a
relation between the quantization parameters of the ports. Columns as in the project's target notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from zeropoint.ir.quant import QuantizedType, Storage
from zeropoint.targets.signature import AtLeast, Demand, EitherSign, Signature


class Role(Enum):
    """What a port carries."""

    ACTIVATION = "act"
    WEIGHT = "weight"
    BIAS = "bias"
    CONSTANT = "const"
    """An operand of an elementwise kernel that may be a constant."""
    OTHER = "other"
    """Never quantized: indices, shapes, conditions."""


DATA = (Role.ACTIVATION, Role.CONSTANT)
"""The roles whose parameters are decided by propagation; those of weights and biases follow."""
OUTPUT = -1
"""The index of the output in a group of ports."""


WIDEST_TYPE = 32
"""The bits of the widest quantized type: a bias that a kernel keeps in more is written as one of these."""


@dataclass(frozen=True)
class PortRule:
    """Storage and parameters that a kernel accepts at a port.

    `zero_point` None means any. `per_channel` means one scale per output channel; `axis` is the quantized dimension in
    the target's own layout. `wildcard` accepts every integer storage (of a width in `bits`, where that says something)
    and takes `storage` where nothing asks for another.
    """

    role: Role
    storage: Storage
    zero_point: int | None = None
    per_channel: bool = False
    axis: int | None = None
    wildcard: bool = False
    bits: tuple[int, ...] = ()

    def accepts(self, demand: Demand) -> bool:
        """Whether the port can have what is demanded of its storage; a part of the storage range is as good."""
        if demand is None:
            return True
        if isinstance(demand, AtLeast):
            return any(width >= demand.bits for width in self.widths)
        if isinstance(demand, EitherSign):
            return self.accepts(demand.storage) or self.accepts(demand.other)
        if self.wildcard:
            return demand.is_integer and (not self.bits or demand.type.width in self.bits)
        if self.storage.type.width > WIDEST_TYPE:
            return demand.type.width == WIDEST_TYPE
        within = self.storage.minimum <= demand.minimum and demand.maximum <= self.storage.maximum
        return demand.type == self.storage.type and within

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths in bits of the storage that the port accepts."""
        return (self.bits or (8, 16, 32)) if self.wildcard else (self.storage.type.width,)

    def resolve(self, demand: Demand) -> Storage:
        """The storage for a demand that the port accepts."""
        if isinstance(demand, Storage):
            return demand
        if isinstance(demand, EitherSign):
            return demand.storage if self.accepts(demand.storage) else demand.other
        if demand is None or self.storage.type.width >= demand.bits or not self.wildcard:
            return self.storage
        width = min(width for width in self.widths if width >= demand.bits)
        return Storage.of(f"{'i' if self.storage.type.signed else 'u'}{width}")


@dataclass(frozen=True)
class Free:
    """The output's parameters are its own: they come from what was observed."""


@dataclass(frozen=True)
class MultiplierScale:
    """As free; the kernel multiplies by s_1 * s_2 / s_out, a number that the profile must have room for."""


@dataclass(frozen=True)
class SameScale:
    """The ports of `group` (all data ports, where it is empty) have the same scale and zero point."""

    group: tuple[int, ...] = ()

    def __contains__(self, port: int) -> bool:
        return not self.group or port in self.group


@dataclass(frozen=True)
class FixedScale:
    """The output, or those ports that are listed, have these parameters, whatever was observed."""

    scale: float
    zero_point: int
    ports: tuple[int, ...] = (OUTPUT,)

    def __contains__(self, port: int) -> bool:
        return port in self.ports


@dataclass(frozen=True)
class MultiplierAccumulatorScale:
    """bias scale = input scale * weight scale, bias zero point 0; the output is free."""


Specs = list[QuantizedType | None]
QuantFunction = Callable[[Specs, Specs], tuple[Sequence[int], Sequence[int]]]
"""`QuantFn(inputs, outputs) -> (updated inputs, updated outputs)`: sets in the two lists what it can derive, and
returns the indices of what it set. A port that is not decided yet is None."""


@dataclass(frozen=True)
class Custom:
    """A Python function derives parameters of some ports from those of others; `name` is how the table calls it."""

    function: QuantFunction
    name: str


Relation = Free | MultiplierScale | SameScale | FixedScale | MultiplierAccumulatorScale | Custom


@dataclass(frozen=True)
class KernelRow:
    """One kernel.

    `inputs` are the rules of the operands in order; where an operand list is longer (concat), the last rule repeats,
    and an operand that is left out (no bias) takes no rule. `accumulator_bits` is the width in which products are
    summed; `intermediate` names a narrower sum that saturates, where the instruction has one. `same_storage` says that
    all wildcards take one storage. `profile` is the kernel's own rounding, where it differs from the target's.
    `checked` names the runtime version and the test that confirmed the row; empty where nobody has. `composites` are
    the names of the `stablehlo.composite` ops that the kernel covers; None where patterns make it, empty where only
    regions in the program's own text are of it.
    """

    kernel: str
    inputs: tuple[PortRule, ...]
    output: PortRule
    relation: Relation
    accumulator_bits: int | None = None
    intermediate: str = ""
    same_storage: bool = False
    profile: str = ""
    checked: str = ""
    composites: tuple[str, ...] | None = None

    def input_rule(self, index: int) -> PortRule:
        """The rule of operand `index`."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def rule(self, port: int) -> PortRule:
        """The rule of an operand, or of the output (`OUTPUT`)."""
        return self.output if port == OUTPUT else self.input_rule(port)

    def port_name(self, port: int) -> str:
        """What messages call a port: its role and, where several have that, which: `weight`, `output`, `input 1`."""
        if port == OUTPUT:
            return "output"
        role = self.input_rule(port).role
        if role in (Role.WEIGHT, Role.BIAS):
            return role.name.lower()
        return f"input {port}" if len(self.inputs) > 1 or port else "input"

    def tied(self, index: int) -> bool:
        """Whether operand `index` has the parameters of the output."""
        relation = self.relation
        return isinstance(relation, SameScale) and index in relation and OUTPUT in relation

    def storages(self, signature: Signature) -> tuple[Storage, ...] | None:
        """The storage of each port, output last; None where the row does not fit the signature.

        What the signature leaves open is the row's; a wildcard that stays open takes the row's default, or what the
        other wildcards took where they go together.
        """
        rules = [*(self.input_rule(i) for i in range(len(signature.inputs))), self.output]
        demands = [*signature.inputs, signature.output]
        if not all(rule.accepts(demand) for rule, demand in zip(rules, demands, strict=True)):
            return None
        chosen = [rule.resolve(demand) for rule, demand in zip(rules, demands, strict=True)]
        if self.same_storage:
            return self._one_storage(rules, demands, chosen)
        return tuple(chosen)

    def _one_storage(
        self, rules: Sequence[PortRule], demands: Sequence[Demand], chosen: list[Storage]
    ) -> tuple[Storage, ...] | None:
        asked = [s for rule, demand, s in zip(rules, demands, chosen, strict=True) if rule.wildcard and demand]
        if not asked:
            return tuple(chosen)
        shared = max(asked, key=lambda storage: storage.type.width)
        for rule, demand in zip(rules, demands, strict=True):
            if rule.wildcard and (not rule.accepts(shared) or (isinstance(demand, Storage) and demand != shared)):
                return None
        return tuple(shared if rule.wildcard else s for rule, s in zip(rules, chosen, strict=True))


@dataclass(frozen=True)
class Target:
    """A target: its kernels, the first row that fits wins, and the numerics profile it computes with."""

    name: str
    profile: str
    rows: tuple[KernelRow, ...]
    description: str = ""
    real_results: bool = False
    """Whether contractions can give floats, from their accumulators: what only floats read is then never rounded to
    storage, and a sum that only floats read is left to them."""
    least_sqnr: float = 0.0
    """How many dB of its own variance the result of a function has to keep where only what it reads is rounded: where
    the values that calibration saw leave less, the function and what makes its operand are wider, or float. 0: nothing
    is looked at."""
    scale_type: str = "f64"
    """The type in which the runtime keeps scales: parameters are chosen such that it holds them exactly.
    `power_of_two` where it shifts instead of multiplying."""
    bounds: frozenset[tuple[float, float]] | None = None
    """The bounds that kernels of sums and products take in behind them. None: any, as of kernels that clamp what they
    make to any two integers."""

    @cached_property
    def composites(self) -> Mapping[str, str]:
        """The kernel of each composite that a row names."""
        return {name: row.kernel for row in reversed(self.rows) for name in row.composites or ()}

    @cached_property
    def by_kernel(self) -> Mapping[str, tuple[KernelRow, ...]]:
        """The rows of each kernel, in the order of the table."""
        found: dict[str, tuple[KernelRow, ...]] = {}
        for row in self.rows:
            found[row.kernel] = (*found.get(row.kernel, ()), row)
        return found

    def row(self, kernel: str, signature: Signature | None = None) -> KernelRow | None:
        """The first row of a logical kernel that fits; None where the target has none."""
        for row in self.by_kernel.get(kernel, ()):
            if signature is None or row.storages(signature) is not None:
                return row
        return None
