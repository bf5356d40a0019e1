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
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import llvmlite.binding as llvm

from zeropoint.codegen.llvm import machine
from zeropoint.measure.peak import CLOCK, Native, aligned, arithmetic, best_rate, choose


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
    features = dict.fromkeys(machine.features(machine.architecture(platform.machine())), True)
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
