"""The search for widths under a budget: prefixes of the steps, figures measured once, a journal, real programs."""

from __future__ import annotations

import functools
import json
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint as zp
from calibrate.spread_runs import Deadly
from networks import Network
from zeropoint import budget_search
from zeropoint.bit_widths import SqnrEstimate, least_output_sqnr
from zeropoint.budget import Budget, BudgetError, Figures, SearchJournal, Spent, Verified, WideningStep, spend, widened
from zeropoint.budget_candidates import Candidates, by_workers
from zeropoint.calibrate import Work
from zeropoint.cli import main
from zeropoint.correct import SampleParts
from zeropoint.finish import Finish
from zeropoint.interp import Engine, Interpreter
from zeropoint.ir import files
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Program
from zeropoint.ir.quant import AnyQuantizedType, NoQuantizedType, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import Array, with_shape
from zeropoint.ir.text import parse_program, print_program
from zeropoint.passes import DECIDING_PASSES, run_all
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import constant_bytes
from zeropoint.report.explain import explain
from zeropoint.targets import target

PINNED = """func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> tensor<4xf32> {
  %0 = "quant.qcast"(%x) : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.01>>
  %1 = "quant.dcast"(%0) : (tensor<4x!quant.uniform<i8:f32, 0.01>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
STEPS = [WideningStep((f"conv{n}",), (n,), "float", 0.5**n, 100, 1000) for n in range(10)]
STEPS_16 = [WideningStep(("",), (0, 1), "i16", 0.5, 0, 0)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("quality=20", Budget(quality=20.0)),
        ("size=4MB", Budget(size=4e6)),
        ("quality=22.5dB, latency=800us", Budget(quality=22.5, latency=0.8)),
        ("latency=2s,size=100", Budget(size=100.0, latency=2000.0)),
    ],
)
def test_a_budget_is_read_with_its_units(text: str, found: Budget) -> None:
    assert Budget.parse(text) == found


@pytest.mark.parametrize("text", ["", "quality", "quality=x", "speed=3", "size=4ms", "quality=1,quality=2", "size=.e"])
def test_what_is_no_budget_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(BudgetError, match=f"found budget '{text.split(',')[-1]}', expected"):
        Budget.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (f"size={bad}", "a number of bytes, above 0")
            for bad in ("-1", "0", "-0", "nan", "inf", "-inf", "1e400", "MB")
        ),
        *(
            (f"latency={bad}", "a number of milliseconds, above 0")
            for bad in ("-5ms", "0", "NaN", "infinity", "1e308s")
        ),
        *((f"quality={bad}", "a number of dB, 0 or more") for bad in ("-1", "nan", "infdB", "1e400", "")),
    ],
)
def test_a_limit_that_no_program_or_every_program_meets_is_refused(text: str, expected: str) -> None:
    with pytest.raises(BudgetError, match=f"^found budget '{text}', expected {expected}$"):
        Budget.parse(text)


def ranked(taken: Sequence[WideningStep]) -> Sequence[WideningStep]:
    return STEPS[len(taken) :]


def measured(counts: list[int], reached: Sequence[float]):
    def measure(steps: Sequence[WideningStep]) -> Figures:
        counts.append(len(steps))
        return Figures(reached[len(steps)], 1000 + 300 * len(steps))

    return measure


def test_the_shortest_prefix_of_that_quality_is_found_and_each_length_measured_once() -> None:
    counts: list[int] = []
    spent = spend(ranked, measured(counts, range(10, 21)), Budget(quality=16.0))
    assert [step.name for step in spent.steps] == [f"conv{n}" for n in range(6)]
    assert (spent.before.quality, spent.after.quality) == (10.0, 16.0)
    assert len(counts) == len(set(counts)) <= 7


def test_a_quality_that_no_prefix_has_is_refused_with_the_best_one() -> None:
    with pytest.raises(BudgetError, match=r"found at most 20.0 dB.*at 10 of 10 steps, expected quality=25dB"):
        spend(ranked, measured([], range(10, 21)), Budget(quality=25.0))


def test_within_a_size_the_best_prefix_measured_is_taken() -> None:
    reached = [10.0, 12.0, 15.0, 14.0, 13.0, *[30.0] * 6]
    spent = spend(ranked, measured([], reached), Budget(size=1000 + 300 * 4))
    assert len(spent.steps) == 2
    assert spent.after.size <= 2200


def test_quality_beyond_the_size_is_refused_with_both() -> None:
    with pytest.raises(BudgetError, match=r"found 16.0 dB, 2[0-9]+ B of constants.* expected quality=16dB,size=2000B"):
        spend(ranked, measured([], range(10, 21)), Budget(quality=16.0, size=2000.0))


def test_the_steps_behind_a_prefix_are_ranked_again() -> None:
    def rank(taken: Sequence[WideningStep]) -> Sequence[WideningStep]:
        left = [step for step in STEPS if step not in taken]
        return left[::-1] if taken else left

    spent = spend(rank, measured([], range(10, 21)), Budget(quality=14.0))
    assert [step.name for step in spent.steps] == ["conv0", "conv9", "conv8", "conv7"]


def test_only_what_reaches_the_minimum_in_the_search_is_verified_and_decides() -> None:
    verified: list[int] = []
    on_all = [8.0, 9.0, 13.0, 13.5, 13.9, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0]

    def verify(steps: Sequence[WideningStep]) -> SqnrEstimate:
        verified.append(len(steps))
        return SqnrEstimate(on_all[len(steps)])

    spent = spend(ranked, measured([], range(10, 21)), Budget(14.0, floats=False), verify)
    assert len(spent.steps) == 5
    assert (spent.after.quality, spent.after.verified, spent.available) == (15.0, 15.0, 10)
    assert sorted(verified) == [0, 4, 5, 6, 8]


def test_the_minimum_has_a_margin_where_some_prefix_has_it() -> None:
    def verify(steps: Sequence[WideningStep]) -> SqnrEstimate:
        return SqnrEstimate(10.0 + len(steps), 2.0)

    spent = spend(ranked, measured([], range(10, 21)), Budget(14.0, floats=False), verify)
    assert (len(spent.steps), spent.after.sure) == (6, 14.0)
    spent = spend(ranked, measured([], range(10, 21)), Budget(19.0, floats=False), verify)
    assert (spent.after.reached, spent.after.sure) == (20.0, 18.0)  # the margin is beyond the last prefix
    with pytest.raises(BudgetError, match=r"found at most 20\.0 dB \(18\.0 after subtracting the margin\)"):
        spend(ranked, measured([], range(10, 21)), Budget(20.5, floats=False), verify)


def test_lengths_between_are_tried_if_the_best_one_is_near() -> None:
    """Kernels of different widths need rescales between them: the longest prefix may be worse."""
    reached = [10.0, 12.0, 15.0, 18.0, 17.0, *[16.0] * 6]
    spent = spend(ranked, measured([], reached), Budget(quality=17.5))
    assert len(spent.steps) == 3
    counts: list[int] = []
    with pytest.raises(BudgetError, match=r"found at most 17\.0 dB"):
        spend(ranked, measured(counts, reached), Budget(quality=25.0))
    assert counts == [0, 1, 2, 4, 8, 10]


def test_a_search_ends_with_the_program_that_it_started_from_if_widening_makes_it_worse() -> None:
    reached = [20.0, *[12.0] * 10]
    assert spend(ranked, measured([], reached), Budget(quality=15.0)).steps == ()
    with pytest.raises(BudgetError, match=r"found at most 20\.0 dB.* at 0 of 10 steps"):
        spend(ranked, measured([], reached), Budget(quality=25.0))


def test_a_journal_gives_back_what_was_measured_and_ignores_a_torn_line(tmp_path: Path) -> None:
    program = parse_program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
    path = tmp_path / "journal"
    first = SearchJournal(path, program, "options", resume=False)
    first.add(STEPS[:2], Figures(12.5, 100, 3.0))
    with path.open("a") as file:
        file.write('{"steps": ["conv0 0 fl')
    again = SearchJournal(path, program, "options", resume=True)
    assert again.get(STEPS[:2]) == Figures(12.5, 100, 3.0)
    assert again.get(STEPS[:3]) is None
    with pytest.raises(BudgetError, match="found the journal of another model or other options"):
        SearchJournal(path, program, "other options", resume=True)


@dataclass(frozen=True)
class Noise:
    op: str
    kernel: str
    at_outputs: float


def test_a_journal_gives_back_noise_and_verified_figures(tmp_path: Path) -> None:
    program = parse_program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
    first = SearchJournal(tmp_path / "journal", program, "options", resume=False)
    noise = [Noise("a", "convolution", 0.25), Noise("b", "convolution", float("inf"))]
    first.add_noise(STEPS[:2], noise)
    first.add_verified(STEPS[:2], Verified(12.25, 0.5))
    again = SearchJournal(tmp_path / "journal", program, "options", resume=True)
    assert [Noise(one.op, one.kernel, one.at_outputs) for one in again.noise(STEPS[:2]) or ()] == noise
    assert again.verified(STEPS[:2]) == Verified(12.25, 0.5)
    assert (again.get(STEPS[:2]), again.noise(STEPS), again.verified(STEPS)) == (None, None, None)


def test_a_search_that_is_broken_off_after_each_record_repeats_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"budget": None, "least_sqnr": 22.0, "target": "litert", "effort": "none"}
    alone, runs = searched(tmp_path, None, **options), 0
    write = SearchJournal._write  # pyright: ignore[reportPrivateUsage] (every record passes it)

    def write_and_die(journal: SearchJournal, *record: Any) -> None:
        write(journal, *record)
        raise KeyboardInterrupt

    monkeypatch.setattr(SearchJournal, "_write", write_and_die)
    journal, lines = tmp_path / "journal", [1]
    for runs in range(30):
        try:
            assert searched(tmp_path, Work(1, journal, runs > 0), **options) == alone
            break
        except KeyboardInterrupt:
            lines.append(len((tmp_path / "journal.budget").read_text().splitlines()))
    assert lines == [*range(1, runs + 2)]
    assert runs > 6


def test_a_command_that_is_killed_while_it_writes_the_result_repeats_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_program(network(), tmp_path / "model.mlir")
    np.savez(tmp_path / "data.npz", x0=np.concatenate([sample["x0"] for sample in data()]))
    arguments = ["quantize", str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz"), "--effort", "none"]
    arguments += ["--budget", "quality=34", "-o", str(tmp_path / "q.mlir")]

    def die(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_together", die)
        assert CliRunner().invoke(main, arguments).exit_code != 0
    assert (tmp_path / ".q.mlir.journal.budget").exists()
    assert not (tmp_path / "q.mlir").exists()
    monkeypatch.setattr(Candidates, "figures", die)
    assert CliRunner().invoke(main, [*arguments, "--resume"]).exit_code == 0
    assert sorted(path.name for path in tmp_path.glob("*q.mlir*")) == ["q.mlir"]


DAMAGED: dict[str, bytes] = {
    "noise that is no list": b'{"steps": [], "noise": 5}',
    "noise of no kernel": b'{"steps": [], "noise": [5]}',
    "noise below 0": b'{"steps": [], "noise": [["a", "add", -1.0]]}',
    "a text as noise": b'{"steps": [], "noise": [["a", "add", "b"]]}',
    "a name that is no text": b'{"steps": [], "noise": [[1, "add", 1.0]]}',
    "a text as a margin": b'{"steps": [], "verified": 1.0, "margin": "b"}',
    "verified without a margin": b'{"steps": [], "verified": 1.0}',
    "no steps": b'{"quality": 1.0, "size": 5}',
    "steps that are no list": b'{"steps": 5, "quality": 1.0, "size": 5}',
    "steps that are a text": b'{"steps": "conv0", "quality": 1.0, "size": 5}',
    "steps that are no texts": b'{"steps": [[1]], "quality": 1.0, "size": 5}',
    "no figures": b'{"steps": []}',
    "other figures": b'{"steps": [], "quality": 1.0, "size": 5, "speed": 9}',
    "a text as a figure": b'{"steps": [], "quality": "good", "size": 5}',
    "true as a figure": b'{"steps": [], "quality": 1.0, "size": true}',
    "a fraction of a byte": b'{"steps": [], "quality": 1.0, "size": 5.5}',
    "nothing as a figure": b'{"steps": [], "quality": null, "size": 5}',
    "bytes that are not text": b'{"steps": [], "quality": 1.0, "size": 5, "latency": "\xff"}',
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_journal_is_refused(damage: str, tmp_path: Path) -> None:
    program = parse_program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
    path = tmp_path / "journal"
    SearchJournal(path, program, "options", resume=False).add(STEPS[:2], Figures(12.5, 100, 3.0))
    path.write_bytes(path.read_bytes() + DAMAGED[damage] + b"\n")
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="found the journal of another model or other options, or a damaged one"):
        SearchJournal(path, program, "options", resume=True)
    assert path.read_bytes() == before


@functools.cache
def network() -> Program:
    """Four convolutions; the second one's result has a channel of 60 times the others, which cost it six bits."""
    net = Network([(1, 6, 8, 8)], seed=2)
    value = net.values[0]
    for number in range(4):
        net.layer("conv")
        weight = net.random.normal(0, 0.4, (6, 6, 1, 1))
        if number == 1:
            weight[0] *= 60
        if number == 2:
            weight[:, 0] /= 60
        layout = ConvolutionLayout.channels_first(2)
        made = ConvolutionOp(value, net.constant(weight), with_shape(value, [1, 6, 8, 8]), layout)
        value = net.insert(made)
        net.values.append(value)
    return net.finish([value])


