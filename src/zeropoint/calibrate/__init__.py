"""Calibration: ask at the ports that it has to decide, run samples, state the ranges that were observed."""

from zeropoint.calibrate.collect import CalibrationError, calibrate, collect, state_ranges, stats_keys
from zeropoint.calibrate.data import DataError, Sample, Source, samples
from zeropoint.calibrate.instrument import Asks, asks_all, instrument
from zeropoint.calibrate.observers import (
    OBSERVERS,
    MinMaxObserver,
    Observer,
    ObserverFactory,
    PercentileObserver,
    observer_factory,
)
from zeropoint.calibrate.progress import Progress, bar, silent
from zeropoint.calibrate.report import Observation, Report

__all__ = [
    "OBSERVERS",
    "Asks",
    "CalibrationError",
    "DataError",
    "MinMaxObserver",
    "Observation",
    "Observer",
    "ObserverFactory",
    "PercentileObserver",
    "Progress",
    "Report",
    "Sample",
    "Source",
    "asks_all",
    "bar",
    "calibrate",
    "collect",
    "instrument",
    "observer_factory",
    "samples",
    "silent",
    "state_ranges",
    "stats_keys",
]
