"""Random programs full of conflicts, of several families of kernels, and the table that has these."""

from __future__ import annotations

import numpy as np

from solve.graphs import ACT, SPAN, TOY, Graph, row
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.tensors import shape_of
from zeropoint.targets import (
    Custom,
    FixedScale,
    Free,
    KernelRow,
    MultiplierAccumulatorScale,
    MultiplierScale,
    PortRule,
    Role,
    SameScale,
    Target,
)

I8, I16 = Storage.of("i8"), Storage.of("i16")
WIDE = PortRule(Role.ACTIVATION, I16)
WEIGHT = PortRule(Role.WEIGHT, Storage.of("i8", -127), zero_point=0, per_channel=True)
BIAS = PortRule(Role.BIAS, Storage.of("i32"), zero_point=0, per_channel=True)


def doubled(inputs, outputs):
    """QuantFn: the output has twice the scale of the input."""
    if not isinstance(inputs[0], UniformQuantizedType) or isinstance(outputs[0], UniformQuantizedType):
        return [], []
    outputs[0] = UniformQuantizedType.per_layer(inputs[0].storage, 2 * inputs[0].scale, inputs[0].zero_point)
    return [], [0]


TABLE = Target(
    "toy",
    "fixed32",
    (
        *TOY.rows,
        row("same", SameScale(), WIDE, output=WIDE),
        row("first", SameScale((0, -1)), ACT, ACT),
        row("product", MultiplierScale()),
        row("doubled", Custom(doubled, "doubled")),
        row("D", FixedScale(1 / 12800, 0), WIDE, output=WIDE),
        row("wide", Free(), WIDE, output=WIDE),
        row("narrow", Free(), WIDE),
        KernelRow("fully_connected", (ACT, WEIGHT, BIAS), ACT, MultiplierAccumulatorScale(), accumulator_bits=32),
    ),
)
PINS = [UniformQuantizedType.per_layer(I8, 1 / 64), UniformQuantizedType.per_layer(I8, 1 / 90, -3)]

KINDS = {
    "sizes": ("same", "same", "same", "free", "A", "B"),
    "widths": ("same", "same", "same", "wide", "narrow", "A", "D"),
    "groups": ("same", "first", "first", "free", "coupled", "A", "B"),
    "products": ("same", "same", "product", "dense", "centred", "A", "B"),
    "pinned": ("same", "same", "same", "pinned", "first", "B", "C"),
    "functions": ("same", "same", "same", "doubled", "A", "B"),
    "all": ("same", "same", "same", "first", "product", "dense", "centred", "pinned", "doubled", "wide", "A", "B"),
}


def mixed_graph(seed: int, family: str) -> Program:
    """A random directed graph of tensors of 2 to 8 elements, of kernels of a family; at most four groups to try."""
    random = np.random.default_rng([seed, sorted(KINDS).index(family)])
    graph = Graph(2, size=8, span=SPAN)
    values = list(graph.args)
    for kind in random.choice([k for k in KINDS[family] if k in "ABCD"] * 3, 3):
        values.append(graph.kernel(str(kind), graph.args[0], size=int(random.choice([2, 4, 8]))))
    tried = coupled = functions = 0
    for _ in range(int(random.integers(4, 9))):
        kind = str(random.choice(KINDS[family]))
        some = [values[int(i)] for i in random.integers(1, len(values), 3)]
        size = int(random.choice([n for n in (2, 4, 8) if n <= shape_of(some[0])[0]]))
        if kind in ("same", "first", "coupled", "doubled"):
            tried += 1
            if tried > (3 if family in ("all", "functions") else 4) or (kind == "doubled" and functions == 2):
                continue
        if kind == "same":
            made = graph.kernel(kind, *some[: int(random.integers(1, 4))], size=size)
        elif kind in ("first", "product"):
            made = graph.kernel(kind, *some[:2], size=size)
        elif kind == "dense":
            weight = random.normal(size=(shape_of(some[0])[0], size))
            made = graph.dense(some[0], weight, random.normal(size=size))
        elif kind == "coupled":
            coupled += 1
            first, second = (graph.coupled(value, f"key{coupled}") for value in some[:2])
            made = graph.kernel("same", first)
            values.append(graph.kernel("free", second))
        elif kind == "pinned":
            made = graph.pinned(graph.kernel("free", some[0], size=size), PINS[int(random.integers(2))])
        else:
            functions += kind == "doubled"
            made = graph.kernel(kind, some[0], size=size)
        values.append(made)
    return graph.finish(*(value for value in values[2:] if value.first_use is None))
