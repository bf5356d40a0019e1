"""Compare the outputs of an integer program with the outputs of the float program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import length_hint

from zeropoint.calibrate import Progress
from zeropoint.engines import QuickestEngine
from zeropoint.interp import masked
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.report.agreement import Accumulated, Agreement
from zeropoint.report.parts import output_parts


def compare_outputs(
    reference: Program,
    program: Program,
    samples: Iterable[Mapping[str, Array]],
    progress: Progress,
    mask: str | None = None,
) -> tuple[int, tuple[Agreement, ...], tuple[Agreement, ...]]:
    """The number of samples, and the agreement of every output and of the parts of concatenated outputs.

    Positions where the input `mask` is 0 do not count. With a mask, outputs have no parts, because the positions of
    parts would shift.
    """
    engine = masked(QuickestEngine(length_hint(samples, 1)), mask)
    exactly, integers = engine.prepare(reference), engine.prepare(program)
    outputs = {port.name: Accumulated(port.name) for port in program.outputs}
    parts = [
        (name, part, Accumulated(f"{name}: {part.name}"))
        for name, found in (output_parts(reference).items() if mask is None else ())
        for part in found
    ]
    count = 0
    for sample in progress(samples, "compare"):
        exact, given = exactly(sample), integers(sample)
        for name, accumulated in outputs.items():
            accumulated.add(exact[name], given[name])
        for name, part, accumulated in parts:
            accumulated.add(part.of(exact[name]), part.of(given[name]))
        count += 1
    if not count:
        return 0, (), ()
    return count, tuple(a.result() for a in outputs.values()), tuple(a.result() for _, _, a in parts)
