"""What this CPU can do at most: int8 and f32 arithmetic of a core, and the bandwidth of each level of memory.

The ceilings of a roofline. Arithmetic is a loop of independent accumulators and nothing else, in the widest form that
the CPU has; the first row of `FORMS` whose features it has is the one a compiler would choose, and it is named. The
sums are checked against NumPy, so what is timed is what was meant. Bandwidth is that of a core that reads (or writes)
vectors in order from a buffer half as large as the level; DRAM's buffer is four times the last cache.

A dependent chain of additions, one a cycle on every CPU of these years, gives the clock of scalar code; some CPUs
lower it for wide vectors, which the other figures include.
Figures are the best of several: other work on the machine can only lower them.

    python bench/peak.py [--json]
"""

import argparse
import ctypes
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

REPEATS = 12
SECONDS = 0.02  # of one measurement; long enough for the clock to settle, short enough to fall between other work


@dataclass(frozen=True)
class Form:
    """One way to accumulate products.

    `assembly` works on $0 (the accumulator), $2 and $3 (the factors); `clobbers` are registers it uses besides.
    `operations` counts a multiplication and an addition as two.
    """

    name: str
    kind: str
    features: tuple[str, ...]
    vector: str
    assembly: str
    operations: int
    accumulators: int
    clobbers: str = ""
    register: str = "v"


def _pairs(letter: str) -> str:
    """u8 x i8 without VNNI: pairs are added in 16 bits (and saturate there), then in 32."""
    temporary = f"%{letter}mm15"
    return f"vpmaddubsw $3, $2, {temporary}; vpmaddwd {temporary}, $2, {temporary}; vpaddd {temporary}, $0, $0"


FORMS = (
    Form("VPDPBUSD, 512 bits", "int8", ("avx512vnni",), "16 x i32", "vpdpbusd $3, $2, $0", 128, 24),
    Form("VPDPBUSD, 256 bits", "int8", ("avxvnni",), "8 x i32", "{vex} vpdpbusd $3, $2, $0", 64, 12, register="x"),
    Form("VPMADDUBSW + VPMADDWD + VPADDD, 512 bits", "int8", ("avx512bw",), "16 x i32", _pairs("z"), 128, 24, "xmm15"),
    Form("VPMADDUBSW + VPMADDWD + VPADDD, 256 bits", "int8", ("avx2",), "8 x i32", _pairs("y"), 64, 12, "xmm15", "x"),
    Form("VFMADD, 512 bits", "f32", ("avx512f",), "16 x float", "vfmadd231ps $3, $2, $0", 32, 24),
    Form("VFMADD, 256 bits", "f32", ("fma",), "8 x float", "vfmadd231ps $3, $2, $0", 16, 12, register="x"),
)
CLOCK = Form("chain of additions", "clock", (), "1 x i64", "addq $3, $0", 1, 1, register="r")


@dataclass(frozen=True)
class Level:
    """A level of memory: bytes a second that one core reads and writes, by a buffer of `size` bytes."""

    name: str
    size: int
    read_gb_s: float
    write_gb_s: float


@dataclass(frozen=True)
class Peak:
    """Ceilings of this machine. GOPS and GFLOPS are 1e9 operations a second of one core."""

    cpu: str
    clock_ghz: float
    int8_form: str
    int8_gops: float
    int8_gops_all_busy: float
    f32_form: str
    f32_gflops: float
    f32_gflops_all_busy: float
    levels: tuple[Level, ...]


def choose(kind: str, features: dict[str, bool]) -> Form:
    """The first form of `kind` whose features the CPU has.

    Raises:
        ValueError: it has none of them.
    """
    for form in FORMS:
        if form.kind == kind and all(features.get(feature, False) for feature in form.features):
            return form
    wanted = ", ".join(form.features[0] for form in FORMS if form.kind == kind)
    raise ValueError(f"found no way to measure {kind} on this CPU, expected one of the features {wanted}")


def arithmetic_ir(form: Form, unroll: int = 4) -> str:
    """LLVM IR of `void run(i64 iterations, ptr factors, ptr sums)`; an iteration is `unroll` steps an accumulator."""
    vector = f"<{form.vector}>" if form.register != "r" else "i64"
    count = form.accumulators
    clobbers = f",~{{{form.clobbers}}}" if form.clobbers else ""
    constraints = f"={form.register},0,{form.register},{form.register}{clobbers}"
    zero = "zeroinitializer" if vector != "i64" else "0"
    heads = [f"  %s{i}.0 = phi {vector} [{zero}, %entry], [%s{i}.{unroll}, %loop]" for i in range(count)]
    steps = [
        f'  %s{i}.{step + 1} = call {vector} asm sideeffect "{form.assembly}", "{constraints}"'
        f"({vector} %s{i}.{step}, {vector} %a, {vector} %b)"
        for step in range(unroll)
        for i in range(count)
    ]
    stores = [
        f"  %p{i} = getelementptr {vector}, ptr %sums, i64 {i}\n  store {vector} %s{i}.{unroll}, ptr %p{i}, align 8"
        for i in range(count)
    ]
    return "\n".join(
        [
            "define void @run(i64 %iterations, ptr %factors, ptr %sums) {",
            "entry:",
            f"  %a = load {vector}, ptr %factors, align 8",
            f"  %q = getelementptr {vector}, ptr %factors, i64 1",
            f"  %b = load {vector}, ptr %q, align 8",
            "  br label %loop",
            "loop:",
            "  %n = phi i64 [0, %entry], [%next, %loop]",
            *heads,
            *steps,
            "  %next = add i64 %n, 1",
            "  %more = icmp ult i64 %next, %iterations",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *stores,
            "  ret void",
            "}",
        ]
    )


