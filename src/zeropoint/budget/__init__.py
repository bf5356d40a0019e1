"""Searches the width of every kernel under a budget of quality, size and latency.

All kernels start at the narrowest storage of the target. If 8-bit weights are beyond the limit of `size`, weights start
with 4 bits where the target has such kernels. A step widens one kernel: to 8-bit weights, to the wider storage, if the
target has the kernel in two widths, or from the widest one to float. The steps are ranked by the first-order share of
the kernel's noise at the outputs (`correct.sensitivity`), per byte or per multiplication if the budget limits size or
latency. The search measures prefixes of this list:

- `quality` alone: the shortest prefix whose outputs all reach that SQNR;
- `size`, `latency`: the longest prefix within the limits; of the prefixes measured, the one of best quality.

The lengths 0, 1, 2, 4, ... are measured, then those between the last two by bisection. Before the next length is
measured, the steps behind the prefix are ranked again by the noise of its program. Every measurement quantizes the
program, with its corrections, and runs it on samples held back. Measurements, rankings and verifications are recorded
in a journal, each when it is complete, so that a search that was interrupted repeats none of them.

A minimum SQNR (`least_sqnr`) is the same search without steps to float (`Budget.floats`), measured on a sample of the
data. A prefix that reaches the minimum there, and the program without steps, is verified on all of the data, which
decides. If no length reaches it but one comes near, up to eight lengths between are measured: kernels of different
widths need rescales between them, so a longer prefix may be worse.

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
