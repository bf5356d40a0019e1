"""Run an instrumented program over samples and record the observed ranges.

```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "conv1"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
```
becomes
```mlir
%1 = "quant.stats"(%0) {layerStats = dense<[-1.25, 3.5]> : tensor<2xf32>} : (tensor<1x4x8x8xf32>) -> ...
```

Source: "MLIR Quantization", section "Instrumentation and constraint ops": stats_ref ops are converted to stats ops once
trial runs have been performed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import length_hint

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from zeropoint.calibrate.ahead import observed
from zeropoint.calibrate.candidates import Kept, OutputObserver
from zeropoint.calibrate.choices import observer_factory
from zeropoint.calibrate.distribution import Distribution
from zeropoint.calibrate.histogram import count_by
from zeropoint.calibrate.infinite import advice, is_constant, is_meant
from zeropoint.calibrate.observers import Observer, ObserverFactory
from zeropoint.calibrate.output_noise import output_noise
from zeropoint.calibrate.reader_requests import with_reader_requests
from zeropoint.calibrate.report import Observation, Report
from zeropoint.calibrate.spread import Spread, Work
from zeropoint.calibrate.workers import Recorder
from zeropoint.errors import Error
from zeropoint.freed_memory import give_back_memory
from zeropoint.interp import Concurrent, Engine, MaskedEngine, ReferenceEngine, Runnable
from zeropoint.ir.annotations import EXTREMES, QUANTILES
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress, silent

INSIDE_OBSERVER = "mse"
"""The observer of values inside regions."""


class CalibrationError(Error, ValueError):
    """The samples do not determine a range: there are none, or a value is never finite. `op` is the value's request."""

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message)
        self.op = op


def stats_keys(program: Program) -> list[str]:
    """The keys of the program's `quant.stats_ref` ops, each once, in program order."""
    references = (op for op in program.module.walk() if isinstance(op, StatisticsRefOp))
    return list(dict.fromkeys(reference.stats_key.data for reference in references))


def _keys_inside(program: Program) -> list[str]:
    """The keys of values inside regions. No kernel stores these values, so only their quantiles are used."""
    return [
        op.stats_key.data
        for op in program.module.walk()
        if isinstance(op, StatisticsRefOp) and isinstance(op.parent_op(), QuantizeRegionOp)
    ]


def collect(
    program: Program,
    samples: Iterable[Mapping[str, Array]],
    *,
    observer: str | ObserverFactory = "minmax",
    observers: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    work: Work | None = None,
    recorder: Recorder | None = None,
) -> Report:
    """Run the program once per sample, and observe the value at each `quant.stats_ref`.

    A sample maps each input's name to an array of its shape and dtype. Samples are consumed one at a time and not kept.
    `observers` overrides `observer` for some of the keys, by name. `engine` runs the program (default: the reference
    interpreter), and `progress` reports progress. `work` distributes the samples over processes and keeps a journal.
    The report is bit-identical with and without it, but observers must be given by name. `recorder` sees the
    runs in this process.

    A program without `quant.stats_ref` is not run. Raises CalibrationError if there are no samples, or if all values at
    a point are NaN or infinite. Raises ValueError for an unknown observer, or for an observer factory together with
    `work`. Passes on the errors of the engine for inputs that do not fit. With `work`, also raises JournalError and
    WorkerError.
    """
    factory = observer_factory(observer) if isinstance(observer, str) else observer
    observers = {**dict.fromkeys(_keys_inside(program), INSIDE_OBSERVER), **(observers or {})}
    factories = {key: observer_factory(name) for key, name in observers.items()}
    states: dict[str, Observer] = {key: factories.get(key, factory)() for key in stats_keys(program)}
    if not states:
        return Report({}, 0)
    kept = Kept()
    judges = any(isinstance(state, OutputObserver) for state in states.values())
    see = kept.see if judges else None
    run: Runnable | None = None
    here = work is None or work.workers == 1
    # With a mask, no kernel runs again.
    again = judges and here and not isinstance(engine, MaskedEngine)
    requesting = with_reader_requests(program) if again else program
    if work is None:
        run = (engine or ReferenceEngine()).prepare(requesting)
        count_by(engine or ReferenceEngine(), states.values())
        count = _observe(run, samples, states, progress or silent, see, recorder)
    else:
        if not isinstance(observer, str):
            raise ValueError("found an observer factory together with work, expected the name of an observer")
        names = {key: observers.get(key, observer) for key in states}
        spread = Spread(program, names, engine or ReferenceEngine(), work, see, recorder, requesting)
        states = spread(samples, progress or silent)
        count, run = spread.count, spread.run if judges else None
        del spread  # its program may hold a copy of the weights
    if not count:
        raise CalibrationError("found no samples; expected at least one to calibrate with")
    program = requesting
    requests = {op.stats_key.data: op for op in program.module.walk() if isinstance(op, StatisticsRefOp)}
    shown = progress or silent
    observations = {
        key: _observation(requests[key], state, count, program) for key, state in shown(list(states.items()), "ranges")
    }
    chosen = _judged(program, states, kept, engine or ReferenceEngine(), shown, run)
    for key, (minimum, maximum) in chosen.items():
        observations[key] = replace(observations[key], minimum=minimum, maximum=maximum)
    spread_out = {key: found for key, state in states.items() if (found := Distribution.of(state)) is not None}
    return Report(observations, count, spread_out)