def data(count: int = 8) -> list[dict[str, Array]]:
    random = np.random.default_rng(0)
    return [{"x0": random.normal(0, 1, (1, 6, 8, 8)).astype(np.float32)} for _ in range(count)]


@functools.cache
def quantized(budget: str, target: str = "cpu", effort: str = "none") -> Quantization:
    return quantize(network(), data(), Options(target, observer="minmax", effort=effort, budget=Budget.parse(budget)))


def test_kernels_stay_float_until_the_quality_is_reached_and_the_program_says_which() -> None:
    made = quantized("quality=34")
    assert made.spent is not None
    assert made.spent.before.quality < 34 <= made.spent.after.quality
    assert {step.width for step in made.spent.steps} == {"float"}
    assert 0 < len(made.spent.steps) < 4
    text = str(explain(made.integer))
    assert "budget quality=34dB: " in text
    assert f"  {made.spent.steps[0].name}: float; " in text
    assert "of the noise at the outputs" in text
    reference, found = Interpreter(network()), Interpreter(made.integer)
    pairs = [(reference(one), found(one)) for one in SampleParts.of(data()).held]
    assert least_output_sqnr(pairs) == pytest.approx(made.spent.after.quality, abs=0.01)


def test_what_the_outlier_costs_is_found_first() -> None:
    made = quantized("quality=34")
    assert made.spent is not None
    assert made.spent.steps[0].regions == (1,)
    assert made.spent.steps[0].share > 0.4


