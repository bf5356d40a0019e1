"""Results of the program that are contractions keep their accumulators, if that helps on the samples held back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from networks import Network
from zeropoint.correct import check_methods
from zeropoint.errors import OptionError
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp, MaximumOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.text import print_program
from zeropoint.numerics.noise import decibels
from zeropoint.pipeline import Options, quantize
from zeropoint.quantization import Quantization
from zeropoint.recipe import recipe_of
from zeropoint.report.counts import count_ops

CHANNELS, SIZE = 8, 6
NAME = "unrounded_results"


def network(*, relu: bool = False, read: bool = False) -> Program:
    """Two convolutions, the second of which is the result: without bounds or through a relu; perhaps read as well."""
    net = Network([(1, CHANNELS, SIZE, SIZE)], seed=3)

    def convolution(x):
        net.layer("conv")
        kernel = net.constant(net.random.normal(0, 1, (CHANNELS, CHANNELS, 1, 1)) / CHANNELS**0.5)
        return net.insert(ConvolutionOp(x, kernel, with_shape(x, shape_of(x)), ConvolutionLayout.channels_first(2)))

    first = convolution(net.values[0])
    last = convolution(net.insert(MaximumOp(first, net.splat(0.0, first))))
    if relu:
        last = net.insert(MaximumOp(last, net.splat(0.0, last)))
    return net.finish([last, convolution(last)] if read else [last])


def data(count: int, seed: int = 1) -> list[Mapping[str, Array]]:
    random = np.random.default_rng(seed)
    return [{"x0": random.normal(0, 1, (1, CHANNELS, SIZE, SIZE)).astype(np.float32)} for _ in range(count)]


def made(program: Program, *corrections: str, **options: Any) -> Quantization:
    return quantize(program, data(16), Options("cpu", corrections=corrections, **options))


def result_types(found: Quantization) -> list[str]:
    specs = [region.output_specs.data[0] for region in regions_of(found.propagated)]
    return [str(spec.storage) for spec in specs if isinstance(spec, UniformQuantizedType)]


def of_output(program: Program, exact: Program, samples: Sequence[Mapping[str, Array]]) -> float:
    """The SQNR of the only output."""
    runs = [[next(iter(Interpreter(each)(one).values())) for one in samples] for each in (exact, program)]
    signal, given = (np.stack(arrays).astype(np.float64) for arrays in runs)
    return decibels(float((signal**2).sum()), float(((signal - given) ** 2).sum()))


def test_the_result_is_the_dequantized_accumulator_and_nothing_is_float() -> None:
    program = network()
    plain, found = made(program, "empirical_bias"), made(program, "empirical_bias", NAME)
    assert result_types(plain)[-1] == "i8"
    assert result_types(found)[-1] == "i32"
    assert f"{NAME} kept" in found.corrections.summary()
    assert f'name = "{NAME}"' in print_program(found.integer)
    assert count_ops(found.integer).floats == 0
    other = data(8, seed=9)
    assert of_output(found.integer, program, other) > of_output(plain.integer, program, other) + 1


def test_best_tries_it_and_says_that_only_the_other_method_is_fitted_again() -> None:
    found = quantize(network(), data(64), Options("cpu", effort="best", corrections=("closed_form", NAME)))
    assert found.corrections.all_kept == ("closed_form", NAME)
    assert found.corrections.summary().endswith("closed_form was fitted again to 64 samples")
    assert [fact.value.rpartition("; ")[2].partition(",")[0] for fact in found.corrections.facts()] == ["kept", "kept"]
    assert found.corrections.facts()[1].value.endswith("; kept")
    assert NAME in check_methods("best", None)
    assert NAME not in check_methods("balanced", None)


@pytest.mark.parametrize("case", [{"relu": True}, {"read": True}], ids=str)
def test_clamped_results_and_those_that_kernels_read_keep_their_storage(case: dict[str, bool]) -> None:
    found = made(network(**case), NAME)
    assert result_types(found)[1] == "i8"
    if "relu" in case:  # nothing to try it on
        assert found.corrections.attempts == ()
        assert found.corrections.summary().endswith("; nothing to correct")


@pytest.mark.parametrize("options", [{"target": "litert"}, {"target": "cpu", "integer_io": True}], ids=str)
def test_targets_without_real_results_and_integer_results_are_left_alone(options: dict[str, Any]) -> None:
    found = quantize(network(), data(16), Options(effort="best", **options))
    assert result_types(found)[-1] == "i8"
    assert NAME not in found.corrections.summary()


@pytest.mark.parametrize("demand", [{"symmetric": True}, {"observer": "minmax"}, {"range": [-4, 4]}], ids=str)
def test_a_result_that_a_recipe_rounds_stays_rounded(demand: dict[str, object]) -> None:
    found = made(network(), "empirical_bias", NAME, recipe=recipe_of([{"regex": ".*", **demand}]))
    assert result_types(found)[-1] == "i8"


def test_integer_results_and_the_correction_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="found correction 'unrounded_results' and integer results"):
        made(network(), NAME, integer_io=True)


def test_a_second_refinement_keeps_the_first() -> None:
    found = made(network(), "block_reconstruction", NAME)
    kept = found.corrections.refined
    assert NAME in kept
    assert result_types(found)[-1] == "i32"
