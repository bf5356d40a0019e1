"""Contractions that stay float for a function after them get integer operands where the outputs lose little."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from networks import Network
from zeropoint.correct import IntegerProducts
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp, LogOp, MultiplyOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.text import print_program
from zeropoint.passes import DECIDING_PASSES, run_all
from zeropoint.pipeline import Options, quantize
from zeropoint.quantization import Quantization
from zeropoint.solve import PropagationError, is_quantized, propagate
from zeropoint.solve.widths.unrounded import float_products
from zeropoint.targets import target

CHANNELS, PIXELS = 8, 64


def bank_and_logarithm(share: float) -> Program:
    """share * log(bank(x * x)) + conv(x): 8 bits of the squares are too few for the logarithm."""
    net = Network([(1, CHANNELS, 1, PIXELS)])

    def convolution(x, *, positive: bool):
        net.layer("conv")
        weight = net.random.normal(0, 1, (CHANNELS, CHANNELS, 1, 1)) / CHANNELS**0.5
        kernel = net.constant(np.abs(weight) if positive else weight)
        return net.insert(ConvolutionOp(x, kernel, with_shape(x, shape_of(x)), ConvolutionLayout.channels_first(2)))

    x = net.values[0]
    bank = convolution(net.insert(MultiplyOp(x, x)), positive=True)
    logarithm = net.insert(LogOp(net.insert(AddOp(bank, net.splat(1e-7, bank)))))
    scaled = net.insert(MultiplyOp(logarithm, net.splat(share, logarithm)))
    return net.finish([net.insert(AddOp(scaled, convolution(x, positive=False)))])


def sounds(count: int) -> list[Mapping[str, Array]]:
    """Samples whose loudness spans decades."""
    random = np.random.default_rng(1)
    loudness = 10.0 ** random.uniform(-3, 1, (count, 1, 1, 1, PIXELS))
    return [{"x0": each.astype(np.float32)} for each in loudness * random.normal(0, 1, (count, 1, CHANNELS, 1, PIXELS))]


def made(share: float, **options: str) -> Quantization:
    return quantize(bank_and_logarithm(share), sounds(16), Options("cpu", **{"effort": "balanced"} | options))


def figures(found: Quantization) -> IntegerProducts:
    assert found.corrections.products is not None
    return found.corrections.products


def test_a_function_that_hardly_matters_for_the_outputs_gets_accumulators_of_integers() -> None:
    found = made(1e-3)
    tried = figures(found)
    assert (tried.count, tried.kept) == (1, True)
    assert tried.after >= tried.before - 0.5
    assert found.settings["products"] == "integers"
    assert float_products(found.propagated) == 0
    assert "integer_products kept" in found.corrections.summary()
    assert (
        f'name = "integer_products", salience = "calibrated", source = "{found.corrections.judges}"'
        in print_program(found.integer)
    )


def test_a_function_that_matters_keeps_the_float_contraction() -> None:
    found = made(1.0)
    tried = figures(found)
    assert (tried.count, tried.kept) == (1, False)
    assert tried.after < tried.before - 0.5
    assert "products" not in found.settings
    assert float_products(found.propagated) == 1
    assert str(tried).endswith("dB with the contraction in float; undone: the worst output loses more than 0.5 dB")


@pytest.mark.parametrize("options", [{"effort": "none"}, {"effort": "fast"}])
def test_other_efforts_do_not_try_it(options: dict[str, str]) -> None:
    found = made(1e-3, **options)
    assert found.corrections.products is None
    assert float_products(found.propagated) == 1


def test_the_pass_gives_the_contraction_integer_operands_and_dequantized_accumulators() -> None:
    calibrated = made(1e-3, effort="none").calibrated
    settings = {"target": "cpu"}
    judged = run_all(DECIDING_PASSES, calibrated, settings)
    integers = run_all(DECIDING_PASSES, calibrated, {**settings, "products": "integers"})
    assert (float_products(judged), float_products(integers)) == (1, 0)
    kernels = [[is_quantized(op) for op in regions_of(program)] for program in (judged, integers)]
    assert sum(kernels[1]) > sum(kernels[0])


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(PropagationError, match="found products 'some', expected one of: judged, integers"):
        propagate(bank_and_logarithm(1.0), target("cpu"), products="some")
