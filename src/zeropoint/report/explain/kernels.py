"""The native kernel of every op, and why faster ones do not fit, from a grouped program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from xdsl.ir import Block

from zeropoint.ir.locations import location_text
from zeropoint.ir.native import ControlOp, KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.report.tables import text_table

WIDTH = 140


@dataclass(frozen=True)
class NativeKernel:
    """One kernel: its pattern, the name of its op in the model, its ops, and why other patterns do not fit."""

    kind: str
    name: str
    ops: tuple[str, ...]
    declined: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """The fields as a dict, for tools."""
        return asdict(self)


def native_kernels(program: Program) -> list[NativeKernel]:
    """The kernels of a grouped program, in program order. Those in bodies of a loop or branch follow its op."""
    return list(_kernels(program.entry))


def _kernels(block: Block) -> Iterator[NativeKernel]:
    for op in block.ops:
        if isinstance(op, KernelOp):
            yield _kernel(op)
        elif isinstance(op, ControlOp):
            kind = op.name.removeprefix("native.")
            yield NativeKernel(kind, location_text(op.location) or "", (f"stablehlo.{kind}",), ())
            for region in op.programs:
                yield from _kernels(region.block)


def _kernel(op: KernelOp) -> NativeKernel:
    *ops, _ = op.body.block.ops
    counts = Counter(inner.name for inner in ops if not isinstance(inner, ConstantOp))
    listed = tuple(name if count == 1 else f"{name} x{count}" for name, count in counts.items())
    return NativeKernel(op.kind.data, location_text(op.location) or "", listed, tuple(op.reasons))


def native_table(kernels: list[NativeKernel]) -> str:
    """A text table with one row per kernel."""
    rows = [(kernel.kind, kernel.name, ", ".join(kernel.ops), "\n".join(kernel.declined)) for kernel in kernels]
    return text_table(("kernel", "name", "ops", "not by"), rows, width=WIDTH)
