"""Sums of products of floats: native code gives the interpreter's bits on every instruction set, in every form."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, seed
from xdsl.dialects.builtin import TensorType, f32, f64
from xdsl.ir import SSAValue

from codegen import contractions
from codegen.emulation import EVERYWHERE
from codegen.exactness import HERE, assert_native_is_exact
from property_cases import CASES, some
from random_networks import Case, cases
from zeropoint.codegen.kernels.batched import Batched
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.depthwise_floats import FloatDepthwise
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    MaximumOp,
    NegateOp,
)
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.simplify import simplify

ROWS = pytest.mark.parametrize("name", EVERYWHERE)
Shape = tuple[int, ...]


def _with_specials(random: np.random.Generator, shape: Shape) -> Array:
    found = random.normal(size=shape)
    chosen = random.random(shape) < 0.02
    return np.where(chosen, random.choice([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-45, 3e38], shape), found)


INPUTS: dict[str, Callable[[np.random.Generator, Shape], Array]] = {
    "normal": lambda r, shape: r.normal(size=shape),
    "infinities, NaN, zeros": _with_specials,
    "products in the middle of two f32": lambda r, shape: r.choice(
        [1.0, 2.0**-12 * (1 + 2.0**-23), -(2.0**-24)], shape
    ),
    "subnormal products": lambda r, shape: r.normal(size=shape) * 2.0 ** r.uniform(-80, -60, shape),
    "sums that overflow": lambda r, shape: r.normal(size=shape) * 2.0 ** r.uniform(60, 66, shape),
}


class Sums:
    """A random program of one sum of products, of f32 unless `wide`, and what may follow it."""

    def __init__(self, number: int, values: str, *, wide: bool = False):
        self.random = np.random.default_rng(number)
        self.values, self.element, self.dtype = INPUTS[values], f64 if wide else f32, np.float64 if wide else np.float32

    def array(self, shape: Shape) -> Array:
        return self.values(self.random, shape).astype(self.dtype)

    def some(self, *choices: int) -> int:
        return int(self.random.choice(choices))

    def sample(self, net: contractions.Builder) -> dict[str, Array]:
        return {f"x{n}": self.array(shape_of(value)) for n, value in enumerate(net.values)}

    def ended(self, net: contractions.Builder, y: SSAValue, axis: int) -> SSAValue:
        """A bias, a residual value, a relu, or not."""
        if self.some(0, 1):
            bias = np.where(self.random.random(shape_of(y)[axis]) < 0.3, -0.0, self.array(shape_of(y)[axis : axis + 1]))
            y = net.insert(
                AddOp(y, net.insert(BroadcastInDimOp(net.constant(bias.astype(self.dtype)), y.type, [axis])))
            )
        if shape_of(y) == shape_of(net.values[0]) and self.some(0, 1):
            y = net.insert(AddOp(y, net.values[0]))
        if self.some(0, 1):
            zero = net.insert(BroadcastInDimOp(net.constant(np.array(0.0, self.dtype)), y.type, []))
            y = net.insert(MaximumOp(y, zero))
        return y

    def convolution(self, form: str) -> contractions.Case:
        groups = {"dense": 1, "grouped": self.some(2, 3)}.get(form, 0)
        inputs = self.some(1, 3, 4, 17, 33) * max(groups, 1)
        outputs = inputs if form in ("depthwise", "transposed depthwise") else self.some(1, 8, 17, 40) * max(groups, 1)
        groups = groups or (1 if form == "transposed" else inputs)
        kernel, dilation = [self.some(1, 2, 3) for _ in range(2)], [self.some(1, 1, 2) for _ in range(2)]
        factor = [self.some(1, 2, 3) if "transposed" in form else 1 for _ in range(2)]
        stride = [1 if "transposed" in form else self.some(1, 1, 2) for _ in range(2)]
        pads = [(self.some(0, 1, 2), self.some(0, 1)) for _ in range(2)]
        size = [self.some(5, 9), self.some(5, 14)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        padded = [(n - 1) * by + 1 + sum(pair) for n, by, pair in zip(size, factor, pads, strict=True)]
        result = [(n - k) // s + 1 for n, k, s in zip(padded, reach, stride, strict=True)]
        net = contractions.Builder([(1, inputs, *size)], 0, self.element)
        y = net.insert(ConvolutionOp(
            net.values[0], net.constant(self.array((outputs, inputs // groups, *kernel))),
            TensorType(self.element, (1, outputs, *result)), ConvolutionLayout.channels_first(2), window_strides=stride,
            padding=pads, lhs_dilation=factor, rhs_dilation=dilation, feature_group_count=groups,
        ))  # fmt: skip
        return contractions.Case(net.finish(self.ended(net, y, 1)), [self.sample(net)])

    def product(self) -> contractions.Case:
        """Rows times a constant matrix."""
        rows, terms, columns = self.some(1, 2, 13), self.some(1, 7, 64, 300), self.some(1, 5, 16, 70)
        net = contractions.Builder([(rows, terms)], 0, self.element)
        weights = net.constant(self.array((terms, columns)))
        y = DotGeneralOp(
            net.values[0], weights, TensorType(self.element, (rows, columns)), DotDimensions((), (), (1,), (0,))
        )
        return contractions.Case(net.finish(self.ended(net, net.insert(y), 1)), [self.sample(net)])

    def batches(self) -> contractions.Case:
        """Products of two activations, either of them in either order of its dimensions."""
        batch, rows, terms, columns = self.some(1, 3), self.some(1, 9), self.some(1, 6, 40), self.some(1, 16, 33)
        first, second = self.some(1, 2), self.some(1, 2)
        shapes = [(batch, rows, terms) if first == 2 else (batch, terms, rows),
                  (batch, columns, terms) if second == 2 else (batch, terms, columns)]  # fmt: skip
        net = contractions.Builder(shapes, 0, self.element)
        dims = DotDimensions((0,), (0,), (first,), (second,))
        y = net.insert(DotGeneralOp(*net.values, TensorType(self.element, (batch, rows, columns)), dims))
        return contractions.Case(net.finish(net.insert(NegateOp(y)) if self.some(0, 1) else y), [self.sample(net)])


FORMS: dict[str, Callable[[Sums], contractions.Case]] = {
    **{
        form: lambda sums, form=form: sums.convolution(form)
        for form in ("dense", "grouped", "depthwise", "transposed", "transposed depthwise")
    },
    "product": Sums.product,
    "batches": Sums.batches,
}
KERNELS = {"depthwise": FloatDepthwise, "transposed depthwise": FloatDepthwise, "batches": Batched}


def case_of(form: str, seed: int, number: int) -> contractions.Case:
    return FORMS[form](Sums(seed + number, list(INPUTS)[(seed + number) % len(INPUTS)]))


@pytest.mark.parametrize("form", FORMS)
def test_sums_of_products_are_the_interpreters(form: str) -> None:
    kernels: set[type] = set()
    for number in range(CASES or len(INPUTS)):
        case = case_of(form, 0, number)
        assert_native_is_exact(case.program, case.samples, HERE[0], threads=(2,))
        kernels |= {type(step.kernel) for step in steps_of(case.program, HERE[0]).steps}
    assert KERNELS.get(form, Contraction) in kernels


@ROWS
@pytest.mark.parametrize("form", FORMS)
def test_sums_of_products_are_the_interpreters_on_every_instruction_set(form: str, name: str) -> None:
    """Not optimized, which takes a twentieth of the time."""
    for number in range(CASES or 2):
        case = case_of(form, zlib.crc32(f"{form} {name}".encode()), number)
        assert_native_is_exact(case.program, case.samples, EVERYWHERE[name], guarded=True)


def test_sums_of_products_without_an_instruction_for_them() -> None:
    """Optimized: steps that make up for the instruction stay what they are."""
    for number, form in enumerate(("dense", "depthwise", "batches")):
        case = case_of(form, 2, number)
        assert_native_is_exact(case.program, case.samples, replace(HERE[0], fused=False))


@pytest.mark.parametrize("form", FORMS)
def test_sums_of_products_of_f64_are_the_interpreters(form: str) -> None:
    for number, values in enumerate(("normal", "infinities, NaN, zeros")):
        case = FORMS[form](Sums(number, values, wide=True))
        assert Nest in {type(step.kernel) for step in steps_of(case.program, HERE[0]).steps}
        assert_native_is_exact(case.program, case.samples, HERE[0], threads=(2,))


@ROWS
def test_float_networks_are_the_interpreters(name: str) -> None:
    @seed(zlib.crc32(name.encode()))
    @some(2)
    @given(case=cases(islands=True))
    def exact(case: Case) -> None:
        assert_native_is_exact(simplify(case.program), case.samples[:1], EVERYWHERE[name], guarded=True)

    exact()
