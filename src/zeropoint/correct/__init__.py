"""Corrections: constants of quantized kernels moved so that outputs come nearer to float; judged on other samples."""

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