def test_a_target_with_two_widths_takes_the_wider_storage_before_float() -> None:
    made = quantized("quality=20", "litert")
    assert made.spent is not None
    assert {step.width for step in made.spent.steps} == {"i16"}
    specs = [region.output_specs.data[0] for region in regions_of(made.propagated)]
    assert any(isinstance(spec, UniformQuantizedType) and spec.storage.type.width == 16 for spec in specs)


def test_a_size_is_kept() -> None:
    narrow = constant_bytes(quantized("quality=1").integer)
    made = quantized(f"size={narrow + 150}")
    assert made.spent is not None
    assert constant_bytes(made.integer) <= narrow + 150
    assert made.spent.after.quality > made.spent.before.quality + 10


def test_the_summary_counts_each_kernel_once_by_its_last_width() -> None:
    steps = (
        WideningStep(("a",), (0,), "i16", 0.1, 0, 0),
        WideningStep(("b",), (1, 3), "i16", 0.1, 0, 0),
        WideningStep(("c",), (4,), "i16", 0.1, 0, 0),
        WideningStep(("a",), (0,), "float", 0.1, 0, 0),
    )
    made = Spent(Budget(quality=60.0), steps, Figures(1.0, 0), Figures(2.0, 0), between={2: "d", 4: "c"})
    assert "with 2 i16 and 3 float kernels" in str(made)
    facts = [(fact.name, fact.value.partition(";")[0]) for fact in made.facts()]
    assert facts == [("a", "float"), ("b", "i16"), ("d", "float"), ("c", "float")]


