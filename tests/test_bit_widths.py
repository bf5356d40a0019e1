"""The search for bit widths: as few wide kernels as the asked nearness to float takes, said as `!quant.any`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import TypeVar

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from zeropoint.bit_widths import BitWidthError, SqnrEstimate, estimated_sqnr
from zeropoint.calibrate import Work
from zeropoint.cli import main
from zeropoint.frontend.sources import load_source
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import BUDGET, facts_of
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Program
from zeropoint.ir.quant import AnyQuantizedType, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize, sensitivity
from zeropoint.recipe import recipe_of
from zeropoint.report.explain import explain, reaches

DATA = 12
PINNED = """func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> tensor<4xf32> {
  %0 = "quant.qcast"(%x) : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.01>>
  %1 = "quant.dcast"(%0) : (tensor<4x!quant.uniform<i8:f32, 0.01>>) -> tensor<4xf32>
  %2 = stablehlo.add %1, %1 : tensor<4xf32>
  %3 = "quant.qcast"(%2) : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.02>>
  %4 = "quant.dcast"(%3) : (tensor<4x!quant.uniform<i8:f32, 0.02>>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}
"""
Sample = dict[str, np.ndarray]
T = TypeVar("T")


@functools.cache
def classifier() -> tuple[Program, list[Sample]]:
    """Two convolutions, a pool and a dense layer, whose biases gain several dB; target cpu has one width of each."""
    random = np.random.default_rng(0)
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1,3,16,16] x) => (float[1,5] y) {
          c1 = Conv<pads=[1,1,1,1]>(x, w1, b1)  r1 = Relu(c1)  c2 = Conv<pads=[1,1,1,1], strides=[2,2]>(r1, w2)
          r2 = Relu(c2)  g1 = GlobalAveragePool(r2)  f1 = Flatten(g1)  y = Gemm<transB=1>(f1, w3, b3) }"""
    )
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (16, 8, 3, 3), "w3": (5, 16), "b3": (5,)}
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array((random.normal(size=shape) * 0.2).astype(np.float32), name)
        for name, shape in shapes.items()
    )
    return load_source(made), [{"x": random.normal(size=(1, 3, 16, 16)).astype(np.float32)} for _ in range(DATA)]


@functools.cache
def quantized(least_sqnr: float | None, target: str = "litert") -> tuple[Program, list[Sample], Quantization]:
    program, data = classifier()
    return program, data, quantize(program, data, Options(target, least_sqnr=least_sqnr))


