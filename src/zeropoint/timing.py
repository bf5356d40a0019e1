"""The times of a model's kernels as a table."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.runtime.profiling import StepTime
from zeropoint.report.tables import preformatted, text_table


@dataclass(frozen=True)
class Timing:
    """The kernels of a program in order, with their times."""

    steps: list[StepTime]

    @property
    def seconds(self) -> float:
        """The total time of all kernels."""
        return sum(step.seconds for step in self.steps)

    def __str__(self) -> str:
        """A table: name, kernel, microseconds, share of the total, operations per nanosecond."""
        figures = "us", "%", "Gop/s"
        rows: list[tuple[str, ...]] = []
        whole = self.seconds or 1.0
        for step in self.steps:
            speed = 1e-9 * step.operations / step.seconds if step.seconds else 0.0
            share = 100 * step.seconds / whole
            rows.append((step.name, step.kernel, f"{1e6 * step.seconds:.2f}", f"{share:.1f}", f"{speed:.1f}"))
        title = f"{1e6 * self.seconds:.1f} us, one thread"
        return text_table(("name", "kernel", *figures), rows, title=title, right=figures)

    def _repr_html_(self) -> str:
        return preformatted(str(self))