def test_the_summary_counts_the_kernels_that_stay_float() -> None:
    made = quantized("quality=100", "litert")
    floats = [isinstance(region.output_specs.data[0], NoQuantizedType) for region in regions_of(made.propagated)]
    assert all(floats)
    assert f"with {len(floats)} float kernels" in str(made.spent)


def test_a_kernel_whose_type_is_fixed_may_stay_float_before_one_that_is_quantized() -> None:
    """Calibration does not observe it: its range is that of the type."""
    text = """func.func @main(%x: tensor<1x4xf32>, %m: tensor<1x4xi32>) -> tensor<1x4xf32> {
      %0 = stablehlo.tanh %x : tensor<1x4xf32>
      %1 = stablehlo.convert %m : (tensor<1x4xi32>) -> tensor<1x4xf32>
      %2 = stablehlo.multiply %0, %1 : tensor<1x4xf32>
      return %2 : tensor<1x4xf32>
    }"""
    random = np.random.default_rng(0)
    samples = [
        {"arg0": random.normal(size=(1, 4)).astype(np.float32), "arg1": np.array([[1, 1, 1, n % 2]], np.int32)}
        for n in range(8)
    ]
    made = quantize(parse_program(text), samples, Options(effort="none", budget=Budget.parse("quality=60")))
    assert made.spent is not None
    assert made.spent.after.quality > 60


