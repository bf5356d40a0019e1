"""Short ways to run a program in a test, by the interpreter and by StableHLO's own C++ interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program

Build = Callable[..., Operation]


def execute(text: str, *arrays: Array) -> Array | tuple[Array, ...]:
    """The result of `@main` in `text`; a tuple of them where there are several."""
    results = Interpreter(parse_program(text)).run_values([np.asarray(array) for array in arrays])
    return results[0] if len(results) == 1 else tuple(results)


def one_op(types: list[Attribute], build: Build) -> Program:
    """A program of one op, `build(*arguments)`, on arguments of the given types."""
    function = FuncOp("main", (types, []))
    op = build(*function.body.block.args)
    function.body.block.add_ops([op, ReturnOp(*op.results)])
    function.update_function_type()
    program = Program(ModuleOp([function]))
    program.module.verify()
    return program


def run_op(build: Build, types: list[Attribute], *arrays: Array) -> Array:
    """The first result of an op on arrays."""
    return Interpreter(one_op(types, build)).run_values(list(arrays))[0]


def upstream(program: Program | str, *arrays: Array) -> list[Array]:
    """What StableHLO's reference interpreter (C++) computes."""
    ir = pytest.importorskip("torch_mlir.ir", reason="torch-mlir, the oracle, is not installed")
    stablehlo = pytest.importorskip("torch_mlir._mlir_libs._stablehlo")
    text = program if isinstance(program, str) else print_program(program)
    context = ir.Context()
    stablehlo.register_dialect(context)
    module = ir.Module.parse(text, context)
    with context:
        arguments = [_elements(ir, array) for array in arrays]
        return [_array(ir, result) for result in stablehlo.eval_module(module, arguments)]


def _elements(ir, array: Array):
    array = np.ascontiguousarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        tensor = ir.RankedTensorType.get(array.shape, ir.BF16Type.get())
        return ir.DenseElementsAttr.get(array.view(np.uint16), type=tensor)
    if array.dtype == np.bool_:
        tensor = ir.RankedTensorType.get(array.shape, ir.IntegerType.get_signless(1))
        return ir.DenseElementsAttr.get(
            np.packbits(array, axis=None, bitorder="little"), type=tensor, shape=array.shape
        )
    return ir.DenseElementsAttr.get(array)


def _array(ir, elements) -> Array:
    shape = tuple(elements.type.shape)
    if elements.type.element_type == ir.BF16Type.get():
        # No buffer of this type: go through the text of the elements.
        return np.array([float(str(x).split(":")[0]) for x in elements], ml_dtypes.bfloat16).reshape(shape)
    if elements.is_splat:
        return np.full(shape, np.array(elements).reshape(-1)[0] if shape else np.array(elements))
    return np.array(elements).reshape(shape)


def assert_as_upstream(program: Program, *arrays: Array, relative: float = 0.0) -> None:
    """Exactly equal to upstream, or equal within `relative` of the greatest magnitude."""
    ours = Interpreter(program).run_values(list(arrays))
    theirs = upstream(program, *arrays)
    for our, their in zip(ours, theirs, strict=True):
        assert our.shape == their.shape
        if relative == 0.0:
            np.testing.assert_array_equal(our, their)
        else:
            scale = np.abs(np.where(np.isfinite(their), their, 0)).max(initial=0)
            np.testing.assert_allclose(our, their, rtol=relative, atol=relative * scale)


def arguments_of(values: list[SSAValue]) -> list[Attribute]:
    return [value.type for value in values]
