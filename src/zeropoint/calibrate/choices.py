"""The observers by name."""

from __future__ import annotations

from collections.abc import Callable

from zeropoint.calibrate.candidates import OutputObserver
from zeropoint.calibrate.histogram import PercentileObserver
from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.observers import ObserverFactory

DEFAULT_OBSERVER = "output"
"""The default observer: the range of `mse`, or that of `minmax` if it gives clearly less noise at the kernels that read
the value (docs/accuracy.md)."""


def _minmax(argument: str) -> ObserverFactory:
    if argument:
        raise ValueError(f"found observer 'minmax:{argument}'; expected 'minmax', which takes no argument")
    return lambda: PercentileObserver(100.0)  # the same range, and how the values are spread inside it


def _percentile(argument: str) -> ObserverFactory:
    try:
        percentile = float(argument) if argument else PercentileObserver.percentile
    except ValueError:
        raise ValueError(f"found observer 'percentile:{argument}'; expected a number, as 'percentile:99.9'") from None
    PercentileObserver(percentile)  # raises for a percentile that makes no sense
    return lambda: PercentileObserver(percentile)


def _mse(argument: str) -> ObserverFactory:
    if argument:
        raise ValueError(f"found observer 'mse:{argument}'; expected 'mse', which takes no argument")
    return MeanSquareObserver


def _output(argument: str) -> ObserverFactory:
    if argument:
        raise ValueError(f"found observer 'output:{argument}'; expected 'output', which takes no argument")
    return OutputObserver


OBSERVERS: dict[str, Callable[[str], ObserverFactory]] = {
    "minmax": _minmax,
    "mse": _mse,
    "output": _output,
    "percentile": _percentile,
}
"""Name -> function from the argument after the colon ("99.9" in "percentile:99.9") to an observer factory."""


def observer_factory(text: str) -> ObserverFactory:
    """The observer factory for a name such as "minmax", "percentile" or "percentile:99.9".

    Raises ValueError, naming the choices, for an unknown name or a bad argument.
    """
    name, _, argument = text.partition(":")
    if name not in OBSERVERS:
        raise ValueError(f"found observer '{text}'; expected one of: {', '.join(OBSERVERS)} (or percentile:99.9)")
    return OBSERVERS[name](argument)
