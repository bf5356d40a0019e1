"""Swapping independent ops of a program changes no type: ties are broken by dataflow and values, never by position."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from solve import conflicts
from solve.graphs import ACT, Graph, row
from solve.mixed_graphs import KINDS, TABLE, mixed_graph
from zeropoint.ir.annotations import FACTS, RESCALE
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program, print_program
from zeropoint.opt import parse_passes
from zeropoint.options import Options
from zeropoint.pipeline import quantize
from zeropoint.solve import is_rescale, propagate
from zeropoint.solve.propagate import is_quantized
from zeropoint.targets import Free, PortRule, Role, SameScale, Target

SEEDS = 6
NETWORKS = int(os.environ.get("ZEROPOINT_FUZZ_CASES", "4"))
SEEDS_OF = {"cpu": [*range(NETWORKS), 31], "litert": range(NETWORKS), "cpu-integer": [50064]}
"""In 31, two kernels decide the range of a value that they read; in 50064, they share a rescale."""


def shuffled(program: Program, seed: int) -> Program:
    """The program with its ops in another order, every op behind those that make what it reads."""
    random, program = np.random.default_rng(seed), program.clone()
    left = [op for op in program.entry.ops if not isinstance(op, ReturnOp)]
    placed: set[Operation] = set()
    last = program.entry.last_op
    assert last is not None
    while left:
        ready = [op for op in left if all(o.owner in placed or o.owner is program.entry for o in op.operands)]
        op = ready[int(random.integers(len(ready)))]
        op.detach()
        program.entry.insert_op_before(op, last)
        placed.add(op)
        left.remove(op)
    return program


def types(program: Program) -> dict[str, list[str]]:
    """The specs of every kernel and the facts that decided them, by its name; the reasons of all rescales."""
    found = {
        location_text(region.location) or "": [
            *map(str, region.input_specs),
            *map(str, region.output_specs),
            str(region.attributes.get(FACTS)),
        ]
        for region in regions_of(program)
        if not is_rescale(region)
    }
    found["rescales"] = sorted(str(region.attributes[RESCALE]) for region in regions_of(program) if is_rescale(region))
    return found


@pytest.mark.parametrize("family", KINDS)
def test_shuffling_independent_ops_changes_no_type_and_no_fact(family: str) -> None:
    for seed in range(SEEDS):
        program = mixed_graph(seed, family)
        expected = types(propagate(program, TABLE))
        for shuffle in range(2):
            assert types(propagate(shuffled(program, shuffle), TABLE)) == expected, f"seed {seed}, shuffle {shuffle}"


def decided(text: str, target: str) -> dict[str, list[str]]:
    program = parse_program(text)
    passes = ("fuse", "propagate", "move-rescales", "express-accumulators")
    for run in parse_passes(",".join(["simplify", *(f"{name}{{target={target}}}" for name in passes)])):
        program = run(program)
    return types(program)


@pytest.mark.parametrize("target", SEEDS_OF)
def test_shuffling_a_network_of_many_conflicts_changes_no_type_and_no_fact(target: str) -> None:
    for seed in SEEDS_OF[target]:
        steps = conflicts.steps(seed)
        outputs = conflicts.outputs_of(steps)
        expected = decided(conflicts.text(seed, steps, outputs), target)
        for shuffle in range(2):
            order = conflicts.shuffled(steps, shuffle)
            assert decided(conflicts.text(seed, order, outputs), target) == expected, f"network {seed}, {shuffle}"


def test_a_join_that_reads_the_copy_of_another_kernel_is_judged_in_the_next_round() -> None:
    long = "tensor<8x4xf32>"
    steps = (
        ("v0", "negate %ys", 0.0, 0.5),
        ("v1", "join %v0s, %ys", -2.0, 0.5),
        ("v2", "add %v1s, %v0s", -1.0, 0.5),
        ("v5", "multiply %v2s, %v0s", 0.0, 2.0),
        ("v6", "join %v5s, %v5s", -1.0, 2.0),
        ("v7", "add %v5s, %v6s", -1.0, 1.0),
        ("v8", "maximum %v7s, %v2s", 0.0, 0.5),
        ("v10", "join %ys, %v8s", -2.0, 0.5),
        ("v11", "join %v10s, %ys", 0.0, 1.0),
    )
    lines = [conflicts.stats("y", -1.0, 5.0)]
    for name, form, low, high in steps:
        op, operands = form.split(" ", 1)
        if op == "join":
            of = f"({conflicts.T}, {conflicts.T}) -> {long}"
            lines.append(f"%{name}c = stablehlo.concatenate {operands}, dim = 0 : {of}")
            lines.append(f"%{name} = stablehlo.slice %{name}c [2:6, 0:4] : ({long}) -> {conflicts.T}")
        else:
            lines.append(f"%{name} = stablehlo.{op} {operands} : {conflicts.T}")
        lines.append(conflicts.stats(name, low, high))
    body = "\n".join([*lines, f"return %v11s : {conflicts.T}"])
    found = decided(f"func.func @main(%y: {conflicts.T}) -> {conflicts.T} {{\n{body}\n}}", "cpu")
    assert found


LEAKY = """
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %slope = stablehlo.constant dense<0.1> : tensor<4x4xf32>
  %p = stablehlo.compare GE, %x, %zero : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1> loc("p")
  %m = stablehlo.multiply %x, %slope : tensor<4x4xf32> loc("m")
  %leaky = stablehlo.select %p, %x, %m : tensor<4x4xi1>, tensor<4x4xf32> loc("leaky")
  %tanh = stablehlo.tanh %x : tensor<4x4xf32> loc("tanh")
  %sum = stablehlo.add %x, %x : tensor<4x4xf32> loc("sum")
  %product = stablehlo.multiply %x, %y : tensor<4x4xf32> loc("product")
  return %leaky, %tanh, %sum, %product : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
"""


def test_shuffling_changes_no_fact_and_no_cast() -> None:
    """The ops inside of a kernel have an order of their own, by dataflow; integers of an input are cast once."""
    found: set[tuple[str, ...]] = set()
    for shuffle in range(4):
        program = parse_program(LEAKY)
        program = program if not shuffle else shuffled(program, shuffle)
        values = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
        data = [{port.name: sample for port in program.inputs} for sample in values]
        integer = quantize(program, data, Options(target="litert", effort="none")).integer
        found.add(tuple(sorted(re.sub(r"%\w+", "%", line) for line in print_program(integer).splitlines())))
    assert len(found) == 1


def test_what_a_join_costs_an_input_is_judged_in_its_own_width() -> None:
    """Another reader of the input may be wider, and may come first."""
    graph = Graph(2)
    first = graph.observed(graph.args[0], -1.0, 1.0)
    second = graph.observed(graph.args[1], -2.0, 2.0)
    wide = graph.kernel("wide", first)
    joined = graph.join("maximum", first, graph.observed(graph.kernel("free", second), -2.0, 2.0), label="joined")
    program = graph.finish(wide, joined)
    sixteen = PortRule(Role.ACTIVATION, Storage.of("i16"))
    rows = (row("wide", Free(), sixteen, output=sixteen), row("free", Free()), row("maximum", SameScale(), ACT, ACT))
    found = propagate(program, Target("wide", "fixed32", rows))
    assert all(is_quantized(region) for region in regions_of(found))
