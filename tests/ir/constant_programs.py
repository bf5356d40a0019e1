"""Programs of constants."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp

from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.weights import Weights


def constant_program(*arrays: np.ndarray) -> Program:
    """A program that returns constants."""
    weights = Weights()
    constants = [ConstantOp(weights.attribute(array)) for array in arrays]
    function = FuncOp("main", ([], [op.output.type for op in constants]))
    function.body.block.add_ops([*constants, ReturnOp(*(op.output for op in constants))])
    return Program(ModuleOp([function]), weights)


def constants(program: Program) -> list[np.ndarray]:
    return [program.weights.array(op.value) for op in program.module.walk() if isinstance(op, ConstantOp)]


def constant(elements: str) -> str:
    return f"func.func @main() {{\n  %0 = stablehlo.constant {elements}\n  func.return\n}}\n"
