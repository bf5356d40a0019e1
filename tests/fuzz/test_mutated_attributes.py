"""Programs of every stage whose attributes are exchanged for other well-typed ones are accepted or refused."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import numpy as np

from fuzz.attributes import Mutator, attributes_of, others
from fuzz.cases import run
from fuzz.survey import listed, survey
from zeropoint.ir.files import load_program
from zeropoint.ir.program import Program
from zeropoint.ir.text import print_program

NETWORK = """func.func @main(%x: tensor<1x4x6x6xf32> {zeropoint.name = "x"})
  -> (tensor<1x5xf32> {zeropoint.name = "y"}) {
  %s = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<[[[[0.5]], [[0.25]], [[-0.5]], [[0.1]]], [[[0.3]], [[-0.7]], [[0.2]], [[0.9]]],
    [[[0.3]], [[0.7]], [[0.2]], [[0.4]]], [[[0.3]], [[-0.7]], [[0.2]], [[0.9]]]]> : tensor<4x4x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x6x6xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x6x6xf32> loc("conv")
  %b = stablehlo.constant dense<[0.1, -0.1, 0.2, 0.0]> : tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4x6x6xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x4x6x6xf32>
  %z = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<1x4x6x6xf32>
  %3 = stablehlo.maximum %2, %z : tensor<1x4x6x6xf32> loc("relu")
  %4 = stablehlo.add %3, %x : tensor<1x4x6x6xf32> loc("sum")
  %5 = stablehlo.tanh %4 : tensor<1x4x6x6xf32> loc("act")
  %6 = stablehlo.reduce(%5 init: %s) applies stablehlo.add across dimensions = [2, 3]
    : (tensor<1x4x6x6xf32>, tensor<f32>) -> tensor<1x4xf32>
  %v = stablehlo.constant dense<[[0.5, 1.0, -1.0, 0.3, 0.1], [0.2, 2.0, 1.5, 0.1, 0.2], [1.0, 0.0, 0.0, 0.0, -0.2],
    [3.0, 1.0, 1.0, 1.0, -1.0]]> : tensor<4x5xf32>
  %7 = stablehlo.dot_general %6, %v, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x5xf32>) -> tensor<1x5xf32> loc("dense")
  return %7 : tensor<1x5xf32>
}
"""
RECIPE = """rules:
  - name: dense
    weight_bits: 4
    granularity: per_channel
  - name: sum
    range: [-1.5, 1.5]
"""
QUANTIZE = ["quantize", "float.mlir", "--data", "d.npz", "--effort", "none"]
RUN = ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz"]
READ = [
    ["explain", "m.mlir"],
    ["report", "m.mlir", "-o", "r.html", "--no-timing"],
    ["compare", "float.mlir", "m.mlir", "--data", "d.npz", "--layers"],
    [*RUN, "--engine", "interp"],
    [*RUN, "--engine", "native"],
]
INTEGER = [
    *READ,
    ["explain", "m.mlir", "--ranges"],
    ["explain", "m.mlir", "--native"],
    ["compile", "m.mlir", "-o", "m.o"],
]


def passed(passes: str) -> list[str]:
    """Passes on the program."""
    return ["opt", "m.mlir", "-p", passes, "-o", "p.mlir"]


KERNELS = [*READ, passed("lower,merge-sums,fold-bounds"), passed("integer-program,group,layout")]
STAGES: dict[str, list[list[str]]] = {
    "1-fused": [passed("instrument"), passed("split-channels,propagate,materialize"), passed("unfuse"), *READ[:2]],
    "2-calibrated": [
        *([passed("propagate,move-rescales,split-composites,express-accumulators,materialize")] * 3),
        *(passed("propagate{target=litert},move-rescales{target=litert},materialize"), passed("equalize"), *READ[:2]),
    ],
    "3-propagated": [*([passed("move-rescales,express-accumulators,materialize")] * 3), passed("check-kernels"), *READ],
    "5-quantized": [*KERNELS, ["export", "m.mlir", "-o", "m.stablehlo.mlir"]],
    "6-integer": [*INTEGER, passed("group,layout"), passed("lower-to-loops"), passed("lower-to-standard")],
    "grouped": [*INTEGER, passed("layout")],
    "laid": INTEGER,
    "litert": [*KERNELS, *([["export", "m.mlir", "-o", "m.tflite"]] * 3), passed("channels-last")],
    "onnxruntime": [
        *(*KERNELS, ["export", "m.mlir", "-o", "m.onnx"]),
        ["export", "m.mlir", "-o", "m.onnx", "--onnx-format", "qoperator"],
    ],
    "tosa": [*KERNELS, *([["export", "m.mlir", "-o", "m.tosa.mlir"]] * 3)],
}
"""The commands that read a program of each stage."""


@functools.cache
def programs(stage: str) -> Program:
    """The program of a stage, in the working folder."""
    return load_program(Path(f"{stage}.mlir"))


def attribute_case(choose: random.Random) -> list[str]:
    stage = choose.choice(list(STAGES))
    program = programs(stage).clone()
    mutator = Mutator(attributes_of([programs(stage)]), choose)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        mutator.mutate(program)
    generic = choose.random() < 0.7
    try:
        text = print_program(program, locations=True, generic=generic, inline_weights=True, names=True)
    except Exception:  # a printer may assume what the verifier checks
        text = print_program(program, locations=True, generic=True, inline_weights=False)
    Path("m.mlir").write_text(text, encoding="utf-8")
    return [*choose.choice(STAGES[stage]), "--max-memory", "512M"]


def prepare() -> None:
    """The programs, in the working folder. Every command ran once without a mutation, so all imports are done."""
    Path("float.mlir").write_text(NETWORK)
    Path("r.yaml").write_text(RECIPE)
    np.savez("d.npz", x=np.random.default_rng(0).normal(size=(2, 1, 4, 6, 6)).astype(np.float32))
    assert run([*QUANTIZE, "--recipe", "r.yaml", "--save-stages", ".", "-o", "q.mlir"]) == ("accepted", "")
    for target in ("litert", "onnxruntime", "tosa"):
        made = ["--target", target, "--emit", "kernels", "-o", f"{target}.mlir"]
        assert run([*QUANTIZE, *made]) == ("accepted", "")
    assert run(["opt", "6-integer.mlir", "-p", "group", "-o", "grouped.mlir"]) == ("accepted", "")
    assert run(["opt", "grouped.mlir", "-p", "layout", "-o", "laid.mlir"]) == ("accepted", "")
    for stage, commands in STAGES.items():
        text = print_program(programs(stage), locations=True, generic=True, inline_weights=True, names=True)
        Path("m.mlir").write_text(text)
        # Each once. The list repeats some, so that they are chosen more often.
        for command in dict.fromkeys(map(tuple, commands)):
            assert run(list(command))[0] in ("accepted", "refused"), (stage, command)
    others()


def test_mutated_attributes_are_accepted_or_refused() -> None:
    bugs = survey("attributes", attribute_case, prepare, 15)
    assert not bugs, listed(bugs)
