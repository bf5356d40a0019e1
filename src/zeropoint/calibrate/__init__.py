"""Calibration: instrument the values that need a range, run samples, and record the observed ranges."""

from zeropoint.calibrate.candidates import Kept
from zeropoint.calibrate.choices import DEFAULT_OBSERVER, OBSERVERS, expected_runs, observer_factory
from zeropoint.calibrate.collect import CalibrationError, calibrate, collect, state_ranges, stats_keys
from zeropoint.calibrate.data import DataError, Sample, Source, samples, shapes_in
from zeropoint.calibrate.histogram import PercentileObserver
from zeropoint.calibrate.images import Images, Preprocessing
from zeropoint.calibrate.instrument import Asks, asks_all, instrument
from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.observers import MinMaxObserver, Observer, ObserverFactory
from zeropoint.calibrate.report import Observation, Report
from zeropoint.calibrate.spread import JournalError, Work
from zeropoint.progress import Progress, bar, display, silent
from zeropoint.workers import WorkerError

__all__ = [
    "DEFAULT_OBSERVER",
    "OBSERVERS",
    "Asks",
    "CalibrationError",
    "DataError",
    "Images",
    "JournalError",
    "Kept",
    "MeanSquareObserver",
    "MinMaxObserver",
    "Observation",
    "Observer",
    "ObserverFactory",
    "PercentileObserver",
    "Preprocessing",
    "Progress",
    "Report",
    "Sample",
    "Source",
    "Work",
    "WorkerError",
    "asks_all",
    "bar",
    "calibrate",
    "collect",
    "display",
    "expected_runs",
    "instrument",
    "observer_factory",
    "samples",
    "shapes_in",
    "silent",
    "state_ranges",
    "stats_keys",
]
