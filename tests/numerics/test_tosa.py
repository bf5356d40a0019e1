"""Upstream MLIR's lowering of tosa.apply_scale, compiled and run, gives the bits of tosa-double."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour
from zeropoint.numerics.rounding import tosa_apply_scale_32

pytest.importorskip("torch_mlir", reason="torch-mlir carries upstream MLIR, the oracle")

PIPELINE = (
    "builtin.module(func.func(tosa-to-arith{{include-apply-rescale=true use-32-bit={narrow}}}),"
    "convert-arith-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts)"
)


def compiled(rounding: str, narrow: bool):
    """apply_scale of one value, as machine code. Both of upstream's expansions: in 64 bits, and in 32."""
    from torch_mlir import ir, passmanager
    from torch_mlir.execution_engine import ExecutionEngine

    context = ir.Context()
    module = ir.Module.parse(
        f"""
        func.func @apply(%value: i32, %multiplier: i32, %shift: i8) -> i32 attributes {{llvm.emit_c_interface}} {{
          %0 = tosa.apply_scale %value, %multiplier, %shift {{rounding_mode = {rounding}}} : (i32, i32, i8) -> i32
          return %0 : i32
        }}""",
        context,
    )
    pipeline = PIPELINE.format(narrow=str(narrow).lower())
    passmanager.PassManager.parse(pipeline, context).run(module.operation)
    engine = ExecutionEngine(module)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("_mlir_ciface_apply"))
    slots = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int8(), ctypes.c_int32()
    packed = (ctypes.c_void_p * 4)(*(ctypes.addressof(slot) for slot in slots))

    def apply(value: int, multiplier: int, shift: int) -> int:
        slots[0].value, slots[1].value, slots[2].value = value, multiplier, shift
        function(ctypes.addressof(packed))
        return slots[3].value

    return engine, apply


@pytest.mark.parametrize("rounding", ["SINGLE_ROUND", "DOUBLE_ROUND"])
@pytest.mark.parametrize("narrow", [False, True], ids=["64-bit", "32-bit"])
def test_apply_scale_equals_upstreams(rounding, narrow):
    engine, function = compiled(rounding, narrow)
    generator = np.random.default_rng(0)
    m = 2.0 ** generator.uniform(-40, 25, 4000)
    multiplier = Multiplier.of(m, RequantizeBehaviour.TOSA_DOUBLE, 8)
    multipliers, shifts = multiplier.multiplier, multiplier.shift
    assert shifts is not None
    bounds = np.minimum(2.0 ** (shifts - 1), 2.0**31) - 1
    edges = generator.choice([-1.0, 1.0, 0.0], 4000)
    values = np.where(generator.random(4000) < 0.2, edges * bounds, generator.uniform(-1, 1, 4000) * bounds)
    values = values.astype(np.int64)
    ours = tosa_apply_scale_32(values, multipliers, shifts, double_round=rounding == "DOUBLE_ROUND")
    theirs = [function(int(v), int(k), int(s)) for v, k, s in zip(values, multipliers, shifts, strict=True)]
    assert engine is not None
    assert ours.tolist() == theirs
