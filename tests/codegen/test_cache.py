"""The cache of compiled kernels: only whole entries are used, by any number of processes, up to a size."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import zeropoint.codegen
from codegen.classifier import classifier, image
from zeropoint.codegen import cache as cache_module
from zeropoint.codegen import modules, objects
from zeropoint.codegen.aot.ahead_of_time import library
from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.llvm import compiling
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import ModuleSource, kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.runtime.native import NativeProgram

ISA = INSTRUCTION_SETS["portable"]


def text(number: int) -> str:
    return f"define i32 @answer() {{\n  ret i32 {number}\n}}\n"


def source(number: int) -> ModuleSource:
    return ModuleSource(text(number), lambda: text(number))


def entries(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were compiled, not read."""
    seen: list[str] = []
    real = compiling.compile_object

    def counting(text: str, isa: object) -> bytes:
        seen.append(text)
        return real(text, isa)  # pyright: ignore (a stand-in)

    monkeypatch.setitem(compiling.FORMS, "object", counting)
    return seen


def test_what_was_compiled_once_is_read_after_that(tmp_path: Path, compiled: list[str]) -> None:
    first = objects_of({"a": source(1), "b": source(2)}, ISA, cache=tmp_path)
    again = objects_of({"b": source(2), "c": source(3)}, ISA, cache=tmp_path)
    assert compiled == [text(1), text(2), text(3)]
    assert again["b"] == first["b"]
    assert len(entries(tmp_path)) == 3


def test_another_instruction_set_is_another_entry(tmp_path: Path, compiled: list[str]) -> None:
    for name in ("portable", "neon-dotprod", "neon-i8mm"):
        objects_of({"a": source(1)}, INSTRUCTION_SETS[name], cache=tmp_path)
    assert len(compiled) == len(entries(tmp_path)) == 3


@pytest.mark.parametrize("kind", ["truncated", "empty", "wrong", "changed", "of another"])
def test_a_wrong_or_truncated_entry_is_made_again(tmp_path: Path, compiled: list[str], kind: str) -> None:
    good = objects_of({"a": source(1)}, ISA, cache=tmp_path)["a"]
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    objects_of({"a": source(2)}, ISA, cache=tmp_path / "other")
    (other,) = entries(tmp_path / "other")
    bad = {
        "truncated": whole[:-1],
        "empty": b"",
        "wrong": b"\x7fELF" + bytes(300),
        "changed": whole[:-1] + bytes([whole[-1] ^ 1]),
        "of another": other.read_bytes(),
    }
    entry.write_bytes(bad[kind])
    assert objects_of({"a": source(1)}, ISA, cache=tmp_path)["a"] == good
    assert compiled == [text(1), text(2), text(1)]
    assert entry.read_bytes() == whole