def test_a_kernel_between_two_floats_stays_float() -> None:
    program = quantized("quality=1").calibrated
    chosen = [WideningStep(("",), (0, 2), "float", 0.5, 0, 0)]
    made = regions_of(widened(program, chosen, Budget(quality=1.0), target("cpu")))
    floats = [all(isinstance(spec, NoQuantizedType) for spec in region.output_specs) for region in made]
    assert floats == [True, True, True, False]


def test_corrections_are_part_of_every_measurement() -> None:
    made = quantized("quality=34", effort="fast")
    assert made.spent is not None
    assert made.corrections.attempts
    assert made.spent.after.quality >= 34


def test_a_search_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    save_program(network(), tmp_path / "model.mlir")
    np.savez(tmp_path / "data.npz", x0=np.concatenate([sample["x0"] for sample in data()]))
    arguments = ["quantize", str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz"), "--effort", "none"]
    arguments += ["--budget", "quality=34,size=10", "-o", str(tmp_path / "q.mlir")]
    failed = CliRunner().invoke(main, arguments)  # the journal stays: the search found no answer
    assert failed.exit_code == 2
    assert "expected quality=34dB,size=10B; raise size or lower quality" in failed.output
    journal = tmp_path / ".q.mlir.journal.budget"
    before = journal.read_text()
    assert len(before.splitlines()) > 2
    assert all(json.loads(line) for line in before.splitlines())
    again = CliRunner().invoke(main, [*arguments, "--resume"])
    assert again.exit_code == 2
    assert (
        "expected quality=34dB,size=10B; raise size or lower quality" in again.output
    )  # not that the journal is another's
    assert journal.read_text() == before
    assert not (tmp_path / "q.mlir").exists()


def test_a_candidate_is_released_before_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Quantization]] = []
    whole = Finish.__call__

    def watched(finish: Finish, calibrated: Program) -> Quantization:
        assert not [one for one in made if one() is not None]
        found = whole(finish, calibrated)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(Finish, "__call__", watched)
    quantized("quality=40")
    assert len(made) > 2


def test_python_takes_a_budget_and_measures_latency() -> None:
    with pytest.raises(BudgetError, match="found budget 'fast=1'"):
        zp.quantize(zp.Model(network()), data(), budget="fast=1")
    made = zp.quantize(zp.Model(network()), data(), budget="latency=10s", effort="none")
    assert made.quantization is not None
    assert made.quantization.spent is not None
    assert made.quantization.spent.after.latency is not None
    assert 0 < made.quantization.spent.after.latency < 10_000


def test_a_budget_needs_data() -> None:
    with pytest.raises(ValueError, match=r"found a budget \(--budget\) without data"):
        quantize(parse_program(PINNED), None, Options(budget=Budget(quality=3.0)))


def test_what_may_be_measured_next_is_announced_and_does_not_change_the_result() -> None:
    told: list[list[int]] = []

    def ahead(lists: Iterable[Sequence[WideningStep]], *, ranked: bool = False) -> None:
        told.append([len(steps) for steps in lists])

    alone = spend(ranked, measured([], range(10, 21)), Budget(quality=16.0))
    assert spend(ranked, measured([], range(10, 21)), Budget(quality=16.0), ahead=ahead) == alone
    assert told == [[0], [1], [2], [4, 3], [8, 6, 5, 7], [6, 5, 7], [5]]


def searched(path: Path, work: Work | None, engine: Engine | None = None, **options: Any) -> tuple[str, str]:
    """The integer program of a search, and its result; no file is left."""
    given = Options(**{"budget": Budget.parse("quality=34"), "effort": "fast", "observer": "minmax", **options})
    made = quantize(network(), data(), given, engine=engine, work=work)
    assert not list(path.iterdir())
    return print_program(made.integer), str(made.spent or made.widths)


