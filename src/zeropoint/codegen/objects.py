"""Machine code of the kernels of a graph: equal kernels share an object, compiled in parallel and cached (`cache.py`).

The key of an object is the hash of what its LLVM text depends on, the instruction set, and the version of LLVM.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zeropoint.codegen.cache import Cache
from zeropoint.codegen.llvm.compiling import compiled, compiled_apart
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import llvm_version, triple_of
from zeropoint.codegen.modules import Source

PARALLEL = {"object": 8, "debug": 64, "bitcode": 8}
"""Least number of modules for which starting processes pays off, by form."""
BATCH = 32_000_000
"""Characters of LLVM text in memory at a time."""


def objects_of(
    sources: Mapping[str, Source], isa: InstructionSet, *, cache: Path | None = None, form: str = "object"
) -> dict[str, bytes]:
    """Every module compiled to `form` (one of `compiling.FORMS`), under the same names."""
    kept = Cache(cache)
    keys = {name: _key(source.key, isa, form) for name, source in sources.items()}
    found = {name: data for name, key in keys.items() if (data := kept.read(key)) is not None}
    missing = [name for name in sources if name not in found]
    for names, texts in _batches(missing, sources):
        for name, data in zip(names, _compiled(texts, isa, form), strict=True):
            found[name] = data
            kept.write(keys[name], data)
    if missing:
        kept.trim()
    return {name: found[name] for name in sources}


def _batches(names: Sequence[str], sources: Mapping[str, Source]) -> Iterator[tuple[list[str], list[str]]]:
    """Names and texts of modules to be compiled together: so many that their texts have about `BATCH` characters."""
    batch: list[str] = []
    texts: list[str] = []
    for name in names:
        batch.append(name)
        texts.append(sources[name].text())
        if sum(map(len, texts)) > BATCH:
            yield batch, texts
            batch, texts = [], []
    yield batch, texts


def _compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    """Compile texts in separate processes, because LLVM's library runs one thread at a time.

    The processes are new interpreters, not forks: a fork would inherit locks held by threads that it does not have.
    """
    workers = min(os.cpu_count() or 1, len(texts))
    if len(texts) < PARALLEL[form] or workers < 2:
        return compiled(texts, isa, form)
    # Distribute from the longest to the shortest, so that all processes finish at about the same time.
    order = sorted(range(len(texts)), key=lambda n: -len(texts[n]))
    hands = [order[start::workers] for start in range(workers)]
    done: dict[int, bytes] = {}
    with ThreadPoolExecutor(workers) as pool:
        dealt = [[texts[n] for n in hand] for hand in hands]
        results = pool.map(compiled_apart, dealt, [isa] * workers, [form] * workers)
        for hand, objects in zip(hands, results, strict=True):
            done.update(zip(hand, objects, strict=True))
    return [done[n] for n in range(len(texts))]


def _key(source: str, isa: InstructionSet, form: str) -> str:
    target = f"{form} {llvm_version()} {triple_of(isa)} {isa.cpu} {isa.features}"
    return hashlib.sha256(f"{target}\n{source}".encode()).hexdigest()
