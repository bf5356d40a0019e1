"""Machine code of the kernels of a graph. Equal kernels share an object. Objects are compiled in parallel and cached.

The key of an object in the cache (`cache.py`) is a hash of everything that its LLVM text depends on, of the instruction
set, and of the version of LLVM.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from zeropoint.codegen.cache import Cache
from zeropoint.codegen.llvm.compiling import compiled, compiled_apart
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import llvm_version, triple_of
from zeropoint.codegen.modules import ModuleSource
from zeropoint.progress import Progress, silent

PARALLEL = {"object": 8, "light": 40, "debug": 160, "bitcode": 8}
"""The minimum number of modules that are compiled in separate processes, by form: starting these takes as long as
compiling a quarter of so many."""
BATCH = 32_000_000
"""The number of characters of LLVM text that are in memory at once."""


def objects_of(
    sources: Mapping[str, ModuleSource],
    isa: InstructionSet,
    *,
    cache: Path | None = None,
    form: str = "object",
    progress: Progress = silent,
) -> dict[str, bytes]:
    """The modules, compiled to `form` (one of `compiling.FORMS`), by the same names.

    `progress` counts the modules that are not in the cache.
    """
    kept = Cache(cache)
    keys = {name: _key(source.key, isa, form) for name, source in sources.items()}
    found = {name: data for name, key in keys.items() if (data := kept.read(key)) is not None}
    missing = [name for name in sources if name not in found]
    made = (
        (names[number], data)
        for names, texts in _batches(missing, sources)
        for number, data in _compiled(texts, isa, form)
    )
    for _ in progress(missing, "compile"):
        name, data = next(made)
        found[name] = data
        kept.write(keys[name], data)
    if missing:
        kept.trim()
    return {name: found[name] for name in sources}


def _batches(names: Sequence[str], sources: Mapping[str, ModuleSource]) -> Iterator[tuple[list[str], list[str]]]:
    """Names and texts of the modules to be compiled, in batches of about `BATCH` characters."""
    batch: list[str] = []
    texts: list[str] = []
    for name in names:
        batch.append(name)
        texts.append(sources[name].text())
        if sum(map(len, texts)) > BATCH:
            yield batch, texts
            batch, texts = [], []
    yield batch, texts


def _compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the code of each text when it is compiled, in any order.

    Many texts are compiled in separate processes, because LLVM's library runs only one thread at once. The processes
    are new interpreters and not forks, because a fork would inherit locks of threads that it does not have.
    """
    workers = min(os.cpu_count() or 1, len(texts))
    if len(texts) < PARALLEL[form] or workers < 2:
        yield from enumerate(compiled(texts, isa, form))
        return
    # Texts are distributed from the longest to the shortest, so that all processes end at about the same time.
    order = sorted(range(len(texts)), key=lambda n: -len(texts[n]))
    done: SimpleQueue[tuple[int, bytes] | BaseException] = SimpleQueue()

    def work(hand: Sequence[int]) -> None:
        try:
            for number, data in zip(hand, compiled_apart([texts[n] for n in hand], isa, form), strict=True):
                done.put((number, data))
        except BaseException as error:  # the thread that waits for the queue raises it
            done.put(error)

    with ThreadPoolExecutor(workers) as pool:
        for start in range(workers):
            pool.submit(work, order[start::workers])
        for _ in texts:
            made = done.get()
            if isinstance(made, BaseException):
                raise made
            yield made


def _key(source: str, isa: InstructionSet, form: str) -> str:
    target = f"{form} {llvm_version()} {triple_of(isa)} {isa.cpu} {isa.features}"
    return hashlib.sha256(f"{target}\n{source}".encode()).hexdigest()
