"""Corrections: adjust constants of quantized kernels to bring outputs closer to float, judged on held-back samples."""

from zeropoint.correct.effort import (
    Attempt,
    Corrections,
    EffortFigures,
    Equalized,
    check_methods,
    correct,
    judge_of,
)
from zeropoint.correct.judge import Judged
from zeropoint.correct.methods import DEFAULT_EFFORT, EQUALIZE, METHODS, MOST_EFFORT, PRESETS, Platform
from zeropoint.correct.sample_parts import SampleParts, some

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
