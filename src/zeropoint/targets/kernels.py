"""Rows of a kernel table. A row states what a kernel of a target requires of its ports.

Source: the RFC on quantization transformations, section "Target Constraints": for each (logical kernel, signature), a
relation between the quantization parameters of the ports. The columns are those of the project's target notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from zeropoint.ir.quant import QuantizedType, Storage, UniformQuantizedType
from zeropoint.targets.signature import NIBBLE, AtLeast, Demand, EitherSign, KernelSignature, in_four_bits


class Role(Enum):
    """The role of a port."""

    ACTIVATION = "act"
    WEIGHT = "weight"
    BIAS = "bias"
    CONSTANT = "const"
    """An operand of an elementwise kernel that may be a constant."""
    OTHER = "other"
    """Never quantized: indices, shapes, conditions."""


DATA = (Role.ACTIVATION, Role.CONSTANT)
"""The roles whose parameters propagation decides. The parameters of weights and biases follow from these."""
OUTPUT = -1
"""The index of the first result in a group of ports. Result n has index `~n`: -1, -2, ..."""


def port_label(port: int) -> str:
    """A port in the syntax of tables: `0`, `1` for operands, `out`, `out1` for results."""
    return str(port) if port >= 0 else "out" if port == OUTPUT else f"out{~port}"


WIDEST_TYPE = 32
"""The width of the widest quantized type in bits. A bias that a kernel stores in more bits has this width in the IR."""


@dataclass(frozen=True)
class PortRule:
    """The storage and the parameters that a kernel accepts at a port.

    `zero_point` None means any. `per_channel` allows one scale per output channel, and `blocks` one per block of a
    channel's terms. `axis` is the quantized dimension in the target's own layout. `wildcard` accepts every integer
    storage, or only the widths in `bits` if given; `storage` is then the default.
    """

    role: Role
    storage: Storage
    zero_point: int | None = None
    per_channel: bool = False
    axis: int | None = None
    wildcard: bool = False
    bits: tuple[int, ...] = ()
    blocks: bool = False

    def accepts(self, demand: Demand) -> bool:
        """Whether the port accepts a demand on its storage. It also accepts a subrange of its storage."""
        if demand is None:
            return True
        if isinstance(demand, AtLeast):
            return any(width >= demand.bits for width in self.widths)
        if isinstance(demand, EitherSign):
            return self.accepts(demand.storage) or self.accepts(demand.other)
        if self.storage.type == NIBBLE.type:
            demand = in_four_bits(demand)
        if self.wildcard:
            return demand.is_integer and (not self.bits or demand.type.width in self.bits)
        if self.storage.type.width > WIDEST_TYPE:
            return demand.type.width == WIDEST_TYPE
        within = self.storage.minimum <= demand.minimum and demand.maximum <= self.storage.maximum
        return demand.type == self.storage.type and within

    @property
    def widths(self) -> tuple[int, ...]:
        """The storage widths in bits that the port accepts."""
        return (self.bits or (8, 16, 32)) if self.wildcard else (self.storage.type.width,)

    def resolve(self, demand: Demand) -> Storage:
        """The storage that satisfies a demand. The port must accept the demand."""
        if isinstance(demand, Storage):
            return in_four_bits(demand) if self.storage.type == NIBBLE.type else demand
        if isinstance(demand, EitherSign):
            return demand.storage if self.accepts(demand.storage) else demand.other
        if demand is None or self.storage.type.width >= demand.bits or not self.wildcard:
            return self.storage
        width = min(width for width in self.widths if width >= demand.bits)
        return Storage.of(f"{'i' if self.storage.type.signed else 'u'}{width}")


@dataclass(frozen=True)
class Free:
    """The output has its own parameters, from its observed range."""


@dataclass(frozen=True)
class MultiplierScale:
    """Like `Free`, but the kernel multiplies by s_1 * s_2 / s_out, which must be in the range that the profile
    supports."""


@dataclass(frozen=True)
class SameScale:
    """The ports of `group` (all data ports if empty) have the same scale and zero point. `fixed` fixes other ports."""

    group: tuple[int, ...] = ()
    fixed: FixedScale | None = None

    def __contains__(self, port: int) -> bool:
        return not self.group or port in self.group


@dataclass(frozen=True)
class FixedScale:
    """The listed ports (default: the first result) always have these parameters. `others` fix further ports."""

    scale: float
    zero_point: int
    ports: tuple[int, ...] = (OUTPUT,)
    others: tuple[FixedScale, ...] = ()

    @property
    def parts(self) -> tuple[FixedScale, ...]:
        """One relation for each scale and zero point."""
        return (replace(self, others=()), *self.others)

    def __contains__(self, port: int) -> bool:
        return any(port in part.ports for part in self.parts)


@dataclass(frozen=True)
class MultiplierAccumulatorScale:
    """The scale of the bias is input scale * weight scale, and its zero point is 0. The output is free."""


PortTypes = list[QuantizedType | None]
QuantFunction = Callable[[PortTypes, PortTypes], tuple[Sequence[int], Sequence[int]]]
"""`QuantFn(inputs, outputs) -> (updated inputs, updated outputs)`.

