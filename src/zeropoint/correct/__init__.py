"""Corrections: adjust constants of quantized kernels to bring outputs closer to float, judged on held-back samples."""

from zeropoint.correct.effort import (
    Attempt,
    Corrections,
    EffortFigures,
    Equalized,
    SampleParts,
    check_methods,
    correct,
    judge_of,
    some,
)
from zeropoint.correct.judge import Judged
from zeropoint.correct.methods import DEFAULT_EFFORT, EQUALIZE, METHODS, MOST_EFFORT, PRESETS, Platform

__all__ = [
    "DEFAULT_EFFORT",
    "EQUALIZE",
    "METHODS",
    "MOST_EFFORT",
    "PRESETS",
    "Attempt",
    "Corrections",
    "EffortFigures",
    "Equalized",
    "Judged",
    "Platform",
    "SampleParts",
    "check_methods",
    "correct",
    "judge_of",
    "some",
]
