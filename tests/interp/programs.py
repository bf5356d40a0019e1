"""Short ways to run a program in a test, by the interpreter and by StableHLO's own C++ interpreter."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser

from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.context import new_context
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, dtype_element
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.weights import inline_array

Build = Callable[..., Operation]


def execute(text: str, *arrays: Array) -> Array | tuple[Array, ...]:
    """The result of `@main` in `text`; a tuple of them where there are several."""
    results = Interpreter(parse_program(text)).run_values([np.asarray(array) for array in arrays])
    return results[0] if len(results) == 1 else tuple(results)


def one_op(types: Sequence[Attribute], build: Build, *, profile: str | None = None, verified: bool = True) -> Program:
    """A program of one op, `build(*arguments)`, on arguments of the given types."""
    function = FuncOp("main", (types, []))
    op = build(*function.body.block.args)
    function.body.block.add_ops([op, ReturnOp(*op.results)])
    function.update_function_type()
    program = Program(ModuleOp([function]))
    if profile is not None:
        program.module.attributes[PROFILE] = StringAttr(profile)
    if verified:
        program.module.verify()
    return program


def run_op(build: Build, types: Sequence[Attribute], *arrays: Array, profile: str | None = None) -> Array:
    """The first result of an op on arrays."""
    return Interpreter(one_op(types, build, profile=profile)).run_values(list(arrays))[0]


@functools.cache
def _register_passes(stablehlo) -> None:
    stablehlo.register_stablehlo_passes()


def upstream(program: Program | str, *arrays: Array, passes: str = "") -> list[Array]:
    """What StableHLO's reference interpreter (C++) computes; `passes` on functions go before."""
    ir = pytest.importorskip("torch_mlir.ir", reason="torch-mlir, the oracle, is not installed")
    stablehlo = pytest.importorskip("torch_mlir._mlir_libs._stablehlo")
    text = program if isinstance(program, str) else print_program(program)
    context = ir.Context()
    stablehlo.register_dialect(context)
    module = ir.Module.parse(text, context)
    if passes:
        manager = pytest.importorskip("torch_mlir.passmanager").PassManager
        _register_passes(stablehlo)
        manager.parse(f"builtin.module(func.func({passes}))", context).run(module.operation)
    with context:
        arguments = [_elements(ir, array) for array in arrays]
        return [_array(ir, result) for result in stablehlo.eval_module(module, arguments)]


def _elements(ir, array: Array):
    """The array as an attribute, through its bytes: the bindings know neither bf16 nor the rank of a scalar."""
    element_type = dtype_element(array.dtype)
    shape = "x".join([*map(str, array.shape), str(element_type)])
    return ir.Attribute.parse(f'dense<"0x{array.tobytes().hex()}"> : tensor<{shape}>')


def _array(ir, elements) -> Array:
    shape = tuple(elements.type.shape)
    if re.match(r"bf|f[468]|complex", str(elements.type.element_type)) and str(elements.type.element_type) != "f64":
        # The bindings have no buffer of these types: read the text.
        return inline_array(Parser(new_context(), str(elements)).parse_attribute())
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
