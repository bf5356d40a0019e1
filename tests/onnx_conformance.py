"""ONNX's own backend suite through the importer and the interpreter: `make onnx-conformance`.

Prints, for each operator, how many of its cases passed, failed, crashed, or were refused; then every failure and the
reasons of the refusals. The exit status is 1 where a case fails or crashes. `--native` runs what passes again in native
code; `--write` puts the table into `docs/onnx.md`; names given choose cases.

A case is a model with inputs and expected outputs (`onnx.backend.test`: node, simple, pytorch-converted,
pytorch-operator; `real` is left out, its networks are downloads). Inputs that say a shape or an axis, which the suite
feeds like any other, are fixed to the case's values, as a user does by `load_model(..., constants=...)`. Tolerances are
the suite's own. Floats are compared after rounding to the width that the model declares, since a program holds f32.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper
from onnx.backend.test.case import base
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_pool_common

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SECONDS = 120
"""How long a case may take before it counts as crashed."""
DOCUMENT = Path(__file__).parents[1] / "docs/onnx.md"
BEGIN, END = "<!-- make onnx-conformance: begin -->", "<!-- make onnx-conformance: end -->"


@dataclass(frozen=True)
class Case:
    """One model of the suite, and pairs of inputs and outputs."""

    name: str
    kind: str
    test: Any

    @property
    def model(self) -> ModelProto:
        return self.test.model if self.test.model_dir is None else onnx.load(Path(self.test.model_dir) / "model.onnx")

    @property
    def operator(self) -> str:
        """The op that the case is about: the first of its graph, or what the name says of an expanded one."""
        if self.kind != "node":
            return self.kind
        return _EXPANDED.get(self.name.partition("_expanded")[0]) or self.test.model.graph.node[0].op_type

    def data(self) -> list[tuple[list[Any], list[Any]]]:
        """Inputs and expected outputs in order, a pair for each data set."""
        if self.test.model_dir is None:
            pairs = [
                ([_array(x) for x in inputs], [_array(x) for x in outputs]) for inputs, outputs in self.test.data_sets
            ]
            return [(inputs, self._in_f64(inputs)) for inputs, _ in pairs] if self.name in RECOMPUTED else pairs
        folders = sorted(Path(self.test.model_dir).glob("test_data_set_*"))
        return [(_protos(folder, "input"), _protos(folder, "output")) for folder in folders]

    def _in_f64(self, inputs: Sequence[Any]) -> list[Any]:
        """What ONNX's reference implementation computes in f64, as f32."""
        names = [value.name for value in self.model.graph.input]
        wide = [array.astype(np.float64) if array.dtype == np.float32 else array for array in inputs]
        found: Any = ReferenceEvaluator(self.model).run(None, dict(zip(names, wide, strict=False)))
        return [np.asarray(array, np.float32) for array in found]


RECOMPUTED = {"test_dft_inverse", "test_dft_inverse_opset19"}
"""Cases whose expected values were computed in f32, with errors above the tolerance: 1.9e-7 where the transform is 0.
They are computed again in f64, by ONNX's reference implementation."""
_EXPANDED: dict[str, str] = {}
"""Case names to the op that the plain form is about; the expanded form has many."""


def _array(value: Any) -> Any:
    """A value of a data set: scalars and TensorProtos as arrays, the rest as it is."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic | int | float | bool) else value


def _protos(folder: Path, kind: str) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [_loaded(folder / f"{kind}_{i}.pb") for i in range(count)]


def _loaded(path: Path) -> Any:
    try:
        return numpy_helper.to_array(onnx.load_tensor(path))
    except Exception:  # a sequence or an optional: another message
        return None


LARGE = 50_000
"""Elements of an operand from which ONNX's own loop over the windows of a pool takes seconds."""


@contextmanager
def made_quickly() -> Generator[None]:
    """A context in which ONNX's suite is made without what takes most of the time: the source text of each case, which
    ONNX's documentation shows, and the results of three large pools, for which there is NaN."""
    pool, snippet = op_pool_common.pool, base.process_snippet

    def quick(padded: Any, shape: Any, kernel: Any, strides: Any, out: Any, *more: Any, **options: Any) -> Any:
        if padded.size > LARGE:
            return np.full((*shape[:2], *out), np.nan, padded.dtype)
        return pool(padded, shape, kernel, strides, out, *more, **options)

    op_pool_common.pool, base.process_snippet = quick, lambda *names: ("", "")
    try:
        yield
    finally:
        op_pool_common.pool, base.process_snippet = pool, snippet


def cases() -> dict[str, Case]:
    """All cases by name."""
    found: dict[str, Case] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            for test in load_model_tests(kind=kind):
                found[test.name] = Case(test.name, kind, test)
    for case in found.values():
        if case.kind == "node" and "_expanded" not in case.name:
            _EXPANDED[case.name] = case.test.model.graph.node[0].op_type
    return found


