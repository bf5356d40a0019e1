"""Corrections: adjust constants of quantized kernels to bring outputs closer to float, judged on held-back samples."""

from zeropoint.correct.corrections import Attempt, Corrections, EffortFigures, Equalized, IntegerProducts
from zeropoint.correct.effort import check_methods, correct, judge_of
from zeropoint.correct.judge import Judged, OutputNoise
from zeropoint.correct.methods import (
    DEFAULT_EFFORT,
    EQUALIZE,
    METHODS,
    MOST_EFFORT,
    PRESETS,
    PRODUCTS,
    RESULTS,
    Platform,
)
from zeropoint.correct.sample_parts import SampleParts, some

__all__ = [
    "DEFAULT_EFFORT",
    "EQUALIZE",
    "METHODS",
    "MOST_EFFORT",
    "PRESETS",
    "PRODUCTS",
    "RESULTS",
    "Attempt",
    "Corrections",
    "EffortFigures",
    "Equalized",
    "IntegerProducts",
    "Judged",
    "OutputNoise",
    "Platform",
    "SampleParts",
    "check_methods",
    "correct",
    "judge_of",
    "some",
]
