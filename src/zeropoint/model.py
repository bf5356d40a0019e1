"""`Model`, the user's view of a program: it can be called, saved and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import StringAttr

from zeropoint.calibrate import Progress, instrument, silent
from zeropoint.calibrate.fitting import misplaced_channels
from zeropoint.calibrate.items import as_array, batch_size, batched, with_batch_of_one
from zeropoint.engines import QuickestEngine, for_runs
from zeropoint.export import ExportOptions, export_program
from zeropoint.fuse import fuse
from zeropoint.interp import Engine, ReferenceEngine, Runnable
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.arguments import InputError, signature
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Port, Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program, resource_arrays
from zeropoint.ir.weights import Weights
from zeropoint.pipeline import Quantization
from zeropoint.report.agreement import Accumulated, Comparison, ComparisonError
from zeropoint.report.counts import Ops, count_ops
from zeropoint.report.explain import Explanation, explain
from zeropoint.report.layers import observed_layers
from zeropoint.report.parts import output_parts
from zeropoint.report.tables import preformatted
from zeropoint.simplify import simplify
from zeropoint.targets import Target
from zeropoint.targets import target as named_target

if TYPE_CHECKING:
    from zeropoint.timing import Timing


class Model:
    """A program that is ready to run.

    `model(x=array)` runs a sample of the inputs' shapes, or a batch of samples, and returns a dict of outputs.

    `quantization` holds the intermediate stages if the program was quantized in this process. `engine` runs the
    program; by default it is the faster of the interpreter and native code. Both give the same bits.
    """

    def __init__(self, program: Program, quantization: Quantization | None = None, *, engine: Engine | None = None):
        self.program = program
        self.quantization = quantization
        self.engine: Engine = QuickestEngine() if engine is None else engine
        self._prepared: Runnable | None = None

    @property
    def inputs(self) -> list[Port]:
        """Names and types of the inputs."""
        return self.program.inputs

    @property
    def outputs(self) -> list[Port]:
        """Names and types of the outputs."""
        return self.program.outputs

    def __call__(self, *arrays: Any, **inputs: Any) -> dict[str, Array]:
        """Run a sample or a batch of samples: `model(image=array)`, or `model(array)` in the order of the inputs.

        Arrays may be PyTorch tensors. If every array has a leading axis of n samples, outputs are stacked as in
        `run_samples`. Raises InputError if names, shapes or dtypes do not match the inputs.
        """
        given = self._given(arrays, inputs)
        count = batch_size(given, self.inputs)
        if count is None:
            return self._ready()(with_batch_of_one(given, self.inputs))
        return self.run_samples(batched(given, self.inputs, count))

    def profile(self, *arrays: Any, rounds: int = 20, **inputs: Any) -> Timing:
        """The time of every kernel in native code, on one thread and one sample. Takes arrays as a call does.

        Raises CodegenError if an op has no kernel, InputError if the arrays do not match the inputs.
        """
        from zeropoint.codegen.runtime.native import NativeProgram
        from zeropoint.codegen.runtime.profiling import profile
        from zeropoint.timing import Timing

        given = with_batch_of_one(self._given(arrays, inputs), self.inputs)
        return Timing(profile(NativeProgram(self._for_machines()), given, rounds))

    def _given(self, arrays: Sequence[Any], inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The arrays by input name. Raises InputError for too many arrays, an input given twice, wrong dtypes."""
        if len(arrays) > len(self.inputs):
            raise InputError(f"found {len(arrays)} arrays, expected {len(self.inputs)}: {signature(self.inputs)}")
        named = {port.name: array for port, array in zip(self.inputs, arrays, strict=False)}
        if twice := named.keys() & inputs.keys():
            raise InputError(f"found input '{min(twice)}' twice, by position and by name; give it once")
        given = {name: as_array(value) for name, value in {**named, **inputs}.items()}
        for port in self.inputs:
            array = given.get(port.name)
            if array is not None and (reason := port.misfit(array) or misplaced_channels(array.shape, port)):
                raise InputError(f"input {port.name}: {reason}")
        return given

    def report(
        self,
        path: str | Path,
        *,
        reference: Model | None = None,
        data: Any = None,
        timing: bool = True,
        trials: bool = True,
        progress: Progress = silent,
    ) -> Path:
        """Write one page about this integer program, `REPORT.html`, or its data, `REPORT.json`; return the path.

        With `data`, outputs and kernels are compared with the float model: `reference`, or the one that this model was
        quantized from in this process. `timing` compiles the program and times its kernels. `trials` measures recipe
        rules for the kernels that add most noise. Sections that cannot be made say what they need.

        Raises ReportError for a float model, DataError if the data does not match the inputs, ValueError for another
        suffix, OSError.
        """
        from zeropoint.calibrate import samples
        from zeropoint.measure import Source, check_suffix, measured_report, stages_of, write_report

        path = Path(path)
        check_suffix(path)
        floats = None if reference is None else reference.program
        source = Source(floats) if self.quantization is None else stages_of(self.quantization, floats)
        if data is not None:
            given = samples(data, (source.reference or source.fused or self.program).inputs)
            source = replace(source, data=given, data_name=Path(data).name if isinstance(data, str | Path) else "data")
        found = measured_report(self.program, path.stem, source, timing=timing, trials=trials, progress=progress)
        write_report(found, path)
        return path

    def __getstate__(self) -> dict[str, Any]:
        """Text and weights, which other versions of Python can also read; neither stages nor compiled code."""
        held = {name: np.array(array) for name, array in resource_arrays(self.program).items()}
        return {"text": print_program(self.program, locations=True), "weights": held, "engine": self.engine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(parse_program(state["text"], "pickle", Weights(state["weights"])), engine=state["engine"])

    def __copy__(self) -> Model:
        return Model(self.program, self.quantization, engine=self.engine)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return Model(self.program.clone(), self.quantization, engine=self.engine)

    def _ready(self) -> Runnable:
        if self._prepared is None:
            self._prepared = self.engine.prepare(self.program)
        return self._prepared

    def _for_machines(self) -> Program:
        """The program to compile. In a float network, batch norms and constants are folded first."""
        return simplify(self.program) if self.program.profile is None else self.program

    def interpreted(self) -> Model:
        """The same model, run by the interpreter."""
        return Model(self.program, self.quantization, engine=ReferenceEngine())

    def native(self, *, threads: int = 1, callers: int = 1) -> Model:
        """The same model, run by machine code for this processor: the same results, faster.

        `threads` is the number of threads per call, `callers` the number of concurrent calls; further calls wait. The
        model is compiled now, not at the first call. Raises CodegenError if an op has no kernel, ValueError for invalid
        numbers.
        """
        from zeropoint.codegen.runtime.native import NativeEngine  # imports LLVM, needed only here

        model = Model(self._for_machines(), self.quantization, engine=NativeEngine(threads=threads, callers=callers))
        model._ready()
        return model

    def compile(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        isa: str | None = None,
        cpu: str | None = None,
        triple: str | None = None,
    ) -> list[Path]:
        """Write an object file (`NAME.o`) or shared library (`libNAME.so`) and its C header `NAME.h`; return the paths.

        `name` is the prefix of its functions, by default the file's name. `isa` names the instruction set to compile
        for, `cpu` the processor ("native", the default, is this one), `triple` another system. Raises CodegenError for
        unknown names, ops without a kernel and a missing linker; OSError.
        """
        from zeropoint.codegen.aot.ahead_of_time import compile_to

        return compile_to(self._for_machines(), Path(path), name=name, isa=isa, cpu=cpu, triple=triple)

    def iterate(
        self, samples: Iterable[Mapping[str, Array]], *, progress: Progress = silent
    ) -> Iterator[dict[str, Array]]:
        """Yield the outputs of each sample."""
        engine = self._prepared or for_runs(self.engine, length_hint(samples)).prepare(self.program)
        self._prepared = engine
        for sample in progress(samples, "run"):
            yield engine(sample)

    def run_samples(self, samples: Iterable[Mapping[str, Array]], *, progress: Progress = silent) -> dict[str, Array]:
        """Run all samples. Outputs are stacked along a leading sample axis, which replaces a batch axis of size 1."""
        results = list(self.iterate(samples, progress=progress))
        return {port.name: stacked([result[port.name] for result in results]) for port in self.outputs}

    def save(self, path: str | Path, *, inline_weights: bool = False) -> list[Path]:
        """Write `NAME.mlir` and `NAME.safetensors` (or one self-contained file) and return their paths.

        Raises ValueError for any other suffix, OSError if the files cannot be written.
        """
        path = Path(path)
        if path.suffix != ".mlir":
            raise ValueError(f"{path}: found suffix '{path.suffix}', expected .mlir; `export` writes other formats")
        return save_program(self.program, path, inline_weights=inline_weights)

    def export(
        self, path: str | Path, *, io: str = "float", layout: str = "channels-last", onnx_format: str = "qdq"
    ) -> list[Path]:
        """Write a file for another runtime: .tflite, .onnx, .tosa.mlir, .stablehlo.mlir, .mlirbc. Returns the paths.

        The model is the result of `quantize`, or a file written with `--emit kernels`, for a target of that runtime.
        `io` and `layout` (`channels-last`, `model`) select types and dimension order of inputs and outputs,
        `onnx_format` is `qdq` or `qoperator`. Raises ExportError if the format cannot hold the model; nothing is
        written then. Raises ValueError for unknown options.
        """
        for name, found, known in (
            ("io", io, ("float", "integer")),
            ("layout", layout, ("channels-last", "model")),
            ("onnx_format", onnx_format, ("qdq", "qoperator")),
        ):
            if found not in known:
                raise ValueError(f"found {name} '{found}', expected one of: {', '.join(known)}")
        decided = self.program if self.quantization is None else self.quantization.propagated
        return export_program(
            decided, Path(path), ExportOptions(io == "integer", layout == "channels-last", onnx_format)
        )

    def explain(self, value: str | None = None, *, target: str = "cpu") -> Explanation:
        """Explain the parameters of values, the rescales, and the ops that stay float; for one name, if given.

        For a float model: the kernels that `target` has for it, the ops that would stay float, and missing statistics.
        Raises ExplanationError for a name that is not in the model, ValueError for an unknown target.
        """
        program = self.program
        if program.profile is None:
            program = _asking(program, named_target(target))
        return explain(program, value)

    def __str__(self) -> str:
        """Inputs, outputs, ops and float ops, one per line."""
        rows = [("inputs", self.inputs), ("outputs", self.outputs)]
        lines = [f"{kind:8s}{port.name}: {port.type}" for kind, ports in rows for port in ports]
        if self.program.profile:
            lines.append(f"profile {self.program.profile}")
        return "\n".join([*lines, str(Ops.of(self.program))])

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __repr__(self) -> str:
        def ports(listed: list[Port]) -> str:
            return ", ".join(f"{port.name}: {port.type}" for port in listed)

        counts = count_ops(self.program)
        profile = f", profile {self.program.profile}" if self.program.profile else ""
        return (
            f"Model(({ports(self.inputs)}) -> ({ports(self.outputs)}): {counts.integer} integer ops, "
            f"{counts.floats} float ops, {len(self.program.weights)} weights{profile})"
        )


def _asking(program: Program, target: Target) -> Program:
    """A float program fused into kernels, with their statistics requests, and reasons for kernels that stay float."""
    if not any(isinstance(op, QuantizeRegionOp) for op in program.entry.ops):
        program = fuse(simplify(program), target)
    program = instrument(program)
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp) and op.logical_kernel.data not in target.by_kernel:
            reason = f"target {target.name} has no kernel '{op.logical_kernel.data}'"
            op.attributes.setdefault(FLOAT_REASON, StringAttr(reason))
    return program


