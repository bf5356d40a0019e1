"""Machine code of the kernels of a graph: equal kernels are one object, compiled in parallel, kept by `cache.py`.

An object is named by the hash of what its LLVM text depends on, the instruction set and the version of LLVM.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from zeropoint.codegen.cache import Cache
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import compile_bitcode, compile_object, compile_quickly, llvm_version, triple_of
from zeropoint.codegen.modules import Source

FORMS: dict[str, Callable[[str, InstructionSet], bytes]] = {
    "object": compile_object,
    "debug": compile_quickly,
    "bitcode": compile_bitcode,
}
"""What becomes of a module: machine code, optimized or not, or what `combined_object` makes one object of."""
PARALLEL = {"object": 8, "debug": 64, "bitcode": 8}
"""Modules from which on starting processes pays, by form."""


def objects_of(
    sources: Mapping[str, Source], isa: InstructionSet, *, cache: Path | None = None, form: str = "object"
) -> dict[str, bytes]:
    """What `form` (of `FORMS`) makes of every module, by the same names."""
    kept = Cache(cache)
    keys = {name: _key(source.key, isa, form) for name, source in sources.items()}
    found = {name: data for name, key in keys.items() if (data := kept.read(key)) is not None}
    missing = [name for name in sources if name not in found]
    for name, data in zip(missing, _compiled([sources[name].text() for name in missing], isa, form), strict=True):
        found[name] = data
        kept.write(keys[name], data)
    if missing:
        kept.trim()
    return {name: found[name] for name in sources}


def _compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    """Objects of texts, by processes of their own: LLVM's library lets one thread in at a time.

    The processes are new interpreters, not copies of this one: a copy would hold the locks of threads it does not have.
    """
    workers = min(os.cpu_count() or 1, len(texts))
    if len(texts) < PARALLEL[form] or workers < 2:
        return [FORMS[form](text, isa) for text in texts]
    # Dealt out from the longest to the shortest, so that all end at about the same time.
    order = sorted(range(len(texts)), key=lambda n: -len(texts[n]))
    hands = [order[start::workers] for start in range(workers)]
    done: dict[int, bytes] = {}
    with ThreadPoolExecutor(workers) as pool:
        dealt = [[texts[n] for n in hand] for hand in hands]
        results = pool.map(_in_process, dealt, [isa] * workers, [form] * workers)
        for hand, objects in zip(hands, results, strict=True):
            done.update(zip(hand, objects, strict=True))
    return [done[n] for n in range(len(texts))]


def _in_process(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    command = [sys.executable, "-c", "from zeropoint.codegen.objects import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = pickle.dumps((list(texts), isa.triple, isa.cpu, isa.features, form))
    finished = subprocess.run(command, input=asked, capture_output=True, env=environment, check=False)
    if finished.returncode:
        raise RuntimeError(f"LLVM failed:\n{finished.stderr.decode(errors='replace')}")
    return pickle.loads(finished.stdout)


def serve() -> None:
    """Compile what comes by standard input; the objects go to standard output."""
    texts, triple, cpu, features, form = pickle.load(sys.stdin.buffer)
    # Any row: its steps are in the texts already.
    isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
    pickle.dump([FORMS[form](text, isa) for text in texts], sys.stdout.buffer)


def _key(source: str, isa: InstructionSet, form: str) -> str:
    target = f"{form} {llvm_version()} {triple_of(isa)} {isa.cpu} {isa.features}"
    return hashlib.sha256(f"{target}\n{source}".encode()).hexdigest()
