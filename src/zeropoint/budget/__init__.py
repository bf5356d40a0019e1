"""Search for the width of every kernel under a budget of quality, size and latency.

All kernels start with the narrowest storage of the target. If 8-bit weights exceed the limit of `size`, weights start
with 4 bits where the target has such kernels. A step widens one kernel: to 8-bit weights, to the wider storage if the
target has the kernel in two widths, or from the widest storage to float. The steps are ranked by the first-order share
of the kernel's noise at the outputs (`correct.sensitivity`), per byte or per multiplication if the budget limits size
or latency. The search measures prefixes of this list:

- With `quality` alone, it finds the shortest prefix with which all outputs reach this SQNR.
- With `size` or `latency`, it finds the longest prefix within the limits. The result is the measured prefix with the
  best quality.

The lengths 0, 1, 2, 4, ... are measured first, then those between the last two by bisection. Before each of the first
lengths is measured, the steps after the previous prefix are ranked again by the noise of its program. Every measurement
quantizes the program with its corrections, and runs it on held-back samples. Measurements, rankings and verifications
are recorded in a journal when they are complete, so an interrupted search repeats none of them.

A minimum SQNR (`least_sqnr`) is the same search without steps to float (`Budget.floats`), measured on some of the data.
A prefix that reaches the minimum there, and the program without steps, are verified on all of the data, which decides.
If no length reaches the minimum but one comes near, up to eight lengths in between are measured. A longer prefix may be
worse, because kernels of different widths need rescales between them.

Source: the RFC on quantization transformations, "Intermediate transformations": bit widths explored by a parameter
search become AnyQuantizedType, and ops that stay float NoQuantizedType.
"""

from zeropoint.budget.budget import Budget, BudgetError, Figures
from zeropoint.budget.journal import SearchJournal, Verified
from zeropoint.budget.search import Missed, Spent, record, spend
from zeropoint.budget.steps import (
    FLOAT,
    WideningStep,
    between,
    kernel_key,
    narrow,
    steps_of,
    takes_nibbles,
    widened,
)

__all__ = [
    "FLOAT",
    "Budget",
    "BudgetError",
    "Figures",
    "Missed",
    "SearchJournal",
    "Spent",
    "Verified",
    "WideningStep",
    "between",
    "kernel_key",
    "narrow",
    "record",
    "spend",
    "steps_of",
    "takes_nibbles",
    "widened",
]