def test_the_cache_is_bounded_and_the_least_recently_used_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects_of({"0": source(0)}, ISA, cache=tmp_path)
    size = entries(tmp_path)[0].stat().st_size
    monkeypatch.setattr(cache_module, "LIMIT", 3 * size + size // 2)
    for number in range(1, 3):
        objects_of({"x": source(number)}, ISA, cache=tmp_path)
    for age, entry in enumerate(sorted(entries(tmp_path), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(entry, (1000.0 + age, 1000.0 + age))
    objects_of({"0": source(0)}, ISA, cache=tmp_path)  # used: no longer the oldest
    oldest = min(entries(tmp_path), key=lambda path: path.stat().st_mtime)
    objects_of({"x": source(3)}, ISA, cache=tmp_path)
    assert len(entries(tmp_path)) == 3
    assert oldest not in entries(tmp_path)


def test_a_process_looks_at_the_whole_folder_only_after_writing_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache of many small files takes as long to list as a small kernel to compile."""
    looks: list[Path] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scan(folder))
    for number in range(4):
        objects_of({"x": source(number)}, ISA, cache=tmp_path)
    assert len(looks) == 1
    size = entries(tmp_path)[0].stat().st_size
    monkeypatch.setattr(cache_module, "LIMIT", cache_module.TRIMMED * (size + size // 2))
    for number in range(4, 10):
        objects_of({"x": source(number)}, ISA, cache=tmp_path)
    assert len(looks) < 6


def test_files_of_others_in_the_folder_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may name any folder, a home folder too."""
    monkeypatch.setattr(cache_module, "LIMIT", 1)
    others = [tmp_path / name for name in ("thesis.doc", "main.o", "download.tmp", f"{'a' * 64}.o.bak")]
    for path in others:
        path.write_bytes(b"dear to me")
        os.utime(path, (1000.0, 1000.0))
    objects_of({"a": source(1)}, ISA, cache=tmp_path)
    assert entries(tmp_path) == sorted(others)


def test_another_version_of_llvm_is_another_entry(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects_of({"a": source(1)}, ISA, cache=tmp_path)
    monkeypatch.setattr("zeropoint.codegen.objects.llvm_version", lambda: "99.0.0")
    objects_of({"a": source(1)}, ISA, cache=tmp_path)
    assert compiled == [text(1), text(1)]
    assert len(entries(tmp_path)) == 2


@pytest.mark.parametrize("mask", [0, 0o002, 0o022])
def test_the_folders_around_a_new_cache_are_for_its_owner_alone_whatever_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        objects_of({"a": source(1)}, ISA, cache=tmp_path / "x" / "y" / "cache")
    finally:
        os.umask(before)
    made = (tmp_path / "x", tmp_path / "x" / "y", tmp_path / "x" / "y" / "cache")
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to nothing"])
def test_an_entry_that_is_no_file_is_made_again_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    good = objects_of({"a": source(1)}, ISA, cache=tmp_path)
    (entry,) = entries(tmp_path)
    entry.unlink()
    {"pipe": os.mkfifo, "folder": os.mkdir, "link to nothing": lambda path: os.symlink("nothing", path)}[kind](entry)
    assert objects_of({"a": source(1)}, ISA, cache=tmp_path) == good


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for cache in (tmp_path / "file", None):
        (made,) = objects_of({"a": source(7)}, ISA, cache=cache).values()
        assert Loaded([made], ISA).address("answer")


def test_threads_that_fill_one_cache_leave_whole_entries(tmp_path: Path) -> None:
    def fill(_: int) -> dict[str, bytes]:
        return objects_of({str(number): source(number) for number in range(4)}, ISA, cache=tmp_path)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(fill, range(6)))
    assert all(each == found[0] for each in found)
    assert [path.suffix for path in entries(tmp_path)] == [".o"] * 4


SCRIPT = """
import sys
from pathlib import Path
from zeropoint.codegen.aot.ahead_of_time import library
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.modules import ModuleSource
from zeropoint.codegen.objects import objects_of
written = [f"define i32 @answer() {{\\n  ret i32 {n}\\n}}\\n" for n in range(4)]
texts = {str(n): ModuleSource(text, lambda text=text: text) for n, text in enumerate(written)}
for _ in range(20):
    made = objects_of(texts, INSTRUCTION_SETS["portable"], cache=Path(sys.argv[1]))
    for path in Path(sys.argv[1]).iterdir():
        path.unlink(missing_ok=True)
assert all(data.startswith(b"\\x7fELF") for data in made.values())
"""


def test_processes_that_fill_and_empty_one_cache_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors


@pytest.mark.parametrize("count", [2, 8])
def test_forked_processes_that_fill_and_empty_one_cache_do_not_disturb_each_other(count: int, tmp_path: Path) -> None:
    children: list[int] = []
    for _ in range(count):
        if (child := os.fork()) == 0:
            status = 1
            try:
                for turn in range(10):
                    made = objects_of({str(n): source(n) for n in range(3)}, ISA, cache=tmp_path)
                    assert all(data.startswith(b"\x7fELF") for data in made.values())
                    entries(tmp_path)[turn % 2].unlink(missing_ok=True)
                status = 0
            except IndexError:  # the others have removed all
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    objects_of({"a": source(1)}, ISA, cache=tmp_path / "new" / "cache")
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700
    assert [entry.stat().st_mode & 0o777 for entry in entries(tmp_path / "new" / "cache")] == [0o600]


@pytest.mark.parametrize("rights", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_is_neither_read_nor_written(
    rights: int, tmp_path: Path, compiled: list[str]
) -> None:
    shared = tmp_path / "shared"
    objects_of({"a": source(1)}, ISA, cache=shared)
    shared.chmod(rights)
    objects_of({"a": source(1), "b": source(2)}, ISA, cache=shared)
    assert compiled == [text(1), text(1), text(2)]
    assert len(entries(shared)) == 1


def test_an_entry_that_others_may_write_is_made_again(tmp_path: Path, compiled: list[str]) -> None:
    objects_of({"a": source(1)}, ISA, cache=tmp_path)
    entries(tmp_path)[0].chmod(0o666)
    objects_of({"a": source(1)}, ISA, cache=tmp_path)
    assert compiled == [text(1), text(1)]
    assert entries(tmp_path)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_another_user_is_not_read(tmp_path: Path, compiled: list[str]) -> None:
    objects_of({"a": source(1)}, ISA, cache=tmp_path / "c")
    os.chown(entries(tmp_path / "c")[0], 1, 1)
    objects_of({"a": source(1)}, ISA, cache=tmp_path / "c")
    os.chown(tmp_path / "c", 1, 1)
    objects_of({"a": source(1)}, ISA, cache=tmp_path / "c")
    assert compiled == [text(1)] * 3


def test_a_full_disk_is_no_fault_and_leaves_nothing(tmp_path: Path) -> None:
    if (child := os.fork()) == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
            (made,) = objects_of({"a": source(7)}, ISA, cache=tmp_path).values()
            status = int(not made.startswith(b"\x7fELF"))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert entries(tmp_path) == []


def test_what_a_killed_process_left_goes_after_a_while(tmp_path: Path) -> None:
    for name, age in ((".zeropoint-old.tmp", 3600), (".zeropoint-new.tmp", 10), ("old.tmp", 3600)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    objects_of({"a": source(1)}, ISA, cache=tmp_path)
    assert [path.name for path in entries(tmp_path) if path.suffix == ".tmp"] == [".zeropoint-new.tmp", "old.tmp"]


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ZEROPOINT_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() is not None  # the system knows this user

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert cache_folder() is None
    assert objects_of({"a": source(1)}, ISA, cache=cache_folder())["a"].startswith(b"\x7fELF")


@pytest.mark.parametrize("home", ["", "relative", "./here"])
def test_a_home_that_is_no_absolute_path_is_none(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ZEROPOINT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(tmp_path)
    assert cache_folder() is None
    assert objects_of({"a": source(1)}, ISA, cache=cache_folder())["a"].startswith(b"\x7fELF")
    assert entries(tmp_path) == []


@pytest.mark.parametrize("isa", [ISA, instruction_set(cpu="neoverse-v1"), instruction_set(cpu="alderlake")])
def test_programs_are_compiled_by_processes_of_their_own_to_the_same_objects(
    isa: InstructionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(objects.PARALLEL, "object", 8)
    several = {f"m{number}": source(number) for number in range(9)}
    assert objects_of(several, isa) == {name: objects_of({name: each}, isa)[name] for name, each in several.items()}


KILLED = """#!{python}
import os, pickle, signal, sys
from dataclasses import replace
from zeropoint.codegen.llvm.compiling import compiled
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
texts, triple, cpu, features, form, _ = pickle.load(sys.stdin.buffer)
isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
pickle.dump(next(compiled(texts, isa, form)), sys.stdout.buffer)
sys.stdout.buffer.flush()
os.kill(os.getpid(), signal.{signal})
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV"])
def test_a_compiler_that_is_killed_loses_nothing_and_one_that_crashes_is_a_bug(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "python"
    dying.write_text(KILLED.format(python=sys.executable, signal=name))
    dying.chmod(0o700)
    texts = [text(number) for number in range(3)]
    expected = list(compiling.compiled(texts, ISA, "debug"))
    monkeypatch.setattr(sys, "executable", str(dying))
    if name == "SIGSEGV":
        with pytest.raises(RuntimeError, match=r"LLVM failed \(SIGSEGV\)"):
            list(compiling.compiled_apart(texts, ISA, "debug"))
    else:
        assert list(compiling.compiled_apart(texts, ISA, "debug")) == expected


def test_a_compiling_process_does_not_import_numpy() -> None:
    """NumPy took more than half of the time until such a process compiled its first module."""
    check = "import sys; from zeropoint.codegen.llvm.compiling import serve; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZEROPOINT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("ZEROPOINT_CACHE", "")
    assert cache_folder() is None
    monkeypatch.delenv("ZEROPOINT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "zeropoint"


def test_a_cached_program_gives_the_same_results(tmp_path: Path) -> None:
    first, second = (NativeProgram(classifier(), cache=tmp_path)(image(0))["y0"] for _ in range(2))
    assert (first == second).all()


def test_ahead_of_time_the_cache_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROPOINT_CACHE", str(tmp_path))
    first = library(classifier(), "net", host()).object
    monkeypatch.setitem(compiling.FORMS, "bitcode", lambda text, isa: pytest.fail("compiled again"))
    assert library(classifier(), "net", host()).object == first


def test_what_is_in_the_cache_is_not_even_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    NativeProgram(classifier(), cache=tmp_path, guarded=False)
    monkeypatch.setattr(Module, "__str__", lambda self: pytest.fail("wrote a module"))
    graph = steps_of(classifier(), host())
    made = objects_of(kernels_of(graph).sources, host(), cache=tmp_path)
    assert len(made) == len({step.kernel for step in graph.steps})


def test_code_that_has_changed_since_it_was_imported_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeropoint.codegen, "LOADED", 0.0)
    modules._code.cache_clear()
    assert modules._code() is None
    monkeypatch.setattr(zeropoint.codegen, "LOADED", math.inf)
    modules._code.cache_clear()
    assert modules._code() is not None


def test_other_code_that_writes_kernels_makes_other_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = steps_of(classifier(), host())

    def keys() -> set[str]:
        return {source.key for source in kernels_of(graph).sources.values()}

    before = keys()
    assert keys() == before
    monkeypatch.setattr(modules, "_code", lambda: "other")
    assert not keys() & before
    monkeypatch.setattr(modules, "_code", lambda: None)  # it cannot be read: the text is the key
    assert all(key.startswith(("declare", "define")) for key in keys())