@dataclass(frozen=True)
class Outcome:
    """What became of a case: `passed`, `folded` (passed, and nothing was left to compute), `refused`, `failed` or
    `crashed`; and why."""

    result: str
    reason: str = ""


def _load(case: Case, arrays: Mapping[str, np.ndarray[Any, Any]], folder: Path) -> Any:
    """The program; inputs that the importer says have to be constants are fixed to the case's values."""
    from zeropoint.frontend import ModelError, load_model

    path = folder / "model.onnx"
    onnx.save(case.model, path)
    fixed: dict[str, np.ndarray[Any, Any]] = {}
    while True:
        free = {name: array.shape for name, array in arrays.items() if name not in fixed and array.size}
        try:
            return load_model(path, free, fixed)
        except ModelError as error:
            wanted = [name for name in error.inputs_to_fix if name in arrays and name not in fixed]
            if not wanted:
                raise
            fixed.update({name: arrays[name] for name in wanted})


def judge(case: Case, native: bool = False) -> Outcome:
    """Import a case, run it, and compare what it computes."""
    from zeropoint.frontend import ModelError
    from zeropoint.interp import run
    from zeropoint.ir.tensors import element_dtype, element_of

    model, result = case.model, "passed"
    names = [value.name for value in model.graph.input]
    for inputs, outputs in case.data():
        if not all(isinstance(array, np.ndarray) and array.dtype.kind not in "OUS" for array in (*inputs, *outputs)):
            return Outcome("refused", "values that are no tensors of numbers")
        arrays = dict(zip(names, inputs, strict=False))
        try:
            with tempfile.TemporaryDirectory() as folder:
                program = _load(case, arrays, Path(folder))
        except ModelError as error:
            return Outcome("refused", str(error).partition(".onnx: ")[2])
        result = "passed" if program.inputs else "folded"
        if any(_leaves_f32(array) for array in (*inputs, *outputs)):
            return Outcome("refused", "f64 numbers outside of the range of f32, in which a program holds floats")
        given = {port.name: _as(arrays[port.name], element_dtype(element_of(port.type))) for port in program.inputs}
        if native:
            from zeropoint.codegen.llvm.machine import CodegenError
            from zeropoint.codegen.runtime.native import NativeProgram
            from zeropoint.simplify import simplify

            try:
                found = NativeProgram(simplify(program), cache=False)(given)
            except CodegenError as error:
                return Outcome("refused", str(error))
        else:
            found = run(program, given)
        declared = [value.name for value in model.graph.output]
        for name, expected in zip(declared, outputs, strict=True):
            if case.operator == "NonMaxSuppression":
                found[name] = _used(found[name])
            problem = difference(found[name], expected, case.test.rtol, case.test.atol)
            if problem:
                return Outcome("failed", f"{name}: {problem}")
    return Outcome(result)


