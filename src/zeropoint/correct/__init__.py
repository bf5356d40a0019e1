"""Corrections: adjust constants of quantized kernels to bring outputs closer to float; judged on held-back samples."""

from zeropoint.correct.effort import Attempt, Corrections, Figures, Parts, check_methods, correct
from zeropoint.correct.methods import DEFAULT_EFFORT, METHODS, PRESETS, Platform

__all__ = [
    "DEFAULT_EFFORT",
    "METHODS",
    "PRESETS",
    "Attempt",
    "Corrections",
    "Figures",
    "Parts",
    "Platform",
    "check_methods",
    "correct",
]
