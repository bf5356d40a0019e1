"""Corrections: adjust constants of quantized kernels to bring outputs closer to float; judged on held-back samples."""

from zeropoint.correct.effort import (
    Attempt,
    Corrections,
    EffortFigures,
    Equalized,
    SampleParts,
    check_methods,
    correct,
    some,
)
from zeropoint.correct.methods import DEFAULT_EFFORT, EQUALIZE, METHODS, PRESETS, Platform

__all__ = [
    "DEFAULT_EFFORT",
    "EQUALIZE",
    "METHODS",
    "PRESETS",
    "Attempt",
    "Corrections",
    "EffortFigures",
    "Equalized",
    "Platform",
    "SampleParts",
    "check_methods",
    "correct",
    "some",
]
