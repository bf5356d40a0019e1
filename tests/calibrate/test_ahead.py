"""Runs ahead of what is observed: the order of observers and of errors is that without them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from zeropoint.calibrate.ahead import observed
from zeropoint.calibrate.observers import MinMaxObserver
from zeropoint.interp import Observe
from zeropoint.ir.arguments import Sample
from zeropoint.ir.tensors import Array

SAMPLES: list[Sample] = [{"x": np.array([number], np.float32)} for number in range(8)]


class Meeting:
    """Observes its input. A run waits until another one has begun, if there is one to come."""

    def __init__(self, fails: frozenset[int] = frozenset()):
        self.begun = [threading.Event() for _ in range(len(SAMPLES) + 1)]
        self.begun[-1].set()
        self.fails = fails

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        number = int(inputs["x"][0])
        self.begun[number].set()
        assert self.begun[number + 1].wait(10), f"found no run of sample {number + 1} beside that of {number}"
        if number in self.fails:
            raise ValueError(f"sample {number}")
        assert observe is not None
        observe("x", inputs["x"])
        return dict(inputs)


class Listed:
    """A recorder of the order of values and samples."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def observe(self, key: str, array: Array) -> None:
        self.seen.append((key, float(array[0])))

    def ran(self, sample: Sample, outputs: dict[str, Array]) -> None:
        self.seen.append(("ran", float(outputs["x"][0])))


def test_the_next_run_begins_before_the_values_of_one_are_observed_and_these_stay_in_order() -> None:
    listed, states = Listed(), {"x": MinMaxObserver()}
    found = list(observed(Meeting(), states, SAMPLES, listed, 2))
    assert [sample["x"] for sample in found] == [sample["x"] for sample in SAMPLES]
    assert listed.seen == [(what, number) for number in range(len(SAMPLES)) for what in ("x", "ran")]
    assert states["x"].range() == (0.0, 7.0)


def test_samples_may_be_in_the_same_arrays_one_after_the_other() -> None:
    def refilled() -> Iterator[Sample]:
        array = np.empty(1, np.float32)
        for sample in SAMPLES:
            array[...] = sample["x"]
            yield {"x": array}

    listed = Listed()
    assert len(list(observed(Meeting(), {"x": MinMaxObserver()}, refilled(), listed, 2))) == len(SAMPLES)
    assert listed.seen == [(what, number) for number in range(len(SAMPLES)) for what in ("x", "ran")]


def test_the_error_of_the_first_sample_that_fails_is_raised() -> None:
    run = Meeting(frozenset({3, 4}))
    run.begun[5].set()  # it is never asked for
    with pytest.raises(ValueError, match="sample 3"):
        list(observed(run, {"x": MinMaxObserver()}, SAMPLES, None, 2))


@pytest.mark.parametrize(("fails", "message"), [((), "no more"), ((1,), "sample 1")])
def test_an_error_of_iterating_the_samples_comes_after_those_of_samples_before(fails: tuple[int], message: str) -> None:
    run = Meeting(frozenset(fails))
    run.begun[2].set()

    def broken() -> Iterator[Sample]:
        yield from SAMPLES[:2]
        raise ValueError("no more")

    with pytest.raises(ValueError, match=message):
        list(observed(run, {"x": MinMaxObserver()}, broken(), None, 2))