def stacked(results: list[Array]) -> Array:
    """The outputs of samples in one array: concatenated if their leading axis is a batch of one, otherwise stacked."""
    if results and results[0].ndim and results[0].shape[0] == 1:
        return np.concatenate(results)
    return np.stack(results)


def compare(
    reference: Model,
    model: Model,
    samples: Iterable[Mapping[str, Array]],
    *,
    layers: bool = False,
    progress: Progress = silent,
) -> Comparison:
    """Run both models on the same samples, each by its engine; with `layers`, by the fastest engine.

    Raises ComparisonError if their inputs or outputs differ in name or number, or there are no samples.
    """
    _check_ports(reference, model)
    outputs = {port.name: Accumulated(port.name) for port in reference.outputs}
    inner: dict[str, Accumulated] = {}
    parts = [
        (name, part, Accumulated(f"{name}: {part.name}"))
        for name, found in output_parts(reference.program).items()
        for part in found
    ]
    runs = length_hint(samples, 1)
    engines = [
        QuickestEngine(runs).prepare(_with_layers(m.program)) if layers else for_runs(m.engine, runs).prepare(m.program)
        for m in (reference, model)
    ]
    count = 0
    for sample in progress(samples, "compare"):
        values: list[dict[str, Array]] = []
        observed: list[dict[str, Array]] = []
        for engine in engines:
            seen: dict[str, Array] = {}
            values.append(engine(sample, observe=seen.__setitem__))
            observed.append(seen)
        for name, accumulated in outputs.items():
            accumulated.add(values[0][name], values[1][name])
        for name, part, accumulated in parts:
            accumulated.add(part.of(values[0][name]), part.of(values[1][name]))
        for name in observed[0].keys() & observed[1].keys():
            if observed[0][name].shape == observed[1][name].shape:  # otherwise, two different values share a name
                inner.setdefault(name, Accumulated(name)).add(observed[0][name], observed[1][name])
        count += 1
        order = list(observed[0])
        inner = {name: inner[name] for name in order if name in inner}
    if not count:
        raise ComparisonError("found no samples, expected at least one")
    return Comparison(
        count,
        [a.result() for a in outputs.values()],
        [a.result() for a in inner.values()],
        [a.result() for _, _, a in parts],
        None if model.program.profile is None else Ops.of(model.program),
    )


def _with_layers(program: Program) -> Program:
    """The program with its inner values observed. A float program is fused first, so that kernels' values match."""
    return observed_layers(fuse(simplify(program)) if program.profile is None else program)


def _check_ports(reference: Model, model: Model) -> None:
    for kind, first, second in (
        ("inputs", reference.inputs, model.inputs),
        ("outputs", reference.outputs, model.outputs),
    ):
        names = [[port.name for port in ports] for ports in (first, second)]
        if names[0] != names[1]:
            raise ComparisonError(f"found {kind} {names[0]} and {names[1]}, expected the same names in both models")
        for a, b in zip(first, second, strict=True):
            if a.type != b.type:
                raise ComparisonError(f"{kind} '{a.name}': found {a.type} and {b.type}, expected the same type")