@pytest.mark.parametrize(
    "options",
    [
        {"budget": None, "least_sqnr": 22.0, "target": "litert", "effort": "none"},
        {"budget": Budget.parse("size=1200"), "effort": "none"},
    ],
)
def test_a_search_by_workers_gives_the_bits_of_one_process(tmp_path: Path, options: dict[str, Any]) -> None:
    alone = searched(tmp_path, None, **options)
    assert searched(tmp_path, Work(2, tmp_path / "journal"), **options) == alone


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_workers_of_a_search_that_are_killed_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = tmp_path / "orders"

    def begin(*arguments: Any) -> Any:
        orders.mkdir()
        (orders / "die").touch()
        return by_workers(*arguments)

    alone = searched(tmp_path, None)
    monkeypatch.setattr(budget_search, "by_workers", begin)
    folder = tmp_path / "work"
    folder.mkdir()
    assert searched(folder, Work(2, folder / "journal"), Deadly(orders, os.getpid())) == alone
    assert not list(orders.iterdir())


WIDE_INPUT = """
name = "two_widths"
extends = "cpu"
""" + "".join(
    f"""
[[kernel]]
name = "convolution"
inputs = ["act {read}", "weight i8<-127:127> zp=0 per_channel", "bias i32 zp=0 per_channel"]
output = "act {made}"
relation = "multiplier_accumulator_scale"
accumulator = 32
"""
    for read, made in (("i8", "i8"), ("i8", "i16<-4096:4095>"), ("i16<-4096:4095>", "i16<-4096:4095>"))
)


def test_a_kernel_that_is_widened_reads_the_programs_input_wide_if_the_target_has_that_row(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(WIDE_INPUT)
    table = target(str(tmp_path / "two.toml"))
    program = quantized("quality=1").calibrated
    first, second, *_ = regions_of(widened(program, STEPS_16, Budget(floats=False), table))
    assert [width_of(spec) for spec in (first.input_specs.data[0], first.output_specs.data[0])] == [16, 16]
    assert [width_of(spec) for spec in (second.input_specs.data[0], second.output_specs.data[0])] == [None, 16]
    narrow_input, *_ = regions_of(widened(program, STEPS_16, Budget(floats=False), target("cpu")))
    assert width_of(narrow_input.input_specs.data[0]) is None  # no row of cpu is wide
    decided = run_all(
        DECIDING_PASSES, widened(program, STEPS_16, Budget(floats=False), table), {"target": str(tmp_path / "two.toml")}
    )
    specs = regions_of(decided)[0].input_specs.data[0], regions_of(decided)[0].output_specs.data[0]
    assert all(isinstance(spec, UniformQuantizedType) and str(spec.storage) == "i16<-4096:4095>" for spec in specs)


def weights_of(made: Quantization) -> list[str]:
    return [str(region.input_specs.data[1].storage) for region in regions_of(made.propagated)]


def test_weights_have_four_bits_where_eight_are_too_large() -> None:
    whole = constant_bytes(quantized("quality=1").integer)
    made, bytes_ = quantized(f"size={whole - 30}"), quantized(f"size={whole}")
    assert made.spent is not None
    assert bytes_.spent is not None
    assert constant_bytes(made.integer) <= whole - 30
    widths = weights_of(made)
    assert {width.partition("<")[0] for width in widths} == {"i4", "i8"}
    assert {step.width for step in made.spent.steps} == {"i8"}
    assert sorted(made.spent.narrow) == [n for n, width in enumerate(widths) if width.startswith("i4")]
    assert f"with {len(made.spent.steps)} i8 and {len(made.spent.narrow)} i4 kernels" in str(made.spent)
    assert "i4 weights; the budget has no room for more" in str(explain(made.integer))
    assert not bytes_.spent.narrow
    reference, found = Interpreter(network()), Interpreter(made.integer)
    pairs = [(reference(one), found(one)) for one in SampleParts.of(data()).held]
    assert least_output_sqnr(pairs) == pytest.approx(made.spent.after.quality, abs=0.01)


def test_a_size_that_four_bits_do_not_meet_is_refused() -> None:
    with pytest.raises(BudgetError, match=r"found .* at 0 of \d+ steps, expected size=50B; raise size"):
        quantized("size=50")


def test_targets_without_four_bits_keep_bytes() -> None:
    with pytest.raises(BudgetError, match="expected size=50B"):
        quantized("size=50", "tosa")


def width_of(spec: object) -> int | None:
    return spec.storage.type.width if isinstance(spec, AnyQuantizedType) else None
