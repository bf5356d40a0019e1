"""`Model`, the user's view of a program: it can be called, saved and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from zeropoint.calibrate import DataError, samples
from zeropoint.calibrate.batches import batch_of, regrouped, rows_of
from zeropoint.calibrate.calls import ExactCalls, arrays_of_call, data_of, sample_of
from zeropoint.calibrate.data import NO_SAMPLES, holds_items
from zeropoint.calibrate.items import batch_size, batched, with_batch_of_one
from zeropoint.engines import QuickestEngine, for_runs
from zeropoint.errors import OptionError
from zeropoint.export import ExportOptions, export_program
from zeropoint.frontend.errors import ModelError
from zeropoint.interp import Engine, ReferenceEngine, Runnable
from zeropoint.ir.arguments import InputError, Sample
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import ResourceArrays, parse_program, print_program
from zeropoint.ir.weights import Weights
from zeropoint.lower import lower_float_casts
from zeropoint.numerics.arrays import plain
from zeropoint.open_kernels import with_open_kernels
from zeropoint.options import check_arguments, listed, one_of
from zeropoint.progress import Progress, display
from zeropoint.quantization import Quantization
from zeropoint.report.explain import Explanation, IntegerBounds, explain
from zeropoint.report.outline import outline, summary_line
from zeropoint.report.tables import preformatted
from zeropoint.simplify import simplify
from zeropoint.targets import target as named_target

if TYPE_CHECKING:
    from zeropoint.timing import Timing


class Model:
    """A program that is ready to run.

    `model(x=array)` runs a sample or a batch of samples, and returns a dict of outputs.

    `quantization` holds the intermediate stages if the program was quantized in this process. `engine` runs the
    program. It defaults to the faster one of the interpreter and native code. Both give the same bits.
    """

    def __init__(self, program: Program, quantization: Quantization | None = None, *, engine: Engine | None = None):
        if not isinstance(cast("object", program), Program):
            raise ModelError(f"found {type(program).__name__}, expected a Program; zp.load makes a Model from a file")
        self.program = program
        self.quantization = quantization
        self.engine: Engine = QuickestEngine() if engine is None else engine
        self._prepared: Runnable | None = None
        self._exact: ExactCalls | None = None

    @property
    def inputs(self) -> list[Port]:
        """Names and types of the inputs."""
        return self.program.inputs

    @property
    def outputs(self) -> list[Port]:
        """Names and types of the outputs."""
        return self.program.outputs

    def __call__(self, /, *arrays: Any, **inputs: Any) -> dict[str, Array]:
        """Run a sample or a batch of samples: `model(image=array)`, or `model(array)` in the order of the inputs.

        Arrays may be PyTorch tensors. If every array has a leading axis of n samples, outputs are stacked as in
        `run_samples`. A model with a batch axis of N takes any number of samples. It runs N at a time; the last group
        is filled up, and its additional outputs are dropped. NaN at a quantized input counts as 0 (docs/numerics.md).

        A single argument may also be data in the forms that `zp.quantize` takes: a path, `zp.Images`, a dict or an
        iterable. All of its samples are run, and outputs are stacked. A dict of arrays of the inputs' shapes is one
        sample.

        Raises InputError for arrays, and DataError for data, that do not match the inputs.
        """
        if self._exact is None:
            self._exact = ExactCalls(self.inputs)
        if (sample := self._exact.sample(arrays, inputs)) is not None:
            return self._ready()(sample)
        ports = self.inputs
        if (one := sample_of(arrays, inputs, ports)) is not None:
            arrays, inputs = (), dict(one)
        if (data := data_of(arrays, inputs, ports)) is not None:
            return self.run_samples(samples(data, ports, fill=True))
        given = arrays_of_call(arrays, inputs, ports)
        count = batch_size(given, ports)
        if count is not None:
            return self.run_samples(batched(given, ports, count))
        size = batch_of(ports)
        rows = rows_of(given, ports) if size > 1 and len(given) == len(ports) else None
        return self._ready()(with_batch_of_one(given, ports)) if rows is None else self._in_batches(rows, size)

    def _in_batches(self, rows: Mapping[str, Array], size: int) -> dict[str, Array]:
        """Run rows, `size` at a time, and concatenate the outputs. Raises InputError if an output has no batch axis."""
        count = len(next(iter(rows.values())))
        fixed = [port.name for port in self.outputs if tuple(port.type.get_shape())[:1] != (size,)]
        if count != size and fixed:
            raise InputError(
                f"found {count} samples, expected {size}, the batch of the model: its output '{fixed[0]}' has no batch "
                f"axis"
            )
        results = [self._ready()(group) for group in regrouped([rows], size)]
        if count == size:
            return results[0]
        return {port.name: np.concatenate([found[port.name] for found in results])[:count] for port in self.outputs}

    def profile(self, /, *arrays: Any, rounds: int = 20, **inputs: Any) -> Timing:
        """The time of every kernel in native code on one thread, for one sample: the first one of a batch or of data.

        Takes the arguments of a call. Raises CodegenError if an op has no kernel, and InputError or DataError if the
        arguments do not match the inputs.
        """
        check_arguments(rounds=rounds)
        from zeropoint.codegen.runtime.native import NativeProgram
        from zeropoint.codegen.runtime.profiling import profile
        from zeropoint.timing import Timing

        return Timing(profile(NativeProgram(self._for_machines()), self._first(arrays, inputs), plain(rounds)))

    def _first(self, arrays: Sequence[Any], inputs: Mapping[str, Any]) -> Sample:
        """The first sample of a call's arguments."""
        if (data := data_of(arrays, inputs, self.inputs)) is not None:
            return next(iter(samples(data, self.inputs, fill=True)))
        given, size = arrays_of_call(arrays, inputs, self.inputs), batch_of(self.inputs)
        count = batch_size(given, self.inputs)
        rows = rows_of(given, self.inputs) if size > 1 and len(given) == len(self.inputs) else None
        first = next(batched(given, self.inputs, count)) if count else given
        return with_batch_of_one(first, self.inputs) if rows is None else next(regrouped([rows], size))

    def report(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        reference: Any = None,
        data: Any = None,
        mask: str | None = None,
        target: str | Path | None = None,
        stages: str | Path | None = None,
        model_explorer: str | Path | None = None,
        timing: bool = True,
        trials: bool = True,
        progress: Progress | bool = False,
    ) -> Path:
        """Write a page about this integer program, `REPORT.html`, or its data, `REPORT.json`. Returns the path.

        `name` is the title of the page, and defaults to the name of the file. With `data`, outputs and kernels are
        compared with the float model. This is `reference`, a Model or anything that `zp.load` accepts, or else the
        model that this one was quantized from in this process. Positions where the input `mask` is 0 do not count.
        `target` is the file of your own target, which a saved model names but does not load. `stages` is the folder
        that `save_stages` wrote for a saved model. `timing` compiles the program and times its kernels. `trials`
        measures recipe rules for the kernels that add most noise. `model_explorer` is a folder for files of Google's
        Model Explorer. Sections that cannot be made say what they need. `progress=True` shows bars on a terminal.

        Raises ReportError for a float model, ModelError for a reference that is not a model, DataError if the data does
        not match the inputs, and OptionError for another suffix. Passes on OSError.
        """
        check_arguments(path=path, name=name, mask=mask, timing=timing, trials=trials, progress=progress)
        check_arguments(stages=stages, model_explorer=model_explorer)
        check_arguments(**({} if target is None else {"target": target}))
        from zeropoint.frontend.sources import load_alike
        from zeropoint.reporting import ReportArguments, write

        floats = reference.program if isinstance(reference, Model) else None
        if reference is not None and floats is None:
            floats = load_alike(reference, self.inputs)
        given = ReportArguments(name, floats, data, mask, target, stages, model_explorer, timing, trials)
        return write(self.program, self.quantization, Path(path), given, display(progress))

    def __getstate__(self) -> dict[str, Any]:
        """Text and weights, which other versions of Python can also read. Stages and compiled code are left out."""
        held = {name: np.array(array) for name, array in ResourceArrays(self.program).items()}
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
        """The program to compile. For a float network, batch norms and constants are folded first."""
        return lower_float_casts(simplify(self.program)) if self.program.profile is None else self.program

    def interpreted(self) -> Model:
        """The same model, run by the interpreter."""
        return Model(self.program, self.quantization, engine=ReferenceEngine())

    def native(self, *, threads: int = 1, callers: int = 1) -> Model:
        """The same model, run by machine code for this processor: the same results, faster.

        `threads` is the number of threads per call, and `callers` the number of concurrent calls; further calls wait.
        The model is compiled now, not at the first call. In a float network, batch norms, scales and constants are
        folded first, so the last bits may differ from this model's; `native().interpreted()` has exactly its bits.
        Raises CodegenError if an op has no kernel, and OptionError for invalid numbers.
        """
        return Model.natives([self], threads=threads, callers=callers)[0]

    @staticmethod
    def natives(models: Sequence[Model], *, threads: int = 1, callers: int = 1) -> list[Model]:
        """`native` for several models, which share equal weights in memory. Raises the errors of `native`."""
        check_arguments(threads=threads, callers=callers)
        models = models_of(models)
        from zeropoint.codegen.runtime.native import NativeEngine  # imports LLVM, which is needed only here

        engine = NativeEngine(threads=plain(threads), callers=plain(callers))
        made = [Model(model._for_machines(), model.quantization, engine=engine) for model in models]
        if len(made) == 1:
            made[0]._ready()
            return made
        for model, prepared in zip(made, engine.prepare_all([model.program for model in made]), strict=True):
            model._prepared = prepared
        return made

    def compile(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        isa: str | None = None,
        cpu: str | None = None,
        triple: str | None = None,
        progress: Progress | bool = False,
    ) -> list[Path]:
        """Write an object (`NAME.o`) or shared library (`libNAME.so`), and its C header `NAME.h`. Returns the paths.

        `name` is the prefix of its functions, and defaults to the file's name. `isa` names the instruction set to
        compile for, `cpu` the processor (the default "native" is this one), and `triple` another system.
        `progress=True` shows a bar on a terminal. Raises CodegenError for unknown names, for ops without a kernel and
        for a missing linker. Passes on OSError.
        """
        check_arguments(path=path, name=name, isa=isa, cpu=cpu, triple=triple, progress=progress)
        from zeropoint.codegen.aot.ahead_of_time import compile_to

        return compile_to(
            self._for_machines(), Path(path), name=name, isa=isa, cpu=cpu, triple=triple, progress=display(progress)
        )

    def iterate(
        self, samples: Iterable[Mapping[str, Array]], *, progress: Progress | bool = False
    ) -> Iterator[dict[str, Array]]:
        """Yield the outputs of each sample, a dict with an array per input. Also takes a file, a folder or arrays."""
        check_arguments(progress=progress)
        samples = self._sampled(samples)
        engine = self._prepared or for_runs(self.engine, length_hint(samples)).prepare(self.program)
        self._prepared = engine
        for sample in display(progress)(samples, "run"):
            if not isinstance(cast("object", sample), Mapping):
                found = type(sample).__name__
                raise InputError(f"found {found} as a sample, expected a dict with an array for each input")
            yield engine(sample)

    def _sampled(self, source: Any) -> Any:
        """The samples of a file, a folder or arrays. Other iterables already have samples."""
        has_samples = holds_items(source) and hasattr(source, "__iter__") and not isinstance(source, type)
        return source if has_samples else samples(source, self.inputs, fill=True)

    def run_samples(
        self, samples: Iterable[Mapping[str, Array]], *, progress: Progress | bool = False
    ) -> dict[str, Array]:
        """Run all samples. Outputs are stacked along a leading sample axis, which replaces a batch axis of size 1.

        If a sample holds N rows of the data, outputs are concatenated along that axis. Outputs of rows that only fill
        up the last sample are dropped (`zeropoint.calibrate.samples`).

        Raises DataError for data that does not match the inputs or has no samples.
        """
        samples = self._sampled(samples)
        results = list(self.iterate(samples, progress=progress))
        if not results:
            raise DataError(NO_SAMPLES)
        rows, filled = getattr(samples, "rows_a_sample", 1), getattr(samples, "filled", 0)
        by_rows = [port.type.get_shape()[:1] == (rows,) for port in self.outputs]
        if rows > 1 and all(by_rows):
            count = rows * len(results) - filled
            return {port.name: np.concatenate([found[port.name] for found in results])[:count] for port in self.outputs}
        return {port.name: stacked([result[port.name] for result in results]) for port in self.outputs}

    def save(self, path: str | Path, *, emit: str = "integer", inline_weights: bool = False) -> list[Path]:
        """Write `NAME.mlir` and `NAME.safetensors`, or one self-contained file. Returns the paths.

        `emit` selects the stage of a model quantized in this process. `integer` is the model itself, `stablehlo` the
        quantized program before it, and `kernels` the kernels with their types, which `export` takes.

        Raises OptionError for any other suffix or stage, and OSError if the files cannot be written.
        """
        check_arguments(path=path, inline_weights=inline_weights)
        one_of("emit", emit, ("integer", "stablehlo", "kernels"))
        path = Path(path)
        if path.suffix != ".mlir":
            raise OptionError(f"{path}: found suffix '{path.suffix}', expected .mlir; `export` writes other formats")
        made = self.quantization
        if made is None and emit != "integer":
            raise OptionError(
                f"found emit '{emit}' for a model that was not quantized in this process, expected integer"
            )
        chosen = self.program if made is None or emit == "integer" else made.emitted(emit)
        return save_program(chosen, path, inline_weights=inline_weights)

    def export(
        self,
        path: str | Path,
        *,
        io: str = "float",
        layout: str = "channels-last",
        onnx_format: str = "qdq",
        onnx_weights: str = "auto",
        progress: Progress | bool = False,
    ) -> list[Path]:
        """Write a file for another runtime: .tflite, .onnx, .tosa.mlir, .stablehlo.mlir, .mlirbc. Returns the paths.

        The model is the result of `quantize`, or a file written with `--emit kernels`, for a target of that runtime.
        `io` and `layout` (`channels-last`, `model`) select types and dimension order of inputs and outputs.
        `onnx_format` is `qdq` or `qoperator`, and `onnx_weights` is `auto`, `exact`, `i8` or `u8` (`docs/export.md`).
        Raises ExportError if the format cannot represent the model; no file is written then. Raises OptionError for
        unknown options. `progress=True` shows a bar on a terminal.
        """
        for name, found, known in (
            ("io", io, ("float", "integer")),
            ("layout", layout, ("channels-last", "model")),
            ("onnx_format", onnx_format, ("qdq", "qoperator")),
            ("onnx_weights", onnx_weights, ("auto", "exact", "i8", "u8")),
        ):
            one_of(name, found, known)
        check_arguments(path=path, progress=progress)
        decided = self.program if self.quantization is None else self.quantization.propagated
        options = ExportOptions(io == "integer", layout == "channels-last", onnx_format, onnx_weights)
        return export_program(decided, Path(path), options, display(progress))

    def explain(self, value: str | None = None, *, target: str | Path | None = None) -> Explanation:
        """Explain the parameters of values, the rescales, and the ops that stay float; only those of `value`, if given.

        For a float model, explain the kernels that `target` (default: `cpu`) has for it, the ops that would stay float,
        and missing statistics. Raises ExplanationError for a name that is not in the model, and TargetError for an
        unknown target.
        """
        check_arguments(value=value, **({} if target is None else {"target": target}))
        program = self.program
        if program.profile is not None and target is not None:
            raise OptionError(
                f"found target '{target}' for a program that is quantized already, where it changes nothing; leave it "
                f"out"
            )
        if program.profile is None:
            program = with_open_kernels(program, named_target("cpu" if target is None else str(target)))
        return explain(program, value)

    def bounds(self, value: str | None = None) -> IntegerBounds:
        """The proved bounds, bits and headroom of the integers of this integer program; of each channel of `value`,
        if given. Raises ExplanationError for a float model, and for a name that is not in the model.
        """
        check_arguments(value=value)
        return IntegerBounds.of(self.program, value)

    def __str__(self) -> str:
        """Inputs, outputs, ops and float ops, and the findings of the quantization, one per line."""
        return "\n".join([*outline(self.program), *([] if self.quantization is None else self.quantization.findings)])

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __repr__(self) -> str:
        return f"Model({summary_line(self.program)})"


def models_of(models: object) -> list[Model]:
    """The models in a list or another iterable. Raises OptionError for anything else."""
    found = listed(models)
    other = next((type(model).__name__ for model in found or () if not isinstance(model, Model)), None)
    if not found or other is not None:
        what = other or ("no models" if found == [] else type(models).__name__)
        raise OptionError(f"found {what}, expected a list of models, each a zp.Model, one or more")
    return cast("list[Model]", found)


def stacked(results: list[Array]) -> Array:
    """The outputs of samples in one array. They are concatenated if their leading axis is a batch of one, otherwise
    stacked."""
    if results and results[0].ndim and results[0].shape[0] == 1:
        return np.concatenate(results)
    return np.stack(results)