def bandwidth_ir(vector: str, write: bool, unroll: int = 8) -> str:
    """LLVM IR of `void run(i64 passes, ptr buffer, i64 vectors, ptr sums)`; `vectors` is a multiple of `unroll`."""
    kind = f"<{vector}>"
    heads, steps = [], []
    for i in range(unroll):
        heads.append(f"  %s{i} = phi {kind} [%t{i}, %outer], [%n{i}, %inner]")
        steps.append(f"  %j{i} = add i64 %j, {i}\n  %p{i} = getelementptr {kind}, ptr %buffer, i64 %j{i}")
        if write:
            steps.append(f"  store volatile {kind} %s{i}, ptr %p{i}, align 64")
            steps.append(f"  %n{i} = add {kind} %s{i}, zeroinitializer")
        else:
            steps.append(f"  %v{i} = load {kind}, ptr %p{i}, align 64\n  %n{i} = add {kind} %s{i}, %v{i}")
    totals = [f"  %t{i} = phi {kind} [zeroinitializer, %entry], [%n{i}, %next]" for i in range(unroll)]
    stores = [
        f"  %o{i} = getelementptr {kind}, ptr %sums, i64 {i}\n  store {kind} %n{i}, ptr %o{i}, align 8"
        for i in range(unroll)
    ]
    return "\n".join(
        [
            "define void @run(i64 %passes, ptr %buffer, i64 %vectors, ptr %sums) {",
            "entry:\n  br label %outer",
            "outer:",
            "  %pass = phi i64 [0, %entry], [%pass.next, %next]",
            *totals,
            "  br label %inner",
            "inner:",
            "  %j = phi i64 [0, %outer], [%j.next, %inner]",
            *heads,
            *steps,
            f"  %j.next = add i64 %j, {unroll}",
            "  %more = icmp ult i64 %j.next, %vectors",
            "  br i1 %more, label %inner, label %next",
            "next:",
            "  %pass.next = add i64 %pass, 1",
            "  %again = icmp ult i64 %pass.next, %passes",
            "  br i1 %again, label %outer, label %done",
            "done:",
            *stores,
            "  ret void",
            "}",
        ]
    )


@cache
def _targets_ready() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


class Native:
    """A compiled `run`; the machine code lives as long as this does."""

    def __init__(self, ir: str, arguments: int) -> None:
        _targets_ready()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        module = llvm.parse_assembly(ir)
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_int64 if i == 0 else ctypes.c_void_p for i in range(arguments)])
        self.run = signature(self._engine.get_function_address("run"))


