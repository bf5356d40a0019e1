"""Programs of one fixed-point op with random parameters, and accumulators at their bounds, ties and in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp

from zeropoint.ir.constants import constant_op
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.numerics import Multiplier, RequantizeBehaviour
from zeropoint.numerics.requantize import behaviour_ranges


@dataclass(frozen=True)
class Case:
    """A requantization: its multipliers, the widths of accumulator and result, zero point and bounds."""

    multiplier: Multiplier
    accumulator_width: int
    width: int
    zero_point: int
    low: int
    high: int
    count: int = 40

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count, self.multiplier.multiplier.size, 2)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    behaviour = draw(st.sampled_from(list(RequantizeBehaviour)))
    multipliers, shifts = behaviour_ranges(behaviour)
    channels = draw(st.sampled_from([1, 1, 4]))
    wide = draw(st.booleans()) and draw(st.booleans())
    if shifts is None:
        real = st.floats(2.0**-40, min(multipliers[1], 2.0**16), allow_subnormal=False)
        dtype = np.float32 if behaviour is RequantizeBehaviour.FLOAT32_RNE else np.float64
        resolved = Multiplier(behaviour, np.array([draw(real) for _ in range(channels)], dtype))
    else:
        low, high = (int(bound) for bound in multipliers)
        factors = st.one_of(st.integers(low, high), st.sampled_from([low, high]))
        amounts = np.array([draw(st.integers(*shifts)) for _ in range(channels)], np.int64)
        numbers = np.array([draw(factors) for _ in range(channels)], np.int64)
        if behaviour is RequantizeBehaviour.FIXED32:
            numbers = np.where(amounts < 0, np.minimum(numbers, (1 << 30) - 1), numbers)
        resolved = Multiplier(behaviour, numbers, amounts)
    width = 8 if behaviour is RequantizeBehaviour.FIXED16 else draw(st.sampled_from([8, 8, 16, 32]))
    least, greatest = -(1 << (width - 1)), (1 << (width - 1)) - 1
    zero_point, one, other = (draw(st.integers(least, greatest)) for _ in range(3))
    bounds = draw(st.sampled_from([(least, greatest), (min(one, other), max(one, other))]))
    return Case(resolved, 64 if wide else 32, width, zero_point, *bounds)


def requantization(case: Case) -> Program:
    """@main: accumulators to storage integers."""
    weights, accumulator = Weights(), IntegerType(case.accumulator_width)
    function = FuncOp("main", ([TensorType(accumulator, case.shape)], []))
    arrays = (
        [case.multiplier.multiplier]
        if case.multiplier.shift is None
        else [case.multiplier.multiplier.astype(np.int32), case.multiplier.shift.astype(np.int32)]
    )
    constants = [constant_op(array, weights) for array in arrays]
    multiplier, shift = [*(constant.output for constant in constants), None][:2]
    op = RequantizeOp(
        function.body.block.args[0],
        multiplier,
        shift,
        TensorType(IntegerType(case.width), case.shape),
        behaviour=case.multiplier.behaviour.value,
        zero_point=case.zero_point,
        storage_min=case.low,
        storage_max=case.high,
        axis=1 if case.multiplier.multiplier.size > 1 else None,
    )
    function.body.block.add_ops([*constants, op, ReturnOp(op.result)])
    function.update_function_type()
    return Program(ModuleOp([function]), weights)


def accumulators(case: Case, random: np.random.Generator) -> Array:
    """Bounds, small numbers, numbers that land near the bounds of the result, ties, and any others."""
    limit = (1 << (case.accumulator_width - 1)) - 1
    count, channels = case.shape[0], case.shape[1]
    real = np.maximum(case.multiplier.real.reshape(1, channels, 1), 2.0**-62)
    wanted = random.uniform(2.0 * case.low - 3, 2.0 * case.high + 3, case.shape)
    near = np.rint(np.where(random.random(case.shape) < 0.5, np.rint(wanted * 2) / 2, wanted) / real)
    spread = random.integers(-limit, limit, case.shape, endpoint=True) >> random.integers(0, 62, case.shape)
    chosen = np.where(random.random(case.shape) < 0.5, np.clip(near, -(2.0**61), 2.0**61).astype(np.int64), spread)
    extremes = [limit, -limit, -limit - 1, limit - 1, 0, 1, -1]
    chosen[: len(extremes)] = np.array(extremes).reshape(-1, 1, 1)
    dtype = np.int32 if case.accumulator_width == 32 else np.int64
    return np.clip(chosen, -limit - 1, limit).reshape(count, channels, 2).astype(dtype)
