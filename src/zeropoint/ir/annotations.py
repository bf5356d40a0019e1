"""The discardable attributes that zeropoint puts on ops: what they are called and what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

NAME = "zeropoint.name"
"""On arguments and results of `@main`: the name of the input or output in the original model."""
INDEX_SIZE = "zeropoint.index_size"
"""On an integer argument of `@main`: the size n of the dimension that it picks elements of, as token ids do of an
embedding. Its values are -n to n - 1; the original model fails for others, where StableHLO's `gather` clamps them."""
ORDER = "zeropoint.order"
"""On an argument or result of `@main` whose dimensions an exporter moved: dimension i is dimension `order[i]` of the
original model's."""
TARGET = "zeropoint.target"
"""On the module: the target that the program was quantized for."""
PROFILE = "zeropoint.profile"
"""On the module: the numerics profile that quantized ops compute with. On a region, then on the ops that it becomes:
that of a kernel which rounds in its own way."""
FACTS = "zeropoint.facts"
"""On a region, then on the op that makes its output, and on arguments of `@main`: what the value's parameters came
from, a list of facts."""
DEMANDS = "zeropoint.demands"
"""On a region: what the user's recipe demands of it, a list of facts of salience `user`: `quantize` (true, false),
`bits`, `granularity` (per_channel, per_tensor; of weights), `symmetric` (true, false; of activations), `observer`."""
FUNCTION = "zeropoint.function"
"""On a region of the kernel `elementwise_unary`: the name of its function, if it has one: gelu, hard_swish."""
FLOAT_REASON = "zeropoint.float_reason"
"""On a region, and then on its ops, that stay float: why."""
KERNEL = "zeropoint.kernel"
"""On the ops of a region that compute in float: the region's kernel."""
OF_TARGET = "zeropoint.of_target"
"""On a cast: the type is one that a target's kernel fixed, which says no more of the value than its range."""
RESCALE = "zeropoint.rescale"
"""On an op that only changes parameters: the two demands that collided."""
PINNED = "zeropoint.pinned"
"""On a constant: the quantized type whose storage integers its values are."""
RESCALE_COUNTS = "zeropoint.rescale_counts"
"""On the module: how many rescales there were before and after they were moved."""
CORRECTIONS = "zeropoint.corrections"
"""On the module: the corrections that were tried, a list of facts: what each gained, and which was kept."""
QUANTILES = "zeropoint.quantiles"
"""On a `quant.stats`: the values that split what was observed into parts of equal count, in rising order; the middles
of those parts."""
ACCUMULATOR = "zeropoint.accumulator"
"""On a contraction, and on the sum with its bias, whose result is quantized and stored in 32 bits: `i64`, the type in
which a kernel sums where 32 bits do not hold it. No quantized type is as wide. The value does not saturate."""
EXPRESSED = "zeropoint.expressed"
"""On an integer value's op, or on an argument or result: the quantized type whose storage it is."""


def carry(source: Operation, target: Operation, *names: str) -> None:
    """Copy the named attributes that `source` has."""
    for name in names:
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]


def is_wide(value: SSAValue) -> bool:
    """Whether the integers of a quantized value have 64 bits (`ACCUMULATOR`)."""
    return isinstance(value.owner, Operation) and ACCUMULATOR in value.owner.attributes


def own_profile(op: Operation) -> str | None:
    """The numerics profile of an op that does not compute with the program's; None for one that does."""
    found = op.attributes.get(PROFILE)
    return found.data if isinstance(found, StringAttr) else None


Salience = Literal["default", "calibrated", "user", "kernel"]
"""How strong a fact is, the weakest first: nothing says otherwise, observed, forced by a user, required by a kernel."""


@dataclass(frozen=True)
class Fact:
    """Something known about a value or a kernel, and who says so: `scale`, `0.5`, `calibrated`, `quant.stats 'conv1'`.

    As an attribute `{name = "scale", value = "0.5", salience = "calibrated", source = "quant.stats 'conv1'"}`.
    """

    name: str
    value: str
    salience: Salience
    source: str

    def attribute(self) -> DictionaryAttr:
        """The fact as it stands in a program."""
        entries = {"name": self.name, "value": self.value, "salience": self.salience, "source": self.source}
        return DictionaryAttr({key: StringAttr(text) for key, text in entries.items()})

    @staticmethod
    def of(attribute: Attribute) -> Fact:
        """The fact that an attribute holds. Raises KeyError if an entry is missing."""
        entries = cast("DictionaryAttr", attribute).data
        name, value, salience, source = (
            cast("StringAttr", entries[key]).data for key in ("name", "value", "salience", "source")
        )
        return Fact(name, value, cast("Salience", salience), source)


def facts_of(op: Operation, attribute: str = FACTS) -> list[Fact]:
    """The facts that an op carries under the name of an attribute."""
    listed = cast("ArrayAttr[Attribute]", op.attributes.get(attribute, ArrayAttr[Attribute]([])))
    return [Fact.of(fact) for fact in listed]


def state_facts(op: Operation, facts: Iterable[Fact], attribute: str = FACTS) -> None:
    """Put facts on an op, in place of those it had under that name."""
    op.attributes[attribute] = ArrayAttr([fact.attribute() for fact in facts])
