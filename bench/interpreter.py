"""How long the reference interpreter takes for an image: the float network, and its quantized and integer programs.

onnxruntime's float time, on as many threads, is the yardstick. The programs are calibrated on two images: what is
measured does not depend on the scales.

    python bench/interpreter.py [MODEL.onnx] [--threads N] [--repeat N] [--layers]
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

DEFAULT_MODEL = Path(__file__).resolve().parent / ".cache" / "efficientnet_lite0.onnx"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--threads", type=int, default=2, help="of BLAS and of onnxruntime")
    parser.add_argument("--repeat", type=int, default=5, help="runs; the median is shown")
    parser.add_argument("--layers", action="store_true", help="also the kinds of ops that take longest")
    return parser.parse_args()


def _median_seconds(run: Callable[[], object], repeat: int) -> float:
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeat // 2]


def main() -> None:
    arguments = _arguments()
    # BLAS reads these when NumPy is imported.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    if not arguments.model.is_file():
        sys.exit(f"found no {arguments.model}; make it with bench/models/efficientnet_lite0.py, or name another")
    _measure(arguments.model, arguments.threads, arguments.repeat, arguments.layers)


def _measure(model: Path, threads: int, repeat: int, layers: bool) -> None:
    import numpy as np
    import onnxruntime
    from rich.console import Console
    from rich.table import Table

    from zeropoint import pipeline
    from zeropoint.frontend import load_model
    from zeropoint.interp import Interpreter
    from zeropoint.ir.tensors import shape_of

    program = load_model(model)
    rng = np.random.default_rng(0)
    samples = [
        {port.name: rng.standard_normal(shape_of(port.type)).astype(np.float32) for port in program.inputs}
        for _ in range(2)
    ]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options)
    yardstick = _median_seconds(lambda: session.run(None, samples[0]), repeat)
    stages = pipeline.quantize(program, samples)
    table = Table(title=f"{model.stem}, {threads} thread(s)")
    for column in ("program", "prepare, s", "s per image", "64 images, s", "of onnxruntime float"):
        table.add_column(column, justify="left" if column == "program" else "right")
    table.add_row("onnxruntime float", "", f"{yardstick:.4f}", f"{64 * yardstick:.1f}", "1")
    console = Console()
    for name, stage in {"float": program, "quantized": stages.quantized, "integer": stages.integer}.items():
        start = time.perf_counter()
        interpreter = Interpreter(stage)
        prepare = time.perf_counter() - start
        seconds = _median_seconds(lambda interpreter=interpreter: interpreter(samples[0]), repeat)
        ratio = f"{seconds / yardstick:.1f}"
        table.add_row(name, f"{prepare:.2f}", f"{seconds:.4f}", f"{64 * seconds:.1f}", ratio)
        if layers:
            console.print(_kinds(name, interpreter, samples[0]))
    console.print(table)


def _kinds(title: str, interpreter, sample):
    from rich.table import Table

    taken, count = Counter(), Counter()
    last = time.perf_counter()

    def trace(op, results) -> None:
        nonlocal last
        taken[op.name] += time.perf_counter() - last
        count[op.name] += 1
        last = time.perf_counter()

    interpreter(sample, trace=trace)
    table = Table("op", "count", "ms", title=title)
    for name, seconds in taken.most_common(8):
        table.add_row(name, str(count[name]), f"{seconds * 1e3:.2f}")
    return table


if __name__ == "__main__":
    main()
