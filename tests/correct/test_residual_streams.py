"""Residual streams are equalized as one: the same function in float, less noise in 8 bits."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from zeropoint.correct.channel_statistics import without_statistics
from zeropoint.correct.equalize import equalize, uneven_streams, watched
from zeropoint.correct.observe_channels import observe_channels
from zeropoint.correct.residual_streams import streams
from zeropoint.correct.stream_factors import relative_magnitude
from zeropoint.frontend.sources import load_source
from zeropoint.fuse import fuse
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.annotations import EQUALIZED
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, quantize
from zeropoint.report.explain import explain
from zeropoint.simplify import simplify
from zeropoint.targets import target

CHANNELS = 8
RESIDUAL = """
  a = Conv<pads=[1,1,1,1]>(x0, w0, b0)  r = Relu(a)
  d = Conv<group=8, pads=[1,1,1,1]>(r, w1, b1)  c = Conv(d, w2, b2)  s = Add(r, c)  t = Relu(s)
  p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(t)  e = Pad(p, edges, zero)
  f = Conv<strides=[2,2]>(t, w3, b3)  u = Add(e, f)  v = Relu(u)
  y = Conv(v, w4, b4)
"""


def network(body: str = RESIDUAL, spread: float = 5.0, result: str = "float[1,3,4,4] y") -> Program:
    """Two blocks of sums; in the second, the channels of the first are padded to 12. They are up to 2^spread apart."""
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (float[1,3,8,8] x0) => ({result}) {{ {body} }}'
    )
    random, wide = np.random.default_rng(7), CHANNELS + 4
    scales = 2.0 ** -random.permutation(np.linspace(0, spread, wide))
    own = scales[:CHANNELS]

    def weights(made: Array, given: Array, *taps: int, depthwise: bool = False) -> Array:
        inputs = np.ones(1) if depthwise else given
        size = (len(made), len(inputs), *taps)
        return random.normal(0, 0.4, size) * made[:, None, None, None] / inputs[None, :, None, None]

    ones, three = np.ones(CHANNELS), np.ones(3)
    arrays = {
        "w0": weights(own, three, 3, 3),
        "w1": weights(1 / own, ones, 3, 3, depthwise=True),
        "w2": weights(own, ones, 1, 1),
        "w3": weights(scales, own, 1, 1),
        "w4": weights(three, scales, 1, 1),
    }
    arrays |= {"b0": own, "b1": ones, "b2": own, "b3": scales, "b4": three}
    used = {name for node in made.graph.node for name in node.input}
    initializers = {name: array.astype(np.float32) for name, array in arrays.items()}
    initializers |= {"front": np.array([0, 4, 0, 0, 0, 0, 0, 0])}
    initializers |= {"edges": np.array([0, 0, 0, 0, 0, 4, 0, 0]), "zero": np.array(0.0, np.float32)}
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in initializers.items() if name in used
    )
    return load_source(made)


def fused(program: Program) -> Program:
    return fuse(simplify(program), target("cpu"))


def data(count: int = 12) -> list[dict[str, Array]]:
    random = np.random.default_rng(3)
    return [{"x0": random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def test_a_stream_has_the_sums_pools_and_padded_channels_that_share_factors() -> None:
    (stream,) = streams(fused(network()))
    kinds = sorted(member.maker.logical_kernel.data for member in stream.members)
    assert kinds == ["add", "add", "convolution", "convolution", "convolution", "max_pool", "pad"]
    assert stream.size == CHANNELS + 4
    assert {member.first for member in stream.members} == {0}
    readers = sorted(reader.logical_kernel.data for _, reader in stream.readers())
    assert readers == ["convolution", "convolution", "depthwise_convolution"]


@pytest.mark.parametrize(("edges", "firsts"), [("edges", {0}), ("front", {0, 4})])
def test_the_float_function_stays_the_same(edges: str, firsts: set[int]) -> None:
    program = fused(network(RESIDUAL.replace("edges", edges)))
    assert {member.first for member in streams(program)[0].members} == firsts
    shown = observe_channels(program, data(4), ReferenceEngine())
    (found,) = uneven_streams(shown)
    assert found.factors.min() < 0.1
    made = without_statistics(equalize(shown))
    assert sum(EQUALIZED in op.attributes for op in made.entry.ops) >= 5
    before, after = (ReferenceEngine().prepare(one) for one in (program, made))
    for sample in data(4):
        np.testing.assert_allclose(after(sample)["y"], before(sample)["y"], rtol=2e-5, atol=2e-5)


def test_factors_are_not_below_the_magnitudes_so_no_scale_grows() -> None:
    shown = observe_channels(fused(network()), data(4), ReferenceEngine())
    (found,) = uneven_streams(shown)
    for member, _, ranges in found.stats:
        magnitude = np.abs(ranges).max(axis=1)
        scaled = magnitude / found.factors[member.channels]
        assert scaled.max() <= magnitude.max() * (1 + 1e-6)
    relative = relative_magnitude(found.stream, {member: ranges for member, _, ranges in found.stats})
    assert relative.max() == 1.0


def test_an_uneven_stream_gains_and_the_program_says_so() -> None:
    made = quantize(network(), data(), Options(corrections=["equalize"]), engine=ReferenceEngine())
    found = made.corrections.equalized
    assert found is not None
    assert found.kept
    assert found.after > found.before + 6
    assert "channels multiplied by up to" in str(explain(made.integer, "s"))


def test_even_streams_are_left_alone() -> None:
    shown = observe_channels(fused(network(spread=0.5)), data(4), ReferenceEngine())
    assert uneven_streams(shown) == []


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (RESIDUAL.replace("y = Conv", "z = Sigmoid(t)  y = Conv"), "float[1,3,4,4] y, float[1,8,8,8] z"),
        (RESIDUAL, "float[1,3,4,4] y, float[1,8,8,8] t"),
        (RESIDUAL.replace("t = Relu(s)", "t = Clip(s, zero, most)"), "float[1,3,4,4] y"),
        (RESIDUAL.replace("t = Relu(s)", "t = Add(s, most)"), "float[1,3,4,4] y"),
        (RESIDUAL.replace("Pad(p, edges, zero)", "Pad(p, edges, most)"), "float[1,3,4,4] y"),
    ],
    ids=[
        "another function reads a sum",
        "a sum is an output",
        "a clamp has an upper bound",
        "a constant is added",
        "1s",
    ],
)
def test_a_stream_with_a_value_that_cannot_be_scaled_is_left_alone(body: str, result: str) -> None:
    text = body.replace("a = Conv", "most = Constant<value_float=6.0>()  a = Conv") if "most" in body else body
    assert streams(fused(network(text, result=result))) == []


def test_its_values_are_observed_once_each() -> None:
    """Pools and padded values have the ranges of their operands."""
    program = fused(network())
    kinds = sorted(one.maker.logical_kernel.data for one in watched(program))
    assert kinds.count("add") == 2
    assert not {"max_pool", "pad"} & set(kinds)
    assert len({one.value for one in watched(program)}) == len(kinds)
