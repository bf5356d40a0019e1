"""Machine code of the kernels of a graph: equal kernels are one object, compiled in parallel, kept on disk.

An object is named by the hash of what its LLVM text depends on, the instruction set and the version of LLVM. Files are
written under another name and renamed, with a checksum in front, so that a reader finds a whole object or none; a
wrong or truncated one is made again. The folder is `$ZEROPOINT_CACHE`, or `zeropoint` in the user's cache folder; the
least recently used files go when it grows past `LIMIT`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import compile_bitcode, compile_object, compile_quickly, llvm_version, triple_of
from zeropoint.codegen.modules import Source

LIMIT = 256 << 20
"""Bytes of the cache on disk."""
FORMS: dict[str, Callable[[str, InstructionSet], bytes]] = {
    "object": compile_object,
    "debug": compile_quickly,
    "bitcode": compile_bitcode,
}
"""What becomes of a module: machine code, optimized or not, or what `combined_object` makes one object of."""
PARALLEL = {"object": 8, "debug": 64, "bitcode": 8}
"""Modules from which on starting processes pays, by form."""


def cache_folder() -> Path | None:
    """Where objects are kept; None where `$ZEROPOINT_CACHE` is empty, which turns the cache off."""
    named = os.environ.get("ZEROPOINT_CACHE")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zeropoint"


def objects_of(
    sources: Mapping[str, Source], isa: InstructionSet, *, cache: Path | None = None, form: str = "object"
) -> dict[str, bytes]:
    """What `form` (of `FORMS`) makes of every module, by the same names."""
    keys = {name: _key(source.key, isa, form) for name, source in sources.items()}
    found = {name: data for name, key in keys.items() if (data := _read(cache, key)) is not None}
    missing = [name for name in sources if name not in found]
    for name, data in zip(missing, _compiled([sources[name].text() for name in missing], isa, form), strict=True):
        found[name] = data
        _write(cache, keys[name], data)
    if missing:
        _trim(cache)
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


def _read(cache: Path | None, key: str) -> bytes | None:
    if cache is None:
        return None
    path = cache / f"{key}.o"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, body = data[:32], data[32:]
    if _checksum(key, body) != digest:
        return None
    _touch(path)
    return body


def _checksum(key: str, data: bytes) -> bytes:
    """Of an entry and what it is the entry of: one under another's name is as wrong as a truncated one."""
    return hashlib.sha256(key.encode() + data).digest()


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):  # another process removed it; what was read stays good
        os.utime(path)


def _write(cache: Path | None, key: str, data: bytes) -> None:
    if cache is None:
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache, suffix=".tmp", delete=False) as file:
            file.write(_checksum(key, data) + data)
        os.replace(file.name, cache / f"{key}.o")
    except OSError:
        return  # a cache that cannot be written is no fault


def _trim(cache: Path | None) -> None:
    if cache is None:
        return
    try:
        files = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(cache))
    except OSError:
        return
    excess = sum(size for _, size, _ in files) - LIMIT
    for _, size, path in files:
        if excess <= 0:
            break
        excess -= size
        with contextlib.suppress(OSError):  # another process removed it, or we may not
            Path(path).unlink()