def _used(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows before the unused ones, which are -1 and come last."""
    used = int((rows >= 0).all(axis=1).sum())
    assert (rows[:used] >= 0).all()
    assert (rows[used:] == -1).all()
    return rows[:used]


def _leaves_f32(array: np.ndarray[Any, Any]) -> bool:
    """Whether there are finite numbers past the greatest f32."""
    if array.dtype != np.float64:
        return False
    return bool((np.isfinite(array) & (np.abs(array) > np.finfo(np.float32).max)).any())


def _as(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return array.astype(dtype) if array.dtype != dtype else array


def difference(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], rtol: float, atol: float) -> str | None:
    """How an output differs from the suite's; the comparison is `onnx.backend.test.runner`'s."""
    if found.shape != expected.shape:
        return f"found shape {list(found.shape)}, expected {list(expected.shape)}"
    if expected.dtype.name in ("int2", "int4", "uint2", "uint4"):
        expected = expected.astype(found.dtype)  # a program holds these in 8 bits
    if expected.dtype.name.startswith(("float8", "float4")):
        expected = expected.astype(np.float32)
        found = found.astype(np.float32)
    floats = {found.dtype.name, expected.dtype.name} <= {"float16", "bfloat16", "float32", "float64"}
    if found.dtype != expected.dtype and not floats:
        return f"found dtype {found.dtype}, expected {expected.dtype}"
    narrow = expected.dtype.name in ("float16", "bfloat16")
    rtol = max(rtol, {"bfloat16": 2**-6, "float16": 2**-9}.get(expected.dtype.name, 0)) if narrow else rtol
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    if expected.dtype.kind in "iub":
        same = bool(np.array_equal(found, expected)) or np.allclose(found, expected, rtol=rtol, atol=atol)
        return None if same else f"found {found.reshape(-1)[:6]}, expected {expected.reshape(-1)[:6]}"
    a, b = found.astype(expected.dtype).astype(wide), expected.astype(wide)
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return None
    worst = int(
        np.argmax(np.where(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True), -1, np.abs(a - b)).reshape(-1))
    )
    return f"found {a.reshape(-1)[worst]:.7g} at element {worst}, expected {b.reshape(-1)[worst]:.7g}"


def serve(native: bool) -> None:
    """Judge the cases whose names come in, a line each, and write the outcomes as JSON."""
    every = cases()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcome = judge(every[line.strip()], native)
            except Exception as error:  # a traceback is a crash
                outcome = Outcome("crashed", f"{type(error).__name__}: {error}")
        print(json.dumps([outcome.result, " ".join(outcome.reason.split())]), file=answers, flush=True)


class _Worker:
    """A process that judges cases, started again when it dies or hangs."""

    def __init__(self, native: bool):
        self._command = [sys.executable, __file__, "--serve", *(["--native"] if native else [])]
        self._process: subprocess.Popen[str] | None = None

    def judge(self, name: str) -> Outcome:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()  # making the suite takes long on a busy machine; no case is to blame
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return Outcome(*json.loads(line))
        self._process = None
        return Outcome("crashed", f"the process ended with status {process.wait()}")

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


def judged(names: Sequence[str], native: bool = False, workers: int = 2) -> dict[str, Outcome]:
    """The outcomes of cases, by name; each is judged in another process."""
    queue, outcomes = list(reversed(names)), dict[str, Outcome]()

    def work() -> None:
        worker = _Worker(native)
        while True:
            try:
                name = queue.pop()
            except IndexError:
                break
            outcomes[name] = worker.judge(name)
            if sys.stderr.isatty():
                print(f"\r{len(outcomes)} of {len(names)}", end="", file=sys.stderr)
        worker.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: outcomes[name] for name in names}


RESULTS = ("passed", "folded", "refused", "failed", "crashed")


def tallies(every: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> dict[str, Counter[str]]:
    """Counts of results by operator."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome in outcomes.items():
        found[every[name].operator][outcome.result] += 1
    return dict(sorted(found.items()))


def _short(reason: str) -> str:
    """A refusal without what is particular to the case."""
    reason = re.sub(r"'[^']*' \(([\w:.]+)\)", r"\1", reason)
    reason = re.sub(r"^\d+ nodes? (is|are) not supported: ", "", reason)
    return re.sub(r"\[[^]]*\]", "[...]", reason)


def table(rows: Mapping[str, Counter[str]], reasons: Mapping[str, Counter[str]]) -> Iterable[str]:
    """The table of `docs/onnx.md`: an operator a row."""
    total = sum(rows.values(), Counter[str]())
    cases_, passed = sum(total.values()), total["passed"] + total["folded"]
    yield (
        f"onnx {onnx.__version__}: of {cases_} cases {passed} pass ({total['folded']} of them folded to constants), "
        f"{total['refused']} are refused, {total['failed']} are wrong, {total['crashed']} crash."
    )
    yield ""
    yield "| operator | passed | refused | reason of the refusal |"
    yield "|---|---|---|---|"
    for operator, counts in rows.items():
        texts = "; ".join(text.replace("|", "/") for text, _ in reasons.get(operator, Counter()).most_common(3))
        yield f"| {operator} | {counts['passed'] + counts['folded']} | {counts['refused']} | {texts} |"


def main() -> int:
    """Run everything; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of the cases to run; all by default")
    parser.add_argument("--native", action="store_true", help="run in native code")
    parser.add_argument("--write", action="store_true", help="put the table into docs/onnx.md")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.native)
        return 0
    every = cases()
    chosen = [name for name in every if not options.names or any(part in name for part in options.names)]
    outcomes = judged(chosen, options.native, options.workers)
    rows = tallies(every, outcomes)
    print(f"\n{'operator':34s} {'passed':>7s} {'folded':>7s} {'refused':>7s} {'failed':>7s} {'crashed':>7s}")
    for operator, counts in [*rows.items(), ("all", sum(rows.values(), Counter[str]()))]:
        print(f"{operator[:34]:34s} " + " ".join(f"{counts[result]:7d}" for result in RESULTS))
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome in outcomes.items():
        if outcome.result == "refused":
            reasons[every[name].operator][_short(outcome.reason)] += 1
    for operator, texts in sorted(reasons.items()):
        for text, count in texts.most_common():
            print(f"refused {operator} ({count}): {text[:300]}")
    bad = {name: outcome for name, outcome in outcomes.items() if outcome.result in ("failed", "crashed")}
    for name, outcome in bad.items():
        print(f"{outcome.result} {name}: {outcome.reason[:400]}")
    if options.json:
        options.json.write_text(json.dumps({name: [o.result, o.reason] for name, o in outcomes.items()}, indent=0))
    if options.write:
        text = DOCUMENT.read_text()
        head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
        DOCUMENT.write_text("\n".join([head + BEGIN, "", *table(rows, reasons), "", END + tail]))
    return 1 if bad else 0


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
