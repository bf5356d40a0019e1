"""Swapping independent ops of a program changes no type: ties are broken by dataflow and values, never by position."""

from __future__ import annotations

import os

import numpy as np
import pytest
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from solve import conflicts
from solve.mixed_graphs import KINDS, TABLE, mixed_graph
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.opt import parse_passes
from zeropoint.solve import is_rescale, propagate
from zeropoint.solve.check import regions_of

SEEDS = 6
NETWORKS = int(os.environ.get("ZEROPOINT_FUZZ_CASES", "4"))


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
    """The specs of every kernel, by its name."""
    return {
        location_text(region.location) or "": [*map(str, region.input_specs), *map(str, region.output_specs)]
        for region in regions_of(program)
        if not is_rescale(region)
    }


@pytest.mark.parametrize("family", KINDS)
def test_shuffling_independent_ops_changes_no_type(family: str) -> None:
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


@pytest.mark.parametrize("target", ["cpu", "litert"])
def test_shuffling_a_network_of_many_conflicts_changes_no_type(target: str) -> None:
    for seed in range(NETWORKS):
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
