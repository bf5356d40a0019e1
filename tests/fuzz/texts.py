"""Texts with mutated tokens, and a small program that many cases quantize."""

from __future__ import annotations

import random
import re

from fuzz.cases import run

PROGRAM = """func.func @main(%x: tensor<1x16xf32> {{zeropoint.name = "x"}}) -> tensor<1x12xf32> {{
  %w = stablehlo.constant dense<[{weights}]> : tensor<192xf32> loc("w")
  %0 = stablehlo.reshape %w : (tensor<192xf32>) -> tensor<16x12xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
    : (tensor<1x16xf32>, tensor<16x12xf32>) -> tensor<1x12xf32> loc("dense")
  %2 = stablehlo.tanh %1 : tensor<1x12xf32> loc("act")
  return %2 : tensor<1x12xf32>
}}
""".format(weights=", ".join(str(round(0.01 * (n % 37) - 0.2, 3)) for n in range(192)))
QUANTIZE = ["quantize", "float.mlir", "--data", "good.npz", "--effort", "none", "-o", "q.mlir"]


def accepted(*arguments: str) -> None:
    assert run(list(arguments)) == ("accepted", "")


NUMBERS = (
    *("0", "-1", "1", "nan", "inf", "-inf", "1e999", "-1e-999", "99999999999999999999", "0x7fffffffffffffff", "1.5"),
    *("9" * 5000, "1_000", "0o777", "true", "null", "1979-05-27", ".nan", "-.inf", "1e", "NaN", "Infinity"),
)
OTHERS = (
    *("[", "]", "{", "}", ":", ",", "=", "'", '"', "#", "&a", "*a", "!!python/object:os.system", "<<", "|", "-", "\n"),
    *("mine", "t.toml", "../t.toml", "cpu", "litert", "act i8", "bias i32", "act i8<5:1>", "act i4 scale=0", "weight"),
    *(
        "zp=999",
        "axis=9",
        "axis=-1",
        "per_channel",
        "fixed16",
        "[[kernel]]",
        "extends",
        "dense",
        "((a|a)*)*",
        "é",
        "\0",
    ),
    *("rules", "name", "minimum", "maximum", "values", "F32", "BF16", "shape", "data_offsets", "__metadata__"),
)


def mutated(text: str, choose: random.Random) -> str:
    """A text after a few edits of its tokens."""
    tokens = re.findall(r"\s+|[\w.:/<>=-]+|.", text)
    for _ in range(choose.choice((1, 1, 2, 3, 8))):
        at = choose.randrange(len(tokens))
        match choose.randrange(6):
            case 0:
                del tokens[at]
            case 1:
                tokens[at] = choose.choice(NUMBERS)
            case 2:
                tokens[at] = choose.choice(OTHERS)
            case 3:
                tokens.insert(at, choose.choice((*NUMBERS, *OTHERS)))
            case 4:
                tokens[at] = choose.choice(tokens)
            case _:
                opened, closed = choose.choice((("[", "]"), ("{a: ", "}"), ('{"a": ', "}")))
                deep = choose.choice((3, 50, 3000))
                tokens[at] = opened * deep + tokens[at] + closed * deep
    return "".join(tokens)


WORDS = (
    *("f32", "i8", "i1", "i0", "i99999999", "index", "none", "tensor<*xf32>", "tensor<?xf32>", "tensor<f32>"),
    *("tensor<0xf32>", "tensor<9223372036854775807xf32>", "tensor<99999x99999x99999xf32>", "memref<4xf32>"),
    *("-1", "0", "99999999999999999999", "nan", "1e999", "0x7FC00000", "dense<0.0>", "dense_resource<w>", "unit"),
    *("@main", "@act", "%0", "%9", "^bb0", "{", "}", "(", ")", "<", ">", "[", "]", '"', "loc(unknown)", "\\00", "é"),
    *("stablehlo.while", "stablehlo.add", "quant.region", "func.func", "return", "!quant.uniform<i8:f32, 1.0>"),
)


def mutated_text(choose: random.Random, program: str) -> str:
    """A program after a few edits of its tokens and lines."""
    tokens = re.findall(r"\s+|[\w.@%!#^]+|.", program)
    for _ in range(choose.choice((1, 1, 2, 3, 8))):
        at = choose.randrange(len(tokens))
        match choose.randrange(6):
            case 0:
                del tokens[at]
            case 1:
                tokens[at] = choose.choice(WORDS)
            case 2:
                tokens.insert(at, choose.choice(WORDS))
            case 3:
                tokens[at] = choose.choice(tokens)
            case 4:
                tokens[at:at] = tokens[at : at + choose.randrange(30)]
            case _:
                nested = choose.choice((("[", "]"), ("(", ")"), ("tensor<", ">"), ("{", "}")))
                tokens[at] = nested[0] * 3000 + tokens[at] + nested[1] * 3000
    return "".join(tokens)
