"""How far the outputs of a network are from those of another: the figures of the tables."""

import numpy as np


def sqnr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """Signal to quantization noise over all samples together, in dB; infinite without noise.

    10 log10(sum r^2 / sum (r - q)^2).
    """
    signal = np.square(reference, dtype=np.float64).sum()
    noise = np.square(reference.astype(np.float64) - other).sum()
    return float(10 * np.log10(signal / noise)) if noise else float("inf")


def top1_agreement(reference: np.ndarray, other: np.ndarray) -> float:
    """Share of the samples whose largest output is the same one."""
    return float(np.mean(reference.argmax(1) == other.argmax(1)))
