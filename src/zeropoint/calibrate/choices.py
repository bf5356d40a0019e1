"""The observers by name."""

from __future__ import annotations

from collections.abc import Callable

from zeropoint.calibrate.candidates import OutputObserver, runs_with_judging
from zeropoint.calibrate.entropy import EntropyObserver
from zeropoint.calibrate.histogram import PercentileObserver
from zeropoint.calibrate.moving_average import MovingAverageObserver
from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.observers import ObserverFactory
from zeropoint.errors import OptionError

DEFAULT_OBSERVER = "output"
"""The default observer.

It takes the range of `mse`, or that of `minmax` if it gives clearly less noise at the kernels that read the value
(docs/accuracy.md).
"""


def _percentile(argument: str) -> ObserverFactory:
    try:
        percentile = float(argument) if argument else PercentileObserver.percentile
    except ValueError:
        raise OptionError(f"found observer 'percentile:{argument}'; expected a number: 'percentile:99.9'") from None
    PercentileObserver(percentile)  # raises for an impossible percentile
    return lambda: PercentileObserver(percentile)


def _plain(name: str, factory: ObserverFactory) -> Callable[[str], ObserverFactory]:
    """The factory of an observer that takes no argument."""

    def made(argument: str) -> ObserverFactory:
        if argument:
            raise OptionError(f"found observer '{name}:{argument}'; expected '{name}', which takes no argument")
        return factory

    return made


OBSERVERS: dict[str, Callable[[str], ObserverFactory]] = {
    "entropy": _plain("entropy", EntropyObserver),
    # minmax keeps the distribution, too, because its quantiles are part of the statistics.
    "minmax": _plain("minmax", lambda: PercentileObserver(100.0)),
    "moving_average": _plain("moving_average", MovingAverageObserver),
    "mse": _plain("mse", MeanSquareObserver),
    "output": _plain("output", OutputObserver),
    "percentile": _percentile,
}
"""The observers by name. Each function maps the argument after the colon ("99.9" in "percentile:99.9") to a factory."""


def observer_factory(text: str) -> ObserverFactory:
    """The observer factory for a name such as "minmax", "percentile" or "percentile:99.9".

    Raises OptionError, listing the names, for an unknown name or an invalid argument.
    """
    name, _, argument = text.partition(":")
    if name not in OBSERVERS:
        raise OptionError(f"found observer '{text}'; expected one of: {', '.join(OBSERVERS)} (or percentile:99.9)")
    return OBSERVERS[name](argument)


def expected_runs(observer: str, samples: int) -> int:
    """About how many runs of the network calibration on so many samples takes as long as, at least 1."""
    judges = isinstance(observer_factory(observer)(), OutputObserver)
    return max(1, runs_with_judging(samples) if judges else samples)
