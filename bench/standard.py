"""Integer programs in IREE: are the bits ours, and how fast is it?

Each model is quantized for target cpu, lowered by `lower-to-standard`, and compiled by IREE for this processor. Its
results are compared with our interpreter's, integer for integer. Latencies are medians of one thread, of IREE and of
our native code in turn, in one run. IREE gets linalg (`--iree-input-type=none`) and no flags but the processor.

    pip install -e '.[iree]'
    python bench/standard.py [--samples 4] [NAME=MODEL.onnx:CALIBRATION.npz ...]

Without arguments it measures the demo without its softmax, and EfficientNet-Lite0 where `.cache` has it
(`bench/README.md`). A model's CALIBRATION may be left out: random samples then give the ranges, which is enough for
bits and speed.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import zeropoint
from zeropoint.calibrate import samples as read_samples
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import print_program
from zeropoint.lower import integer_io
from zeropoint.model import Model
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard import lower_to_standard

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "examples" / "digits"
FLAGS = ["--iree-llvmcpu-target-cpu=host"]
ROUNDS, RUNS = 7, 5
Feeds = dict[str, np.ndarray]


def compiled(program: Program) -> Callable[..., Any]:
    """@main of a program in standard form, compiled by IREE, on one thread."""
    import iree.compiler
    import iree.runtime

    text = print_program(program, inline_weights=True)
    code = iree.compiler.compile_str(text, input_type="none", target_backends=["llvm-cpu"], extra_args=FLAGS)
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, code))
    main = context.modules.module["main"]

    def run(*arrays: np.ndarray) -> list[np.ndarray]:
        found = main(*arrays)
        return [each.to_host() for each in (found if isinstance(found, (list, tuple)) else [found])]

    return run


def without_softmax(folder: Path) -> Path:
    """The demo up to its logits: a softmax is float, and every compiler has its own `exp`."""
    graph = onnx.load(DIGITS / "digits.onnx").graph
    path = folder / "digits.onnx"
    onnx.utils.extract_model(DIGITS / "digits.onnx", path, [graph.input[0].name], [graph.node[-1].input[0]])
    return path


def random_samples(model: Model, count: int) -> list[Feeds]:
    random = np.random.default_rng(0)
    return [
        {port.name: random.random(port.type.get_shape(), np.float32) for port in model.inputs} for _ in range(count)
    ]


def median(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """Milliseconds of each, measured in turn."""
    found: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, times in zip(runs, found, strict=True):
            started = time.perf_counter()
            for _ in range(RUNS):
                run()
            times.append((time.perf_counter() - started) / RUNS * 1000)
    return [statistics.median(times) for times in found]


def integers(program: Program, feeds: Sequence[Feeds]) -> tuple[Program, list[list[np.ndarray]]]:
    """The program with integers at its ends where it has such a form, and inputs: random ones, as bits are compared."""
    try:
        program = integer_io(program)
    except LoweringError:
        return program, [[np.ascontiguousarray(feed[port.name]) for port in program.inputs] for feed in feeds]
    random = np.random.default_rng(1)
    shapes = [port.type.get_shape() for port in program.inputs]
    return program, [[random.integers(-128, 127, shape, np.int8, endpoint=True) for shape in shapes] for _ in feeds]


def measure(name: str, path: Path, calibration: Path | None, count: int) -> str:
    """One row of the table."""
    network = zeropoint.load(path)
    given = random_samples(network, 8) if calibration is None else list(read_samples(calibration, network.inputs))[:64]
    program, calls = integers(zeropoint.quantize(network, given, effort="none").program, given[:count])
    started = time.perf_counter()
    run = compiled(lower_to_standard(program))
    seconds = time.perf_counter() - started
    interpreter, native = Interpreter(program), NativeProgram(program, threads=1)
    differing = total = 0
    for arrays in calls:
        for ours, theirs in zip(interpreter.run_values(arrays), run(*arrays), strict=True):
            differing, total = differing + int((ours != theirs).sum()), total + ours.size
    feed = {port.name: array for port, array in zip(program.inputs, calls[0], strict=True)}
    ours, theirs = median([lambda: native(feed), lambda: run(*calls[0])])
    return f"{name:24}{differing:8} of {total:<9}{seconds:9.1f}{ours:11.2f}{theirs:11.2f}{theirs / ours:9.1f}"


def named(text: str) -> tuple[str, Path, Path | None]:
    name, _, place = text.partition("=")
    model, _, data = place.partition(":")
    return name, Path(model), Path(data) if data else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="NAME=MODEL.onnx[:CALIBRATION.npz]")
    parser.add_argument("--samples", type=int, default=4)
    arguments = parser.parse_args()
    print(f"{'':24}{'differing values':>19} {'compile s':>10}{'ours ms':>11}{'IREE ms':>11}{'ratio':>9}")
    with tempfile.TemporaryDirectory() as folder:
        rows = [("digits, logits", without_softmax(Path(folder)), DIGITS / "calib.npz")]
        cached = HERE / ".cache" / "efficientnet_lite0.onnx"
        rows += [("EfficientNet-Lite0", cached, None)] if cached.is_file() else []
        if arguments.models:
            rows = [named(model) for model in arguments.models]
        for name, model, data in rows:
            print(measure(name, model, data, arguments.samples), flush=True)


if __name__ == "__main__":
    main()