def wide(made: Quantization) -> int:
    specs = [op.output_specs.data[0] for op in made.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    return sum(isinstance(spec, UniformQuantizedType) and spec.storage.type.width == 16 for spec in specs)


def demands(made: Quantization) -> int:
    specs = [op.output_specs.data[0] for op in made.calibrated.entry.ops if isinstance(op, QuantizeRegionOp)]
    return sum(isinstance(spec, AnyQuantizedType) for spec in specs)


def sqnr(program: Program, made: Quantization, data: list[Sample]) -> float:
    return sqnr_of(program, made.quantized, data)


def sqnr_of(program: Program, other: Program, data: list[Sample]) -> float:
    """SQNR of all outputs of `other` against those of the float program, in dB."""
    reference, judged = Interpreter(program), Interpreter(other)
    error = power = 0.0
    for sample in data:
        found = judged(sample)
        for name, real in reference(sample).items():
            error += float(((found[name].astype(float) - real) ** 2).sum())
            power += float((real.astype(float) ** 2).sum())
    return float(10 * np.log10(power / error))


def test_without_the_option_nothing_is_wide() -> None:
    _, _, made = quantized(None)
    assert (demands(made), wide(made)) == (0, 0)


def test_few_of_the_kernels_are_wide_and_the_outputs_are_as_near_to_float_as_asked() -> None:
    program, data, narrow = quantized(None)
    base = sqnr(program, narrow, data)
    counts: list[int] = []
    for asked in (base - 4, base + 0.5, base + 1.5):
        _, _, made = quantized(asked)
        assert sqnr(program, made, data) >= asked - 0.01
        assert demands(made) <= wide(made)
        counts.append(demands(made))
    assert counts[0] == 0
    assert 0 < counts[1] <= counts[2] <= 4  # so many kernels have two widths


def test_the_result_is_measured_on_all_samples_and_says_which_kernels_are_wide() -> None:
    program, data, narrow = quantized(None)
    _, _, made = quantized(sqnr(program, narrow, data) + 0.5)
    assert made.widths is not None
    assert made.widths.samples == DATA
    assert len(made.widths.wide) == demands(made)
    assert made.widths.verified == pytest.approx(sqnr_of(program, made.integer, data), abs=0.01)


def test_samples_beyond_those_of_the_search_count() -> None:
    """The first samples are easy, the last ones lie far outside of the range that a recipe sets."""
    program, data = classifier()
    (name,) = data[0]
    empty = [{name: np.zeros_like(data[0][name])} for _ in range(20)]
    _, _, narrow = quantized(None)
    asked = sqnr(program, narrow, data) + 0.5
    made = quantize(program, iter([*empty, *data]), Options("litert", least_sqnr=asked))
    assert made.widths is not None
    assert made.widths.verified >= asked
    assert made.widths.samples == 20 + DATA


def test_profile_and_ranges_hold_in_the_search() -> None:
    """The figures are those of the program that has both."""
    program, data = classifier()[0], classifier()[1][:4]
    settings = {"profile": "fixed32", "ranges": "minmax-nudged"}
    alone = quantize(program, data, Options("litert", **settings))
    made = quantize(program, data, Options("litert", **settings, least_sqnr=10.0))
    assert made.widths is not None
    assert made.integer.profile == "fixed32"
    assert (
        made.widths.searched == made.widths.verified == pytest.approx(sqnr_of(program, alone.integer, data), abs=0.01)
    )


def test_a_model_that_says_all_its_parameters_is_measured_too() -> None:
    program = parse_program(PINNED)
    data = [{"x": np.linspace(-1, 1, 4, dtype=np.float32)}]
    made = quantize(program, data, Options(least_sqnr=10.0))
    assert made.widths is not None
    assert made.widths.verified > 10  # against the model as it is, with its simulated quantization


@pytest.mark.parametrize("least", [float("nan"), float("inf"), -5.0])
def test_what_is_no_number_of_decibels_is_refused(least: float) -> None:
    with pytest.raises(ValueError, match="expected a number of dB"):
        quantize(parse_program(PINNED), [], Options(least_sqnr=least))


def test_more_than_the_widest_kernels_give_is_refused_with_what_they_give() -> None:
    program, data = classifier()[0], classifier()[1][:4]
    with pytest.raises(
        BitWidthError,
        match=r"found [\d.]+ dB on all 4 samples and [\d.]+ dB on the 4 samples of the search, .* expected 300 dB",
    ):
        quantize(program, data, Options("litert", least_sqnr=300.0))


def test_the_program_with_its_corrections_is_judged() -> None:
    """No kernel is widened for what a correction of biases gains already."""
    program, data = classifier()
    plain, corrected = (
        sqnr_of(program, quantize(program, data, Options(effort=effort)).integer, data) for effort in ("none", "fast")
    )
    asked = (plain + corrected) / 2
    assert corrected > plain + 2
    for name in ("cpu", "litert"):
        made = quantize(program, data, Options(name, effort="fast", least_sqnr=asked))
        assert made.widths is not None
        assert made.widths.wide == ()
        assert made.widths.verified == pytest.approx(sqnr_of(program, made.integer, data), abs=0.01)
        assert made.widths.verified >= asked


def test_the_command_line_refuses_it_in_one_line(tmp_path) -> None:
    save_program(classifier()[0], tmp_path / "model.mlir")
    np.savez(tmp_path / "data.npz", x=np.concatenate([sample["x"] for sample in classifier()[1]]))
    before = set(tmp_path.iterdir())
    arguments = ["quantize", str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz"), "--least-sqnr", "300"]
    result = CliRunner().invoke(main, [*arguments, "--effort", "none", "-o", str(tmp_path / "q.mlir")])
    assert result.exit_code == 2
    assert (
        "expected 300 dB; name a target with 16-bit kernels, such as litert (--target), try effort 'best' "
        "(--effort best), lower the minimum" in result.output
    )
    chosen = CliRunner().invoke(main, [*arguments, "--effort", "best", "-o", str(tmp_path / "q.mlir")])
    assert "such as litert (--target), lower the minimum" in chosen.output
    assert set(tmp_path.iterdir()) == before


def test_workers_give_the_same_search() -> None:
    program, data, _ = quantized(None)
    made = quantize(program, data, Options("litert", least_sqnr=25.0))
    expected = made.widths
    assert made.findings[0] == str(expected)
    assert ": worst output " in str(expected)
    assert quantize(program, data, Options("litert", least_sqnr=25.0), work=Work(2)).widths == expected


REPEATED = """func.func @main(%x: tensor<1x8xf32> {zeropoint.name = "x"}) -> tensor<1x8xf32> {
  %w = stablehlo.constant dense<0.11> : tensor<8x8xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("gru")
  %1 = stablehlo.tanh %0 : tensor<1x8xf32> loc("gru")
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("gru")
  return %2 : tensor<1x8xf32>
}"""


def test_kernels_of_one_op_have_names_of_their_own() -> None:
    program = parse_program(REPEATED)
    random = np.random.default_rng(3)
    data = [{"x": random.normal(0, 1, (1, 8)).astype(np.float32)} for _ in range(8)]
    with pytest.raises(BitWidthError, match=r"with 3 wide kernels \('gru(_\d)?', 'gru(_\d)?', 'gru(_\d)?'\) of the 3 "):
        quantize(program, data, Options("litert", least_sqnr=300, effort="none"))
    made = quantize(program, data, Options("litert", least_sqnr=45, effort="none"))
    assert made.widths is not None
    assert made.widths.wide
    assert len(set(made.widths.wide)) == len(made.widths.wide)
    assert set(made.widths.wide) <= {"gru", "gru_1", "gru_2"}
    observed = set(made.calibration.observations)
    assert observed <= {"x", "gru", "gru_1", "gru_2"}  # the same names; those of fixed ranges are not observed
    assert {fact.name for fact in facts_of(made.integer.module, BUDGET)} <= {"gru", "gru_1", "gru_2", "gru, gru_2"}


def test_explain_finds_a_kernel_by_the_name_that_summaries_print() -> None:
    random = np.random.default_rng(3)
    data = [{"x": random.normal(0, 1, (1, 8)).astype(np.float32)} for _ in range(8)]
    made = quantize(parse_program(REPEATED), data, Options("litert", effort="none"))
    for program in (made.propagated, made.quantized, made.integer):
        kernels = {value.shown_name: value.kind for value in explain(program).values}
        assert kernels == {"x": "input", "gru": "fully_connected", "gru_1": "tanh", "gru_2": "fully_connected"}
        (one,) = explain(program, "gru_1").values
        assert one.kind == "tanh"
        assert one.made_from == ("gru",)
        assert one.read_by == ("gru_2",)
        assert len(explain(program, "gru").values) == 3
    kernels = {name: [reach.op for reach in reaches(made.integer, name)] for name in ("gru", "gru_2")}
    assert "stablehlo.dot_general" in kernels["gru_2"]
    assert len(kernels["gru_2"]) < len(kernels["gru"])
    assert {reach.unique_name for reach in reaches(made.integer, "gru")} >= {"", "gru_2"}


def test_every_kernel_of_one_op_has_an_exact_loss_of_its_own() -> None:
    random = np.random.default_rng(3)
    data = [{"x": random.normal(0, 1, (1, 8)).astype(np.float32)} for _ in range(8)]
    shown: dict[str, int] = {}

    def progress(items: Iterable[T], description: str) -> Iterator[T]:
        shown[description] = length_hint(items)
        return iter(items)

    options = Options("litert", effort="none")
    found = sensitivity(parse_program(REPEATED), data, options, exact=True, progress=progress)
    # Each wide and each narrow, and all narrow and all wide, to compare with.
    assert shown["each kernel in its other width"] == 2 * (len(found) + 1)
    assert [(one.name, one.op) for one in found] == [("gru", "gru"), ("gru_1", "gru"), ("gru_2", "gru")]
    losses = [one.exact_loss for one in found]
    assert None not in losses
    assert len(set(losses)) == 3
    assert None not in [one.exact_gain for one in found]
    assert sensitivity(parse_program(REPEATED), data, options, exact=True, work=Work(2)) == found


def test_the_margin_is_that_of_a_ratio_over_samples() -> None:
    """Against the spread of the SQNR over sets of samples that are drawn from the same distribution."""
    random = np.random.default_rng(11)
    samples = 400

    def drawn() -> list[dict[str, tuple[float, float]]]:
        signal = random.uniform(1, 3, samples)
        noise = 0.01 * signal * random.gamma(0.5, 2, samples)
        return [{"y": pair} for pair in zip(signal.tolist(), noise.tolist(), strict=True)]

    sets = [estimated_sqnr(drawn()) for _ in range(200)]
    spread = float(np.std([one.least for one in sets]))
    assert np.mean([one.margin for one in sets]) == pytest.approx(2 * spread, rel=0.15)
    assert estimated_sqnr([{"y": (2.0, 0.02)}] * 3).margin == pytest.approx(0.0, abs=1e-6)
    assert estimated_sqnr([{"y": (2.0, 0.02)}]) == SqnrEstimate(pytest.approx(20.0), 0.0)
    assert estimated_sqnr([{"y": (2.0, 0.0)}, {"y": (1.0, 0.0)}]) == SqnrEstimate(np.inf, 0.0)
    assert estimated_sqnr([{"y": (2.0, np.nan)}, {"y": (1.0, 0.0)}]) == SqnrEstimate(-np.inf, 0.0)


def test_the_margin_is_that_of_the_output_that_may_have_the_least() -> None:
    samples = [{"even": (1.0, 0.01), "uneven": (1.0, noise)} for noise in (0.002, 0.015, 0.002)]
    found = estimated_sqnr(samples)
    uneven = estimated_sqnr([{"y": sample["uneven"]} for sample in samples])
    assert found.least == pytest.approx(20.0)
    assert uneven.least > 21
    assert found.least - found.margin == pytest.approx(uneven.least - uneven.margin)


def uneven_data() -> list[Sample]:
    """Samples of which some are nearly empty: their outputs are of biases, and have more noise than the others."""
    program, data = classifier()
    (port,) = program.inputs
    return [
        {port.name: value * (0.05 if number % 3 == 0 else 1)} for number, (value,) in enumerate(map(dict.values, data))
    ]


def test_kernels_are_widened_until_the_minimum_holds_less_two_standard_errors() -> None:
    program, data = classifier()[0], uneven_data()
    narrow = quantize(program, data, Options("litert"))
    base = sqnr(program, narrow, data)
    made = quantize(program, data, Options("litert", least_sqnr=base - 0.2))
    assert made.widths is not None
    assert made.widths.wide  # the minimum is met without, but hardly
    assert made.widths.margin > 0.2
    assert made.widths.verified - made.widths.margin >= base - 0.2
    assert f"({made.widths.verified - made.widths.margin:.1f} after subtracting 2 standard errors)" in str(made.widths)
    assert "other data" not in str(made.widths)


def test_a_minimum_that_holds_on_the_data_alone_is_met_and_the_summary_says_so() -> None:
    program, data = classifier()[0], uneven_data()
    widest = quantize(program, data, Options("litert", recipe=recipe_of([{"regex": ".*", "bits": 16}])))
    asked = sqnr(program, widest, data) - 0.05
    made = quantize(program, data, Options("litert", least_sqnr=asked))
    assert made.widths is not None
    assert made.widths.verified >= asked > made.widths.verified - made.widths.margin
    assert f"other data may give less than the requested {asked:g} dB" in str(made.widths)


def test_validation_data_judges_the_widths() -> None:
    """The samples that ranges come from do not show what lies outside of them."""
    program, data = classifier()
    (port,) = program.inputs
    others = [{port.name: 2 * sample[port.name]} for sample in data]
    narrow = quantize(program, data, Options("litert"))
    asked = min(sqnr(program, narrow, data), 12.0) - 2
    assert sqnr(program, narrow, others) < asked
    alone = quantize(program, data, Options("litert", least_sqnr=asked))
    assert alone.widths is not None
    assert alone.widths.wide == ()
    with pytest.raises(BitWidthError) as caught:
        quantize(program, data, Options("litert", least_sqnr=asked), validation=others)
    assert f"dB on all {DATA} validation samples" in str(caught.value)
    made = quantize(program, data, Options("litert", least_sqnr=asked), validation=data[:5])
    assert made.widths is not None
    assert (made.widths.samples, made.widths.validation) == (5, True)
    assert made.widths.verified == pytest.approx(sqnr_of(program, made.integer, data[:5]), abs=0.01)
