"""The range that costs the readers of a value least, against quantizing the value and computing the readers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.ir import OpResult

from networks import Network
from zeropoint.calibrate import DEFAULT_OBSERVER, Work, collect, instrument
from zeropoint.calibrate.candidates import Kept, OutputObserver, best
from zeropoint.calibrate.output_noise import output_noise
from zeropoint.calibrate.range_noise import RangeNoise
from zeropoint.calibrate.reader_requests import with_reader_requests
from zeropoint.comparison import compare
from zeropoint.engines import QuickestEngine
from zeropoint.fuse import fuse
from zeropoint.interp import Engine, ReferenceEngine, Repeatable, Runnable
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.stablehlo import AddOp, ConcatenateOp, ConvolutionLayout, ConvolutionOp, SliceOp, TanhOp, TransposeOp
from zeropoint.ir.tensors import with_shape
from zeropoint.model import Model
from zeropoint.numerics.affine import dequantize
from zeropoint.numerics.affine import quantize as quantized
from zeropoint.numerics.ranges import asymmetric
from zeropoint.pipeline import Options, quantize

CHANNELS = 4
RANGES = [(-1.0, 1.0), (-4.0, 4.0), (-40.0, 40.0)]
WEIGHT = np.random.default_rng(3).normal(0, 1, (5, CHANNELS, 1, 1)).astype(np.float32)


def network(*, moved: bool = False, other: bool = False) -> Program:
    """A convolution of the input, transposed or not, and the sum of the input with itself."""
    net = Network([(1, CHANNELS, 3, 3)])
    (value,) = net.values
    if moved:
        net.layer("moved")
        value = net.insert(TransposeOp(value, [0, 1, 3, 2]))
    net.layer("conv")
    layout = ConvolutionLayout.channels_first(2)
    made = ConvolutionOp(value, net.constant(WEIGHT), with_shape(value, [1, 5, 3, 3]), layout)
    results = [net.insert(made)]
    if other:
        net.layer("sum")
        results.append(net.insert(AddOp(net.values[0], net.values[0])))
    return net.finish(results)


def samples(count: int = 3, seed: int = 0) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    arrays = random.normal(0, 1, (count, 1, CHANNELS, 3, 3))
    arrays[:, :, 0] *= 8  # a channel of outliers
    return [{"x0": array.astype(np.float32)} for array in arrays]


def rounded(values: np.ndarray, low: float, high: float) -> np.ndarray:
    chosen = asymmetric(low, high, -128, 127)
    stored = quantized(values, chosen.scale, chosen.zero_point, -128, 127)
    return dequantize(stored, chosen.scale, chosen.zero_point).astype(np.float64)


def observed(count: int) -> np.ndarray:
    return np.concatenate([s["x0"].reshape(CHANNELS, -1) for s in samples(count)], axis=1).astype(np.float64)


def expected(readers: list[np.ndarray], limits: tuple[float, float]) -> float:
    """Noise over signal, summed over readers that are matrices from channels to results."""
    data = observed(3)
    error = rounded(data, *limits) - data
    return sum(float(((matrix @ error) ** 2).sum() / ((matrix @ data) ** 2).sum()) for matrix in readers)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_noise_is_that_of_the_readers_and_kernels_that_move_are_looked_through(moved: bool, other: bool) -> None:
    asked = instrument(fuse(network(moved=moved, other=other)))
    found = output_noise(asked, {"x0": RANGES}, samples(), ReferenceEngine())["x0"].readers.sum(axis=1)
    readers = [WEIGHT[:, :, 0, 0].astype(np.float64), *([2 * np.eye(CHANNELS)] if other else [])]
    assert found == pytest.approx([expected(readers, limits) for limits in RANGES], rel=1e-3)


class NoEngine:
    """An engine for programs that need not be prepared."""

    def prepare(self, program: Program) -> Runnable:
        raise AssertionError(f"found {program} to be prepared, expected kernels that run again")


@pytest.mark.parametrize("moved", [False, True])
def test_kernels_of_a_prepared_program_that_run_again_give_the_same_noise(moved: bool) -> None:
    """The convolution has padding, and its input is added to its result: a value that stays while the other changes."""
    net = Network([(1, CHANNELS, 6, 6)])
    net.layer("first")
    value = net.insert(TanhOp(net.values[0]))
    if moved:
        net.layer("moved")
        value = net.insert(TransposeOp(value, [0, 1, 3, 2]))
    net.layer("conv")
    weight = np.random.default_rng(4).normal(0, 1, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
    layout = ConvolutionLayout.channels_first(2)
    made = net.insert(ConvolutionOp(value, net.constant(weight), value.type, layout, padding=[(1, 1), (1, 1)]))
    net.layer("sum")
    asked = instrument(fuse(net.finish([net.insert(AddOp(made, value))])))
    keys = [op.stats_key.data for op in asked.entry.ops if isinstance(op, StatisticsRefOp)]
    ranges = {key: RANGES for key in keys}
    given = [{"x0": np.random.default_rng(n).normal(0, 1, (1, CHANNELS, 6, 6)).astype(np.float32)} for n in range(3)]
    run = QuickestEngine(10**9).prepare(asked)
    found = output_noise(asked, ranges, given, NoEngine(), run=run)
    assert isinstance(run, Repeatable)
    assert not run.repeated([], 1, 0)
    walked = output_noise(asked, ranges, given, ReferenceEngine())
    for key, noise in walked.items():
        assert noise.size == found[key].size
        for each in ("readers", "own", "cut"):
            # The same terms. They are added in the order in which they are in memory.
            np.testing.assert_allclose(getattr(found[key], each), getattr(noise, each), rtol=1e-13, atol=0)


def test_a_kernel_that_reads_a_value_and_what_is_moved_of_it_runs_again() -> None:
    """A concatenation around the end, as padding by a circle has it: every operand is another value by itself."""
    net = Network([(1, CHANNELS, 6, 6)])
    net.layer("first")
    value = net.insert(TanhOp(net.values[0]))
    net.layer("end")
    end = net.insert(SliceOp(value, [0, 0, 0, 5], [1, CHANNELS, 6, 6], [1] * 4))
    net.layer("turned")
    turned = net.insert(TransposeOp(value, [0, 1, 3, 2]))
    net.layer("joined")
    joined = net.insert(ConcatenateOp([end, value, turned], 3))
    net.layer("conv")
    weight = net.constant(np.random.default_rng(4).normal(0, 1, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32))
    layout = ConvolutionLayout.channels_first(2)
    made = ConvolutionOp(joined, weight, with_shape(joined, [1, CHANNELS, 4, 11]), layout)
    asked = instrument(fuse(net.finish([net.insert(made)])))
    keys = [op.stats_key.data for op in asked.entry.ops if isinstance(op, StatisticsRefOp)]
    assert {"first1", "end1", "turned1", "joined1"} <= set(keys)
    given = [{"x0": np.random.default_rng(n).normal(0, 1, (1, CHANNELS, 6, 6)).astype(np.float32)} for n in range(3)]
    ranges = {key: RANGES for key in keys}
    found = output_noise(asked, ranges, given, NoEngine(), run=QuickestEngine(10**9).prepare(asked))
    walked = output_noise(asked, ranges, given, ReferenceEngine())
    for key, noise in walked.items():
        np.testing.assert_allclose(found[key].readers, noise.readers, rtol=1e-13, atol=0)


@dataclass
class CountingEngine:
    """Counts the programs that an engine prepares."""

    engine: Engine
    prepared: int = 0

    def prepare(self, program: Program) -> Runnable:
        self.prepared += 1
        return self.engine.prepare(program)


@pytest.mark.parametrize("work", [None, Work(1)])
def test_readers_whose_results_are_not_observed_run_again_too(work: Work | None) -> None:
    """As the scores of attention, whose softmax stays float: the program with its requests is the only one prepared."""
    asked = instrument(fuse(network(moved=True)), asks=lambda _: lambda value: not isinstance(value, OpResult))
    assert [op.stats_key.data for op in asked.entry.ops if isinstance(op, StatisticsRefOp)] == ["x0"]
    engine = CountingEngine(QuickestEngine(10**9))
    random = np.random.default_rng(0)
    given = [{"x0": random.standard_normal((1, CHANNELS, 3, 3), np.float32)} for _ in range(400)]
    given[0]["x0"][0, 1, 0, 0] = 40  # so that there is a choice of ranges
    found = collect(asked, given, observer=DEFAULT_OBSERVER, engine=engine, work=work)
    assert engine.prepared == 1
    assert list(found.observations) == ["x0"]


def test_only_values_without_a_request_get_one_for_their_readers() -> None:
    asked = instrument(fuse(network(moved=True)), asks=lambda _: lambda value: not isinstance(value, OpResult))
    made = with_reader_requests(asked)
    keys = [op.stats_key.data for op in made.entry.ops if isinstance(op, StatisticsRefOp)]
    assert keys == ["x0", "of a reader", "of a reader_1"]
    assert with_reader_requests(made) is made
    given = samples()
    run = QuickestEngine(10**9).prepare(made)
    again = output_noise(made, {"x0": RANGES}, given, NoEngine(), run=run)["x0"]
    walked = output_noise(asked, {"x0": RANGES}, given, ReferenceEngine())["x0"]
    np.testing.assert_allclose(again.readers, walked.readers, rtol=1e-13, atol=0)


def test_kernels_behind_known_statistics_are_readers() -> None:
    asked = instrument(fuse(network(moved=True)))
    moved = next(op for op in asked.entry.ops if isinstance(op, QuantizeRegionOp)).outputs[0]
    known = StatisticsOp(moved, (-1.0, 1.0))
    asked.entry.insert_op_after(known, moved.owner)
    moved.replace_uses_with_if(known.res, lambda use: use.operation is not known)
    found = output_noise(asked, {"x0": RANGES}, samples(), ReferenceEngine())["x0"].readers.sum(axis=1)
    weights = WEIGHT[:, :, 0, 0].astype(np.float64)
    assert found == pytest.approx([expected([weights], limits) for limits in RANGES], rel=1e-3)


def test_infinities_do_not_choose_a_range() -> None:
    """A mask of -inf: stored as the end of any range. The finite values decide, with no warning."""
    program, given = network(), samples(2)
    finite = output_noise(instrument(fuse(program)), {"x0": RANGES}, given, ReferenceEngine())["x0"]
    given[0]["x0"][0, 0, 0, 0] = -np.inf
    found = output_noise(instrument(fuse(program)), {"x0": RANGES}, given, ReferenceEngine())["x0"]
    assert found.size == finite.size - 1
    assert np.isfinite(found.readers).all()
    assert (found.own <= finite.own).all()


def test_what_a_range_cuts_off_is_that_of_all_data_not_of_the_few_samples() -> None:
    asked, observer = instrument(fuse(network())), OutputObserver()
    for sample in samples(200):
        observer.update(sample["x0"])
    data = observed(200)
    for limits in RANGES:
        cut = ((data - data.clip(*limits)) ** 2).mean()
        assert observer.cut_off(limits) == pytest.approx(cut, rel=0.03, abs=1e-9)
    noise = output_noise(asked, {"x0": RANGES}, samples(), ReferenceEngine())["x0"]
    assert noise.size == observed(3).size
    for number, limits in enumerate(RANGES):
        few = observed(3)
        assert noise.own[number].sum() == pytest.approx(((rounded(few, *limits) - few) ** 2).sum(), rel=1e-3)
        assert noise.cut[number].sum() == pytest.approx(((few - few.clip(*limits)) ** 2).sum(), rel=1e-6, abs=1e-9)


def test_samples_without_the_rare_values_do_not_make_a_range_that_cuts_them_off_look_good() -> None:
    """999 values up to 1 and one of 10, which the samples that are judged do not have."""
    observer = OutputObserver()
    observer.update(np.linspace(-1, 1, 999, dtype=np.float32))
    observer.update(np.float32([10.0]))
    ranges = [(-1.0, 1.0), (-1.0, 10.0)]
    few = np.random.default_rng(0).uniform(-1, 1, (4, 50)).astype(np.float32)
    own = np.array([((few - rounded(few, *limits)) ** 2).sum(axis=1) for limits in ranges])
    noise = RangeNoise(own.copy(), own, np.zeros((2, 4)), few.size)
    assert best(noise.readers) == 0
    assert observer.choice(ranges, noise) == ranges[1]


@pytest.mark.parametrize(
    ("costs", "taken"),
    [
        ([[10, 10, 10, 10], [7, 7, 8, 7]], 1),  # clearly less
        ([[10, 10, 10, 10], [9, 9, 9, 9]], 0),  # less than 1 dB
        ([[100, 1, 1, 1], [60, 3, 3, 3]], 0),  # on average over few samples, by luck
        ([[10, 10, 10, 10], [7, 7, 7, 7], [5, 5, 5, 5]], 2),
        ([[0, 0], [0, 0]], 0),
        ([[10], [5]], 1),
    ],
)
def test_another_range_is_taken_where_it_is_clearly_better(costs: list[list[float]], taken: int) -> None:
    assert best(np.array(costs, np.float64)) == taken


def rare(factor: float) -> tuple[Program, list[dict[str, np.ndarray]]]:
    """A convolution that multiplies a channel, 0 but for one large value in every other sample, by some factor.

    8 bits of that value's range are coarse for the other channels, so that the range of least squared error is less.
    """
    net = Network([(1, 32, 64, 64)])
    (value,) = net.values
    weight = np.random.default_rng(1).normal(0, 1, (4, 32, 1, 1))
    weight[:, 0] *= factor
    net.layer("conv")
    layout = ConvolutionLayout.channels_first(2)
    made = ConvolutionOp(value, net.constant(weight), with_shape(value, [1, 4, 64, 64]), layout)
    arrays = np.random.default_rng(2).uniform(0, 1, (32, 1, 32, 64, 64)).astype(np.float32)
    arrays[:, :, 0] = 0
    arrays[::2, :, 0, 5, 5] = 10
    return net.finish([net.insert(made)]), [{"x0": array} for array in arrays]


def sqnr(factor: float, observer: str = DEFAULT_OBSERVER) -> float:
    program, arrays = rare(factor)
    result = quantize(program, arrays[:24], Options(effort="none", observer=observer))
    return compare(Model(program), Model(result.integer), arrays[24:]).outputs[0].sqnr


@pytest.mark.parametrize(("factor", "better", "worse"), [(20.0, "minmax", "mse"), (0.1, "mse", "minmax")])
def test_the_default_takes_the_better_of_two_ranges(factor: float, better: str, worse: str) -> None:
    assert sqnr(factor, better) > sqnr(factor, worse) + 1
    assert sqnr(factor) >= sqnr(factor, better)


def test_the_order_of_the_samples_changes_nothing() -> None:
    asked = instrument(fuse(network(other=True)))
    forwards = collect(asked, samples(30), observer="output")
    backwards = collect(asked, samples(30)[::-1], observer="output")
    assert forwards == backwards


def test_samples_are_kept_by_their_contents() -> None:
    first, second = Kept(), Kept()
    for sample in samples(40):
        first.see(sample)
    for sample in samples(40)[::-1]:
        second.see(sample)
    assert [s["x0"].tobytes() for s in first.samples] == [s["x0"].tobytes() for s in second.samples]
    assert len(first.samples) == 8


class Counting:
    """The reference engine, which notes what it prepares."""

    def __init__(self) -> None:
        self.prepared: list[str] = []

    def prepare(self, program: Program) -> Runnable:
        self.prepared.append(str(program.module))
        return ReferenceEngine().prepare(program)


def test_steps_that_share_weights_are_prepared_once() -> None:
    """The steps of an unrolled recurrent layer: compiling each contraction takes longer than running it."""
    net = Network([(1, CHANNELS, 3, 3)])
    (value,) = net.values
    weight = net.constant(WEIGHT[:CHANNELS])
    for step in range(3):
        net.layer(f"step{step}")
        made = ConvolutionOp(value, weight, with_shape(value, [1, CHANNELS, 3, 3]), ConvolutionLayout.channels_first(2))
        value = net.insert(made)
    program, engine = net.finish([value]), Counting()
    output_noise(instrument(fuse(program)), {}, samples(), engine)
    assert len(engine.prepared) == 1


def test_kernels_of_one_form_are_prepared_once() -> None:
    """Also without weights, as the gates of the steps: two tanh and two slices, of which one begins elsewhere."""
    net = Network([(1, CHANNELS, 3, 3)])
    (value,) = net.values
    shape, parts = [1, CHANNELS, 3, 3], []
    for begin in (0, 0, 1):
        net.layer("step")
        value = net.insert(TanhOp(value))
        parts.append(net.insert(SliceOp(value, [0, 0, begin, 0], [1, CHANNELS, begin + 2, 3], [1] * 4)))
    program, engine = net.finish([value, *parts]), Counting()
    found = output_noise(instrument(fuse(program)), {}, [{"x0": np.ones(shape, np.float32)}], engine)
    assert len(engine.prepared) == 3
    assert not found
