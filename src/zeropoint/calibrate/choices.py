"""The observers by name, listed in one place."""

from __future__ import annotations

from collections.abc import Callable

from zeropoint.calibrate.candidates import OutputObserver
from zeropoint.calibrate.histogram import PercentileObserver
from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.observers import ObserverFactory

DEFAULT_OBSERVER = "output"
"""What `quantize` observes with unless told: the range of `mse`, or of `minmax` where the kernels that read the value
have clearly less noise by that (docs/accuracy.md)."""


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
"""By name: from what follows the colon ("99.9" of "percentile:99.9") to a maker of observers."""


def observer_factory(text: str) -> ObserverFactory:
    """The maker of observers that `text` names: "minmax", "percentile", "percentile:99.9".

    Raises ValueError, naming the choices.
    """
    name, _, argument = text.partition(":")
    if name not in OBSERVERS:
        raise ValueError(f"found observer '{text}'; expected one of: {', '.join(OBSERVERS)} (or percentile:99.9)")
    return OBSERVERS[name](argument)
