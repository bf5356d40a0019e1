"""The LLVM modules of a graph: one for every kernel that differs from the others, and the one that calls them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from zeropoint.codegen.driver import BARRIER, emit_run, waiting
from zeropoint.codegen.graph import Graph, Kernel
from zeropoint.codegen.llvm.machine import triple_of
from zeropoint.codegen.llvm.text import Module


@dataclass(frozen=True)
class Kernels:
    """`texts` of the kernels that differ, by the names of their functions; `names` of the function of every step."""

    texts: dict[str, str]
    names: list[str]


def kernels_of(graph: Graph) -> Kernels:
    """The modules of the kernels of a graph."""
    found: dict[Kernel, str] = {}
    texts: dict[str, str] = {}
    for step in graph.steps:
        if step.kernel in found:
            continue
        name = f"kernel_{hashlib.sha256(repr(step.kernel).encode()).hexdigest()[:16]}"
        module = Module()
        step.kernel.emit(module, name, graph.isa)
        found[step.kernel] = name
        texts[name] = str(module)
    return Kernels(texts, [found[step.kernel] for step in graph.steps])


def driver_of(graph: Graph, kernels: Kernels, run: str, entries: str) -> str:
    """The module of the function `run`, which runs every step, and of what enters it: LLVM text."""
    module = Module()
    emit_run(module, graph, kernels.names, run)
    return str(module) + waiting(BARRIER + entries, triple_of(graph.isa))