def aligned(size: int) -> np.ndarray:
    """`size` zero bytes, u8, that start at a multiple of 64, each page touched."""
    raw = np.zeros(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    raw[:] = 0
    return raw[offset : offset + size]


def best_rate(work: float, run: Callable[[int], None]) -> float:
    """The highest rate of `run(n)`, which does `n` times `work`: in units of `work` a second."""
    count, elapsed = 1, 0.0
    while elapsed < SECONDS:
        count *= 2 if elapsed < SECONDS / 8 else 1 + int(SECONDS / elapsed)
        started = time.perf_counter()
        run(count)
        elapsed = time.perf_counter() - started
    rates = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run(count)
        rates.append(count * work / (time.perf_counter() - started))
    return max(rates)


def arithmetic(form: Form, threads: int = 1, unroll: int = 4) -> float:
    """1e9 operations a second of one core while `threads` cores do the same.

    Raises:
        ValueError: the sums are not what NumPy computes.
    """
    native = Native(arithmetic_ir(form, unroll), 3)
    factors, expected = _factors(form)
    out = [aligned(64 * form.accumulators) for _ in range(threads)]
    native.run(1, factors.ctypes.data, out[0].ctypes.data)
    size = expected.nbytes * form.accumulators
    found = out[0][:size].view(expected.dtype).reshape(form.accumulators, -1)
    if not np.array_equal(found, np.broadcast_to(expected * unroll, found.shape)):
        raise ValueError(f"found other sums than NumPy's from {form.name}")

    def run(count: int) -> None:
        workers = [
            threading.Thread(target=native.run, args=(count, factors.ctypes.data, sums.ctypes.data)) for sums in out[1:]
        ]
        for worker in workers:
            worker.start()
        native.run(count, factors.ctypes.data, out[0].ctypes.data)
        for worker in workers:
            worker.join()

    return best_rate(form.operations * form.accumulators * unroll, run) / 1e9


def _factors(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """The two factors, one after the other, as bytes; and what one step adds to an accumulator."""
    generator = np.random.default_rng(0)
    if form.kind == "clock":
        return np.array([0, 3], np.int64).view(np.uint8), np.array([3], np.int64)
    lanes = int(form.vector.split(" ")[0])
    if form.kind == "f32":
        values = generator.integers(1, 5, (2, lanes)).astype(np.float32)  # small integers: exact sums
        return values.view(np.uint8).ravel(), values[0] * values[1]
    if "VPMADDWD" in form.name:  # ones: its second multiplication takes the pairs of the first factor, 0x0101
        left, right = np.ones((lanes, 4), np.uint8), generator.integers(-60, 60, (lanes, 4)).astype(np.int8)
        pairs = right.reshape(lanes, 2, 2).sum(2, dtype=np.int32) * 0x0101
        return np.concatenate([left.ravel(), right.ravel().view(np.uint8)]), pairs.sum(1, dtype=np.int32)
    left, right = generator.integers(0, 256, (lanes, 4)), generator.integers(-128, 128, (lanes, 4))
    step = (left * right).sum(1).astype(np.int32)
    return np.concatenate([left.astype(np.uint8).ravel(), right.astype(np.int8).ravel().view(np.uint8)]), step


def bandwidth(size: int, write: bool) -> float:
    """1e9 bytes a second that one core reads, or writes, in a buffer of about `size` bytes."""
    wide = bool(llvm.get_host_cpu_features().get("avx512f", False))
    width, unroll = (64, 8) if wide else (32, 8)
    vectors = max(size // (width * unroll), 1) * unroll
    native = Native(bandwidth_ir("16 x i32" if wide else "8 x i32", write, unroll), 4)
    buffer, sums = aligned(vectors * width), aligned(64 * unroll)

    def run(passes: int) -> None:
        native.run(passes, buffer.ctypes.data, vectors, sums.ctypes.data)

    return best_rate(vectors * width, run) / 1e9


def cache_sizes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """Bytes of the data caches by name, "L1" to "L3", as Linux reports them; empty where it doesn't."""
    sizes: dict[str, int] = {}
    for index in sorted(folder.glob("index*")):
        if (index / "type").read_text().strip() == "Instruction":
            continue
        kib = int((index / "size").read_text().strip().removesuffix("K"))
        sizes[f"L{(index / 'level').read_text().strip()}"] = kib * 1024
    return sizes


def cpu_name() -> str:
    """The model's name, and the core's as LLVM calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{model} ({llvm.get_host_cpu_name()})"


def measure() -> Peak:
    """All ceilings, in about ten seconds."""
    features = dict(llvm.get_host_cpu_features())
    cores = len(os.sched_getaffinity(0))
    int8, f32 = choose("int8", features), choose("f32", features)
    caches = cache_sizes() or {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
    sizes = {name: size // 2 for name, size in caches.items()}
    sizes["DRAM"] = 4 * max(caches.values())
    return Peak(
        cpu=cpu_name(),
        clock_ghz=arithmetic(CLOCK),
        int8_form=int8.name,
        int8_gops=arithmetic(int8),
        int8_gops_all_busy=arithmetic(int8, cores),
        f32_form=f32.name,
        f32_gflops=arithmetic(f32),
        f32_gflops_all_busy=arithmetic(f32, cores),
        levels=tuple(
            Level(name, size, bandwidth(size, write=False), bandwidth(size, write=True)) for name, size in sizes.items()
        ),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the same as one JSON object")
    arguments = parser.parse_args()
    peak = measure()
    if arguments.json:
        print(json.dumps(asdict(peak), indent=2))
        return
    print(f"{peak.cpu}, {peak.clock_ghz:.2f} GHz; one core, and each core while all are busy")
    print(f"int8 {peak.int8_gops:8.0f} {peak.int8_gops_all_busy:8.0f} GOPS    {peak.int8_form}")
    print(f"f32  {peak.f32_gflops:8.0f} {peak.f32_gflops_all_busy:8.0f} GFLOPS  {peak.f32_form}")
    for level in peak.levels:
        buffer = f"{level.size / 1024:.0f} KiB" if level.size < 1 << 20 else f"{level.size / (1 << 20):.0f} MiB"
        print(f"{level.name:<4} {level.read_gb_s:8.1f} read {level.write_gb_s:8.1f} written GB/s  in {buffer}")


if __name__ == "__main__":
    main()
