"""Contractions that only a sum reads keep 15 bits, if that helps on the samples held back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from networks import Network
from zeropoint.correct import check_methods
from zeropoint.engines import QuickestEngine
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp, MaximumOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize, widen_terms
from zeropoint.numerics.noise import decibels
from zeropoint.pipeline import Options, quantize
from zeropoint.quantization import Quantization
from zeropoint.recipe import recipe_of
from zeropoint.report.counts import count_ops

CHANNELS, SIZE, BLOCKS = 8, 6, 4
NAME = "unrounded_terms"


def network(*, relu: bool = False, read: bool = False, both: bool = False) -> Program:
    """Residual blocks of two convolutions; the last one perhaps through a relu, or read by something else as well.

    With `both`, both terms are convolutions.
    """
    net = Network([(1, CHANNELS, SIZE, SIZE)], seed=3)

    def convolution(x):
        net.layer("conv")
        kernel = net.constant(net.random.normal(0, 1, (CHANNELS, CHANNELS, 1, 1)) / CHANNELS**0.5)
        return net.insert(ConvolutionOp(x, kernel, with_shape(x, shape_of(x)), ConvolutionLayout.channels_first(2)))

    def relu_of(x):
        return net.insert(MaximumOp(x, net.splat(0.0, x)))

    x, results = convolution(net.values[0]), []
    for _ in range(BLOCKS):
        term = convolution(relu_of(convolution(x)))
        if relu:
            term = relu_of(term)
        if read:
            results.append(convolution(term))
        net.layer("sum")
        x = net.insert(AddOp(convolution(x) if both else x, term))
    return net.finish([x, *results])


def data(count: int, seed: int = 1) -> list[Mapping[str, Array]]:
    random = np.random.default_rng(seed)
    return [{"x0": random.normal(0, 1, (1, CHANNELS, SIZE, SIZE)).astype(np.float32)} for _ in range(count)]


def made(program: Program, *corrections: str, **options: Any) -> Quantization:
    return quantize(program, data(32), Options(**{"target": "cpu", **options}, corrections=corrections))


def words(program: Program) -> int:
    """How many results of regions have 15 bits."""
    specs = [region.output_specs.data[0] for region in regions_of(program)]
    kinds = [spec for spec in specs if isinstance(spec, UniformQuantizedType)]
    return sum(str(kind.storage) == "i16<-16384:16383>" for kind in kinds)


def sqnr(program: Program, exact: Program, samples: list[Mapping[str, Array]]) -> float:
    runs = [[next(iter(Interpreter(each)(one).values())) for one in samples] for each in (exact, program)]
    signal, given = (np.stack(arrays).astype(np.float64) for arrays in runs)
    return decibels(float((signal**2).sum()), float(((signal - given) ** 2).sum()))


def test_terms_of_sums_have_15_bits_and_other_data_has_less_noise() -> None:
    program = network()
    plain, found = made(program, "empirical_bias"), made(program, "empirical_bias", NAME)
    assert (words(plain.propagated), words(found.propagated)) == (0, BLOCKS)
    assert f"{NAME} kept" in found.corrections.summary()
    assert count_ops(found.integer).floats == 0
    other = data(16, seed=9)
    assert sqnr(found.integer, program, other) > sqnr(plain.integer, program, other) + 0.3
    facts = [str(op.attributes) for op in found.integer.entry.ops]
    assert any("a sum reads it" in text for text in facts)


def test_native_code_has_the_same_bits() -> None:
    found, samples = made(network(), "empirical_bias", NAME), data(4, seed=5)
    native, exact = QuickestEngine(1 << 20).prepare(found.integer), Interpreter(found.integer)
    for sample in samples:
        np.testing.assert_array_equal(next(iter(native(sample).values())), next(iter(exact(sample).values())))


def test_only_best_tries_it() -> None:
    assert NAME in check_methods("best", None)
    assert NAME not in check_methods("balanced", None)


@pytest.mark.parametrize("case", [{"relu": True}, {"read": True}], ids=str)
def test_clamped_results_and_those_that_others_read_stay_8_bits(case: dict[str, bool]) -> None:
    assert words(made(network(**case), NAME).propagated) == 0


def test_the_later_of_two_contractions_keeps_15_bits() -> None:
    program = made(network(both=True), "empirical_bias").propagated.clone()
    assert widen_terms(program) == BLOCKS
    for total in regions_of(program):
        terms = [value.owner for value in total.inputs if isinstance(value.owner, QuantizeRegionOp)]
        if isinstance(total.body.block.first_op, AddOp) and len(terms) == 2:
            kinds = [str(term.output_specs.data[0].storage) for term in terms]
            assert sorted(kinds) == ["i16<-16384:16383>", "i8"]
    count_ops(integer_program(materialize(program)))


@pytest.mark.parametrize("target", ["litert", "onnxruntime", "tosa"])
def test_targets_that_do_not_add_words_are_left_alone(target: str) -> None:
    found = made(network(), NAME, target=target)
    assert words(found.propagated) == 0
    assert found.corrections.attempts == ()


@pytest.mark.parametrize("demand", [{"symmetric": True}, {"observer": "minmax"}, {"range": [-4, 4]}], ids=str)
def test_a_result_that_a_recipe_rounds_stays_rounded(demand: dict[str, object]) -> None:
    found = made(network(), "empirical_bias", NAME, recipe=recipe_of([{"regex": ".*", **demand}]))
    assert words(found.propagated) == 0