def _observe(
    run: Runnable,
    samples: Iterable[Mapping[str, Array]],
    states: Mapping[str, Observer],
    progress: Progress,
    see: Callable[[Mapping[str, Array]], object] | None,
    recorder: Recorder | None,
) -> int:
    """Run the samples in this process, in order. Returns their number."""
    # A sample of a stream, whose length is unknown, is read when the one before has run.
    callers = run.callers if isinstance(run, Concurrent) and length_hint(samples) else 1
    given = progress(samples, "calibrate")
    return sum(1 for _ in observed(run, states, given if see is None else _seen(given, see), recorder, callers))


def _seen(
    samples: Iterable[Mapping[str, Array]], see: Callable[[Mapping[str, Array]], object]
) -> Iterator[Mapping[str, Array]]:
    """The samples, seen before the next one, which may be in the same arrays."""
    for sample in samples:
        see(sample)
        yield sample


def _judged(
    program: Program,
    states: Mapping[str, Observer],
    kept: Kept,
    engine: Engine,
    progress: Progress,
    run: Runnable | None,
) -> dict[str, tuple[float, float]]:
    """The chosen ranges of the values whose candidates are judged by the noise at their readers."""
    judged = {key: state for key, state in states.items() if isinstance(state, OutputObserver) and state.count}
    tried = ((key, state.candidates()) for key, state in progress(list(judged.items()), "candidate ranges"))
    ranges = {key: candidates for key, candidates in tried if len(candidates) > 1}
    if not ranges:
        return {}
    give_back_memory()  # kernels that run again come on top of what calibration has freed
    noise = output_noise(program, ranges, kept.judged, engine, progress, run)
    return {key: judged[key].choice(tried, noise[key]) for key, tried in ranges.items()}


def _observation(request: StatisticsRefOp, observer: Observer, samples: int, program: Program) -> Observation:
    observation = Observation.of(observer)
    if not observation.count and observation.not_finite:
        kinds = "NaN or infinite" if observation.nan_count else "infinite"
        raise CalibrationError(
            f"'{request.stats_key.data}': found {observation.not_finite} values in {samples} samples, all {kinds}; "
            f"expected finite ones; {advice(request, program)}",
            request,
        )
    if observation.infinite_count and is_meant(request, program):
        observation = replace(observation, hides=True)
    is_zero = observation.minimum == observation.maximum == 0
    return replace(observation, constant=True) if is_zero and is_constant(request) else observation


def _f32_elements(values: tuple[float, ...]) -> DenseIntOrFPElementsAttr:
    return DenseIntOrFPElementsAttr.from_list(TensorType(f32, [len(values)]), values)


def state_ranges(program: Program, report: Report) -> Program:
    """A copy in which each `quant.stats_ref` is replaced by a `quant.stats` with the report's range for its key.

    A range of a single value, even 0, is recorded unchanged, and `zeropoint.numerics` decides its scale. Raises
    CalibrationError if the report lacks a key.
    """
    program = program.for_change()
    for reference in [op for op in program.module.walk() if isinstance(op, StatisticsRefOp)]:
        key = reference.stats_key.data
        if key not in report.observations:
            raise CalibrationError(
                f"found no statistics of '{key}', expected them for every quant.stats_ref", reference
            )
        observation = report.observations[key]
        stated = StatisticsOp(reference.arg, (observation.minimum, observation.maximum))
        stated.location = reference.location
        if observation.quantiles:
            stated.attributes[QUANTILES] = _f32_elements(observation.quantiles)
        if observation.extremes is not None:
            stated.attributes[EXTREMES] = _f32_elements(observation.extremes)
        Rewriter.replace_op(reference, stated)
    return program


def calibrate(
    program: Program,
    samples: Iterable[Mapping[str, Array]],
    *,
    observer: str | ObserverFactory = "minmax",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Program:
    """`collect` and `state_ranges`: the program with a `quant.stats` in place of each `quant.stats_ref`."""
    report = collect(program, samples, observer=observer, engine=engine, progress=progress)
    return state_ranges(program, report)
