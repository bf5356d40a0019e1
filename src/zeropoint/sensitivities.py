"""The sensitivities of a network's kernels as a list whose text is a table."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from zeropoint.correct.sensitivity import Sensitivity, ranked
from zeropoint.numerics.noise import decibels
from zeropoint.report.tables import preformatted, text_table


class Sensitivities(list[Sensitivity]):
    """The sensitivity of every kernel, in program order.

    `total` is the noise/signal at the outputs that shares in the table refer to. It defaults to that of the listed
    kernels.
    """

    def __init__(self, found: Iterable[Sensitivity] = (), *, total: float | None = None):
        super().__init__(found)
        every = sum(one.at_outputs for one in self if isfinite(one.at_outputs))
        self.total = every if total is None else total

    @property
    def ranked(self) -> Sensitivities:
        """The kernels that cause the most noise first."""
        return Sensitivities(ranked(self), total=self.total)

    def worst(self, count: int) -> Sensitivities:
        """The `count` kernels that cause the most noise. Their shares are still those of all kernels."""
        return Sensitivities(ranked(self)[:count], total=self.total)

    def __str__(self) -> str:
        """A table: SQNRs of total, inherited and added noise in dB, share of the noise at the outputs, gains in dB."""
        names = "kernel", "of"
        figures = "SQNR", "inherited", "added", "at outputs", "16 bits gain", "exact gain", "8 bits lose"
        every = self.total or 1.0
        rows: list[tuple[str, ...]] = []
        for one in self:
            gain = "-" if one.exact_gain is None else f"{one.exact_gain:.2f} {one.exact_form}"
            loss = "-" if one.exact_loss is None else f"{one.exact_loss:.2f}"
            shares = (f"{decibels(1.0, share):.2f}" for share in (one.total, one.inherited, one.added))
            share = f"{100 * one.at_outputs / every:.1f} %"
            rows.append((one.name, one.kernel, *shares, share, f"{one.wide_gain:.2f}", gain, loss))
        return text_table((*names, *figures), rows, right=figures)

    def _repr_html_(self) -> str:
        return preformatted(str(self))
