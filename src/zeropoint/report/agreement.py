"""Compare the values of one program with those of another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from zeropoint.errors import Error
from zeropoint.ir.tensors import Array
from zeropoint.numerics.noise import decibels, is_counted
from zeropoint.report.counts import Ops
from zeropoint.report.tables import preformatted, text_table


class ComparisonError(Error, ValueError):
    """Two models cannot be compared: their inputs or outputs differ, or there is no data."""


@dataclass(frozen=True)
class Agreement:
    """The agreement of one value with its reference, over all samples.

    `sqnr` is 10 log10 (sum reference^2 / sum difference^2) in dB: inf if they are equal, -inf if they differ and the
    reference is all 0. `cosine` is the cosine similarity of the flattened values: 1 if both are 0, 0 if only one is.
    Elements that are the same infinity in both are left out of the two. Any other infinity or NaN gives -inf dB and a
    cosine of 0. `top1` is the share of samples with the same argmax; None for values of one element.

    Integers and booleans are positions, classes or masks. For them `equal` is the share of equal elements, and `sqnr`
    is -10 log10 (1 - equal).
    """

    name: str
    sqnr: float
    cosine: float
    max_error: float
    top1: float | None
    equal: float | None = None


class Accumulated:
    """The sums over samples that an agreement is computed from, so that outputs need not be kept."""

    def __init__(self, name: str):
        self.name = name
        self.signal = self.noise = self.power = self.product = self.max_error = 0.0
        self.samples = self.same = 0
        self.ranked, self.counted = True, False
        self.elements = self.unequal = 0

    def add(self, reference: Array, value: Array) -> None:
        if reference.shape != value.shape:
            raise ComparisonError(f"'{self.name}': found shapes {reference.shape} and {value.shape}, expected the same")
        a, b = reference.astype(np.float64).reshape(-1), value.astype(np.float64).reshape(-1)
        shared = (a == b) & np.isinf(a)  # an infinite signal would hide the noise of all other elements
        x, y = np.where(shared, 0.0, a), np.where(shared, 0.0, b)
        with np.errstate(invalid="ignore"):  # other infinities: the noise is then infinite or NaN
            difference = np.where(x == y, 0.0, x - y)
            self.signal += float(x @ x)
            self.power += float(y @ y)
            self.product += float(x @ y)
            self.noise += float((difference**2).sum())
            self.max_error = max(self.max_error, float(np.abs(difference).max(initial=0.0)))
        self.samples += 1
        self.counted = self.counted or is_counted(reference)
        self.elements, self.unequal = self.elements + a.size, self.unequal + int(np.count_nonzero(a != b))
        self.ranked = self.ranked and a.size > 1
        self.same += int(self.ranked and a.argmax() == b.argmax())

    def result(self) -> Agreement:
        norm = float(np.sqrt(self.signal) * np.sqrt(self.power))
        cosine = self.product / norm if norm else float(self.signal == self.power)
        cosine = cosine if np.isfinite(cosine) else 0.0
        top1 = self.same / self.samples if self.ranked else None
        if self.counted:
            share = 1 - self.unequal / self.elements if self.elements else 1.0
            return Agreement(
                self.name, decibels(self.elements, self.unequal), cosine, self.max_error, top1, equal=share
            )
        return Agreement(self.name, decibels(self.signal, self.noise), cosine, self.max_error, top1)


@dataclass(frozen=True)
class Comparison:
    """The agreement of outputs and, with layers, of every value that has a name in both programs.

    `ops` counts the ops of the compared program if it is quantized; None for a file that a runtime runs. `parts` has an
    agreement for each operand of outputs that are concatenations, named `output: operand`. If a part with small values
    is lost, the agreement of the whole output does not show it.
    """

    samples: int
    outputs: list[Agreement]
    layers: list[Agreement]
    parts: list[Agreement] = field(default_factory=list[Agreement])
    ops: Ops | None = None

    def json(self) -> str:
        """JSON text; infinities and NaN become null."""

        def entry(row: Agreement) -> dict[str, Any]:
            return {
                key: None if isinstance(value, float) and not isfinite(value) else value
                for key, value in asdict(row).items()
            }

        groups = {"outputs": self.outputs, "parts": self.parts, "layers": self.layers}
        rows = {name: [entry(row) for row in group] for name, group in groups.items()}
        ops = {} if self.ops is None else {"ops": asdict(self.ops)}
        return json.dumps({"samples": self.samples, **rows, **ops}, indent=2)

    def table(self) -> str:
        """A text table."""
        table = agreement_table(self.samples, self.outputs, self.layers, self.parts)
        return table if self.ops is None else f"{table}\n\n{self.ops}"

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return preformatted(self.table())


def agreement_table(
    samples: int, outputs: Sequence[Agreement], layers: Sequence[Agreement], parts: Sequence[Agreement] = ()
) -> str:
    """A text table with SQNR, cosine, largest error and top-1 agreement of each value."""
    value, *figures_of = "value", "SQNR dB", "cosine", "max error", "top-1 agreement"
    rows: list[tuple[str, ...]] = []
    for kind, group in (("output", outputs), ("part", parts), ("layer", layers)):
        for row in group:
            top1 = "-" if row.top1 is None else f"{100 * row.top1:.2f} %"
            figures = [f"{row.sqnr:.2f}", f"{row.cosine:.6f}", f"{row.max_error:.4g}", top1]
            if row.equal is not None:
                figures = ["-", "-", "-", f"{100 * row.equal:.2f} % equal"]
            rows.append((f"{kind} {row.name}", *figures))
    return text_table((value, *figures_of), rows, title=f"{samples} samples", right=figures_of)