It sets the types that it can derive in the two lists, and returns the indices that it set. `zeropoint.solve.functions`
describes the types that it gets.
"""


@dataclass(frozen=True)
class Custom:
    """A Python function derives the parameters of some ports from those of others. `name` is its name in the table."""

    function: QuantFunction
    name: str


Relation = Free | MultiplierScale | SameScale | FixedScale | MultiplierAccumulatorScale | Custom


@dataclass(frozen=True)
class KernelRow:
    """A row: one kernel with its requirements.

    - `inputs`: the rules of the operands in order. If there are more operands (concat), the last rule repeats. An
      operand may be missing (no bias).
    - `output`, `more_outputs`: the rule of the first result, and those of the others. If there are more results
      (split), the last rule repeats.
    - `accumulator_bits`: the width in which products are summed.
    - `pair_bits`: the width in which the products of two adjacent terms are added first, with saturation.
    - `intermediate`: a narrower sum, for information.
    - `steps_per_term`: a kernel that sums has result scales of at least 1 / (`steps_per_term` * terms).
    - `segments`: the number of equal parts of a 16-bit operand's range in which a function is interpolated.
    - `nonzero`: the number of an operand in which the kernel refuses zeros.
    - `activation_scales`: `per_row` if the kernel rounds rows of 16-bit activations to 8 bits (`numerics.row_scales`).
    - `recurrent`: only for kernels of a recurrence (`solve/widths/recurrences.py`) and for types that the model pins.
    - `pinned`: only for types that the model pins.
    - `same_storage`: requires one storage for all wildcards.
    - `profile`: the kernel's own rounding, if it differs from the target's.
    - `checked`: the runtime version and the test that confirmed the row; empty if unconfirmed.
    - `composites`: the names of the `stablehlo.composite` ops that the kernel covers. None for kernels made by fusion
      patterns; empty if only regions in the program's text use the kernel.
    """

    kernel: str
    inputs: tuple[PortRule, ...]
    output: PortRule
    relation: Relation
    accumulator_bits: int | None = None
    pair_bits: int | None = None
    intermediate: str = ""
    same_storage: bool = False
    profile: str = ""
    checked: str = ""
    composites: tuple[str, ...] | None = None
    more_outputs: tuple[PortRule, ...] = ()
    steps_per_term: int | None = None
    segments: int | None = None
    nonzero: int | None = None
    activation_scales: str = ""
    recurrent: bool = False
    pinned: bool = False

    @cached_property
    def outputs(self) -> tuple[PortRule, ...]:
        """The rules of the results in order."""
        return (self.output, *self.more_outputs)

    @cached_property
    def requires_zero_points(self) -> bool:
        """Whether activations must have a zero point that the row states."""
        return any(rule.role in DATA and rule.zero_point is not None for rule in self.inputs)

    def input_rule(self, index: int) -> PortRule:
        """The rule of operand `index`."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def rule(self, port: int) -> PortRule:
        """The rule of an operand or, for a negative index, of a result."""
        return self.input_rule(port) if port >= 0 else self.outputs[min(~port, len(self.outputs) - 1)]

    def port_name(self, port: int) -> str:
        """The name of a port in messages: its role, with its number if several ports have the role (`output`, `input
        1`)."""
        if port < 0:
            return "output" if port == OUTPUT and not self.more_outputs else f"output {~port}"
        role = self.input_rule(port).role
        if role in (Role.WEIGHT, Role.BIAS):
            return role.name.lower()
        return f"input {port}" if len(self.inputs) > 1 or port else "input"

    def shares(self, first: int, second: int) -> bool:
        """Whether two ports have the same scale and zero point."""
        return isinstance(self.relation, SameScale) and first in self.relation and second in self.relation

    @cached_property
    def tied_output(self) -> int | None:
        """The index of the first result that shares its parameters with other ports; None if there is none."""
        results = (~number for number, rule in enumerate(self.outputs) if rule.role is not Role.OTHER)
        return next((port for port in results if self.shares(port, port)), None)

    def tied(self, index: int) -> bool:
        """Whether operand `index` has the parameters of a result."""
        output = self.tied_output
        return output is not None and self.shares(index, output)

    def fixed(self, port: int, storage: Storage) -> UniformQuantizedType | None:
        """The type that `fixed_scale` gives a port with this storage; None if the row does not fix it."""
        found = self._fixed_part(port)
        return None if found is None else UniformQuantizedType.per_layer(storage, found.scale, found.zero_point)

    def _fixed_part(self, port: int) -> FixedScale | None:
        relation = self.relation.fixed if isinstance(self.relation, SameScale) else self.relation
        parts = relation.parts if isinstance(relation, FixedScale) else ()
        return next((part for part in parts if port in part.ports), None)

    def storages(self, signature: KernelSignature) -> tuple[Storage, ...] | None:
        """The storage of each port, by its index: results come last, in reverse order. None if the row does not fit the
        signature.

        Ports that the signature leaves open get the row's storage. An open wildcard gets its default, or with
        `same_storage` the storage of the other wildcards. A port with a fixed scale has the row's whole storage, of
        which a quantized file may state a part with another scale.
        """
        ports = [*range(len(signature.inputs)), *range(-len(signature.outputs), 0)]
        rules = [self.rule(port) for port in ports]
        demands = [*signature.inputs, *reversed(signature.outputs)]
        if not all(rule.accepts(demand) for rule, demand in zip(rules, demands, strict=True)):
            return None
        chosen = [
            rule.storage if self._fixed_part(port) and not rule.wildcard else rule.resolve(demand)
            for port, rule, demand in zip(ports, rules, demands, strict=True)
        ]
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
    """A target: its kernel rows, of which the first fitting one is used, and its numerics profile."""

    name: str
    profile: str
    rows: tuple[KernelRow, ...]
    description: str = ""
    real_results: bool = False
    """Whether contractions can return floats, dequantized from their accumulators.

    If so, a contraction that only floats read is not requantized, and a sum that only floats read stays float.
    """
    adds_words: bool = False
    """Whether a sum can add the 16-bit result of a contraction to 8 bits.

    If so, corrections may keep that result in 15 bits (`materialize/widen_terms.py`).
    """
    unrounded_results: frozenset[str] = frozenset()
    """The logical kernels, contractions, that can return floats although the target has no `real_results`.

    They do so if 8 bits are too few for a function that reads them. Otherwise their results are rounded, because a
    runtime adds the terms of float sums in an order of its own, and those of rounded values in integers (`exact_sums`).
    """
    unquantized_results: frozenset[str] = frozenset()
    """The contractions that are integer kernels although a quantized file does not quantize their result."""
    cast_kernels: frozenset[str] = frozenset()
    """The kernels that the runtime has for values with types, although no row says so: a row would demand types."""
    joins_functions: bool = False
    """Whether a contraction computes the function of its result that is cast, and a convolution also that of a residual
    sum."""
    channel_scales: bool = False
    """Whether the data of depthwise convolutions, the results of convolutions, and the operands of sums, products and
    concatenations may have a scale per channel in a quantized file."""
    least_sqnr: float = 0.0
    """The minimum SQNR of a function when only its operand is rounded, in dB of the result's variance. 0 disables the
    check.

    If the calibrated values give less, the function and the kernel that produces its operand use wider storage or
    float.
    """
    scale_type: str = "f64"
    """The type in which the runtime stores scales. Parameters are chosen to be exact in it.

    `power_of_two` is for runtimes that shift instead of multiplying.
    """
    bounds: frozenset[tuple[float, float]] | None = None
    """The clamp bounds that sum and product kernels can absorb. None means any, for kernels that clamp to arbitrary
    integers."""
    between_casts: bool = False
    """Whether the runtime makes integer kernels of what a file has between casts, and computes all else in floats."""
    fuses_products: bool = False
    """Whether the runtime's float ops add to products that are not rounded, and divide by multiplying with inverses."""
    real_biases: bool = False
    """Whether integer kernels add biases as real numbers in f32. Those that a model has as floats are not rounded."""

    @cached_property
    def composites(self) -> Mapping[str, str]:
        """The kernel of each composite that rows name."""
        return {name: row.kernel for row in reversed(self.rows) for name in row.composites or ()}

    @cached_property
    def by_kernel(self) -> Mapping[str, tuple[KernelRow, ...]]:
        """The rows of each kernel, in the order of the table, without those for recurrences."""
        return _by_kernel(row for row in self.rows if not row.recurrent and not row.pinned)

    @cached_property
    def recurrent_rows(self) -> Mapping[str, tuple[KernelRow, ...]]:
        """The rows of each kernel that are for recurrences, in the order of the table."""
        return _by_kernel(row for row in self.rows if row.recurrent)

    @cached_property
    def last_rows(self) -> Mapping[str, tuple[KernelRow, ...]]:
        """The rows of each kernel that others take precedence of outside of recurrences."""
        return _by_kernel(row for row in self.rows if row.recurrent or row.pinned)

    def adds_real(self, kernel: str, index: int) -> bool:
        """Whether operand `index` of a kernel is a bias that may be a real number."""
        rows = self.by_kernel.get(kernel, ())
        return self.real_biases and any(row.input_rule(index).role is Role.BIAS for row in rows)

    def row(self, kernel: str, signature: KernelSignature | None = None) -> KernelRow | None:
        """The first row of a logical kernel that fits the signature; None if there is none."""
        return next(self.fitting(kernel, signature), None)

    def fitting(self, kernel: str, signature: KernelSignature | None = None) -> Iterator[KernelRow]:
        """The rows of a logical kernel that fit the signature, in order of preference."""
        for row in (*self.by_kernel.get(kernel, ()), *self.last_rows.get(kernel, ())):
            if signature is None or row.storages(signature) is not None:
                yield row


def _by_kernel(rows: Iterable[KernelRow]) -> Mapping[str, tuple[KernelRow, ...]]:
    found: dict[str, tuple[KernelRow, ...]] = {}
    for row in rows:
        found[row.kernel] = (*found.get(row.kernel, ()), row)
    return found
