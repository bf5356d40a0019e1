"""The LLVM modules of a graph: one for each distinct kernel, and the driver that calls them, in parts.

The text of a kernel depends only on the kernel and on the code that generates it. If the object cache has an object for
both, no text is generated.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zeropoint.codegen
import zeropoint.numerics
from zeropoint.codegen.driver import BARRIER, Driver, waiting
from zeropoint.codegen.graph import EmittedKernel, Graph, name_of
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.control import Control
from zeropoint.codegen.llvm.checked import CheckedModule
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import triple_of
from zeropoint.codegen.llvm.text import Module


@dataclass(frozen=True)
class ModuleSource:
    """A module to be compiled. `key` identifies everything that its text depends on, and `text` generates the text."""

    key: str
    text: Callable[[], str]


@dataclass(frozen=True)
class KernelModules:
    """`sources` has the distinct kernels by function name, `names` the function name of every step."""

    sources: dict[str, ModuleSource]
    names: list[str]

    @property
    def texts(self) -> dict[str, str]:
        """The modules as LLVM text."""
        return {name: source.text() for name, source in self.sources.items()}


def kernels_of(graph: Graph, *, checked: bool = False) -> KernelModules:
    """The modules of the kernels of a graph. `checked` selects the debug build, which checks every memory access."""
    found: dict[EmittedKernel, str] = {}
    sources: dict[str, ModuleSource] = {}
    for kernel in _called(graph):
        if kernel not in found:
            found[kernel] = name = name_of(kernel)
            sources[name] = _source(kernel, name, graph.isa, checked)
    return KernelModules(sources, [found[step.kernel] for step in graph.steps])


def uses_tile_registers(graph: Graph) -> bool:
    """Whether a kernel of a graph has its accumulators in tile registers."""
    return any(isinstance(kernel, Contraction) and kernel.in_tiles(graph.isa) for kernel in _called(graph))


def _called(graph: Graph) -> Iterator[EmittedKernel]:
    """The kernels of the steps, and the kernels that loops and branches call."""
    for step in graph.steps:
        yield step.kernel
        if isinstance(step.kernel, Control):
            yield from step.kernel.kernels()


def _source(kernel: EmittedKernel, name: str, isa: InstructionSet, checked: bool) -> ModuleSource:
    @functools.cache
    def text() -> str:
        module = CheckedModule() if checked else Module()
        kernel.emit(module, name, isa)
        return str(module)

    code = _code()
    build = "checked " if checked else ""
    return ModuleSource(
        text() if code is None else f"{build}{code} {isa.name} {isa.brief} {isa.most_pixels} {name} {kernel!r}", text
    )


def driver_of(graph: Graph, kernels: KernelModules, run: str, entries: str) -> dict[str, ModuleSource]:
    """The modules of the function `run`, which runs every step: its parts, and itself with the entry functions."""
    driver = Driver(graph, kernels.names, run)
    triple = triple_of(graph.isa)

    def part(number: int) -> str:
        module = Module()
        driver.emit_part(module, number)
        return str(module) + waiting(BARRIER, triple)

    module = Module()
    driver.emit(module)
    whole = str(module) + waiting(BARRIER + entries, triple)
    parts = {f"driver{number}": _generated(partial(part, number)) for number in range(len(driver.parts))}
    return {**parts, "driver": ModuleSource(whole, lambda: whole)}


def _generated(text: Callable[[], str]) -> ModuleSource:
    """A module whose text is generated again when it is compiled, because the texts of thousands of steps are large."""
    return ModuleSource(hashlib.sha256(text().encode()).hexdigest(), text)


@functools.cache
def _code() -> str | None:
    """A digest that identifies the version of the code that generates kernels.

    None if its files cannot be read or have changed since they were imported.
    """
    digest = hashlib.sha256()
    folders = [Path(str(package.__file__)).parent for package in (zeropoint.codegen, zeropoint.numerics)]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    try:
        if not files or max(file.stat().st_mtime for file in files) > zeropoint.codegen.LOADED:
            return None
        for file in files:
            digest.update(f"{file.name} ".encode() + file.read_bytes())
    except OSError:
        return None
    return digest.hexdigest()
