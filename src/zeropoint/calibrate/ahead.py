"""Runs a program on the next sample while the values of one sample are observed, which takes about as long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from threading import Event

import numpy as np

from zeropoint.calibrate.observers import Observer
from zeropoint.calibrate.workers import Recorder, observe
from zeropoint.interp import Observe, Runnable
from zeropoint.ir.arguments import Sample
from zeropoint.ir.tensors import Array


class _Turn:
    """A run whose values are observed after those of the run before, even if that one failed."""

    def __init__(self, run: Runnable, before: Event):
        self._run, self._before, self.done = run, before, Event()

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        def see(key: str, array: Array) -> None:
            self._before.wait()
            if observe is not None:
                observe(key, array)

        outputs = self._run(inputs, observe=see)
        self._before.wait()
        return outputs

    def observe(self, states: Mapping[str, Observer], sample: Sample, recorder: Recorder | None) -> Sample:
        """Run a sample and update the observers. Returns the sample."""
        try:
            observe(self, states, [sample], recorder)
        finally:
            self.done.set()
        return sample


@dataclass(frozen=True)
class _Copied:
    """A run that reads copies of its inputs: the caller may write the next sample into the same arrays."""

    run: Runnable
    inputs: Sample

    @staticmethod
    def of(run: Runnable, sample: Sample) -> _Copied:
        """The run for a sample, which is copied now."""
        return _Copied(run, {name: np.array(array) for name, array in sample.items()})

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        return self.run(self.inputs, observe=observe)


def observed(
    run: Runnable,
    states: Mapping[str, Observer],
    samples: Iterable[Sample],
    recorder: Recorder | None,
    callers: int,
) -> Iterator[Sample]:
    """Each sample, once the observers have seen its values; all in order. At most `callers` runs are under way.

    The error of an earlier sample is raised before that of a later one, or of iterating the samples.
    """
    if callers < 2:
        for sample in samples:
            observe(run, states, [sample], recorder)
            yield sample
        return
    before, iterator = Event(), iter(samples)
    before.set()
    with ThreadPoolExecutor(callers) as pool:
        pending: deque[Future[Sample]] = deque()
        while True:
            try:
                sample = next(iterator, None)
            except BaseException:
                while pending:
                    yield pending.popleft().result()
                raise
            if sample is not None:
                turn = _Turn(_Copied.of(run, sample), before)
                pending.append(pool.submit(copy_context().run, turn.observe, states, sample, recorder))
                before = turn.done
            if len(pending) == callers or (sample is None and pending):
                yield pending.popleft().result()
            elif sample is None:
                return
