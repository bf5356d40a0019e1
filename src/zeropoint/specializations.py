"""Models of one network for several shapes of its inputs. A call runs the model whose shapes match its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from zeropoint.calibrate import DataError, samples
from zeropoint.calibrate.batches import batch_of
from zeropoint.calibrate.calls import data_of
from zeropoint.calibrate.columns import as_array
from zeropoint.calibrate.data import NO_SAMPLES, Stream, holds_items
from zeropoint.calibrate.fitting import is_exact, is_one_sample
from zeropoint.calibrate.items import arrays_of, columns_of
from zeropoint.errors import OptionError, check_name
from zeropoint.forms import Data, Recipe
from zeropoint.frontend import ModelError, Shapes, load_model
from zeropoint.frontend.constants import Constant
from zeropoint.ir.arguments import InputError, Sample
from zeropoint.ir.files import save_programs
from zeropoint.ir.outputs import OutputError, made_folder
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array
from zeropoint.model import Model, models_of
from zeropoint.options import Options, check_arguments, check_effort, listed, one_of
from zeropoint.progress import Progress, display, shown
from zeropoint.quantization import Quantization, require_integers
from zeropoint.report.tables import preformatted

FITS: tuple[Callable[[tuple[int, ...], Port], bool], ...] = (
    is_exact,
    is_one_sample,
    lambda shape, port: is_one_sample(shape[1:], port),
    lambda shape, port: is_exact(shape[1:], port),
)
"""How an array may fit an input, best first: its shape, a sample without the leading 1, and batches of either."""


class Specializations:
    """Models of one network that differ only in the shapes of inputs and outputs.

    `specializations(x=array)` runs the model whose inputs have the shapes of the arrays, or of the samples of a batch,
    and returns its outputs. If models differ in the size of the leading axis, arrays of n samples are run in as few
    calls as these sizes allow. `Specializations.quantize` makes models with equal weights, which are stored once.
    Models that were quantized separately have their own ranges and weights.

    Raises OptionError if there are no models, if names or element types differ, or if two models have the same shapes.
    """

    def __init__(self, models: Iterable[Model]):
        self.models = models_of(models)
        first = self.models[0]
        for model in self.models[1:]:
            if _signature(model) != _signature(first):
                raise OptionError(
                    f"found the ports {_signature(first)} and {_signature(model)}, expected models of one network: "
                    f"equal names and element types"
                )
        shapes = [shapes_of(model) for model in self.models]
        twice = next((found for number, found in enumerate(shapes) if found in shapes[:number]), None)
        if twice is not None:
            raise OptionError(f"found two models for {_show(twice)}, expected one for each combination of shapes")

    @property
    def inputs(self) -> list[Port]:
        """Names and types of the inputs of the first model. In other models, the shapes differ."""
        return self.models[0].inputs

    @property
    def outputs(self) -> list[Port]:
        """Names and types of the outputs of the first model. In other models, the shapes differ."""
        return self.models[0].outputs

    def __call__(self, /, *arrays: Any, **inputs: Any) -> dict[str, Array]:
        """The outputs of the model that the arrays fit, like those of a call of that model.

        A single argument may also be data in the forms that `zp.quantize` takes: a dict, a path, `zp.Images`, or an
        iterable of samples or batches, whose shapes may differ. Outputs are stacked.

        Raises InputError if no model has inputs of these shapes, or if outputs cannot be stacked because their shapes
        differ. Raises DataError for data that does not match the inputs.
        """
        if isinstance(named := arrays[0] if len(arrays) == 1 and not inputs else None, Mapping):
            given = cast("Mapping[str, Any]", named)
            if all(port.name in given for port in self.inputs):
                return self(**{port.name: given[port.name] for port in self.inputs})
        if (data := data_of(arrays, inputs, self.inputs)) is not None:
            parts = [model.run_samples(samples(part, model.inputs, fill=True)) for model, part in self.parts_of(data)]
            return {port.name: _joined(port.name, [part[port.name] for part in parts]) for port in self.outputs}
        given = self._given(arrays, inputs)
        batches = self._by_batch(given)
        count = next(iter(given.values())).shape[0] if batches else 0
        if len(batches) > 1 and count and count not in batches:
            return _in_parts(given, count, batches)
        return self.fitting(*arrays, **inputs)(*arrays, **inputs)

    def fitting(self, *arrays: Any, **inputs: Any) -> Model:
        """The model that runs for these arrays. Raises InputError if there is none."""
        shapes = {name: tuple(array.shape) for name, array in self._given(arrays, inputs).items()}
        for fits in FITS:
            for model in self.models:
                if all(port.name in shapes and fits(shapes[port.name], port) for port in model.inputs):
                    return model
        known = "; ".join(_show(shapes_of(model)) for model in self.models)
        raise InputError(f"found arrays of shapes {_show(shapes)}, expected those of a specialization: {known}")

    def parts_of(self, data: Any) -> list[tuple[Model, Any]]:
        """The parts of some data in order, each with the model that runs it. Every item of an iterable is a part.

        Files, folders, images, arrays and dicts of arrays are one part, for the model with the smallest batch that
        accepts it. Raises DataError if no model accepts the data, and InputError for an item of other shapes.
        """
        data = columns_of(data, self.inputs)
        if holds_items(data):
            items = Stream(data, self.inputs).items()
            found = [arrays_of(item, self.inputs, f"data: item {number}") for number, item in enumerate(items)]
            if not found:
                raise DataError(NO_SAMPLES)
            return [(self.fitting(**arrays), [arrays]) for arrays in found]
        refused: DataError | None = None
        for model in sorted(self.models, key=lambda model: batch_of(model.inputs)):
            try:
                samples(data, model.inputs, fill=True)
            except DataError as error:
                refused = refused or error
            else:
                return [(model, data)]
        assert refused is not None
        raise refused

    def _given(self, arrays: tuple[Any, ...], inputs: Mapping[str, Any]) -> dict[str, Array]:
        names = [port.name for port in self.inputs]
        return {name: as_array(value) for name, value in {**dict(zip(names, arrays, strict=False)), **inputs}.items()}

    def _by_batch(self, given: Mapping[str, Array]) -> dict[int, Model]:
        """The models that take rows of the arrays, by batch size. Empty if an output has no batch axis."""
        rows = {len(array) for array in given.values() if array.ndim}
        found: dict[int, Model] = {}
        for model in self.models:
            shapes, outputs = shapes_of(model), [tuple(port.type.get_shape()) for port in model.outputs]
            sizes = {shape[:1] for shape in (*shapes.values(), *outputs)}
            fits = all(name in given and given[name].shape[1:] == shape[1:] for name, shape in shapes.items())
            if len(rows) == len(sizes) == 1 and () not in sizes and fits and len(given) == len(shapes):
                found[sizes.pop()[0]] = model
        return found

    def native(self, *, threads: int = 1, callers: int = 1) -> Specializations:
        """The same models as machine code (`Model.native`). Equal weights are in memory once."""
        return Specializations(Model.natives(self.models, threads=threads, callers=callers))

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
        """Write one object or library with a function for each model, `NAME_1x64_run`, and its C header.

        Returns the paths. Equal weights are stored once. `NAME_find` of the header selects the function by the sizes of
        the inputs. Arguments and errors are those of `Model.compile`.
        """
        check_arguments(path=path, name=name, isa=isa, cpu=cpu, triple=triple, progress=progress)
        from zeropoint.codegen.aot.ahead_of_time import compile_to

        programs = [model.program for model in self.models]
        shown = display(progress)
        return compile_to(programs, Path(path), name=name, isa=isa, cpu=cpu, triple=triple, progress=shown)

    def save(self, folder: str | Path) -> list[Path]:
        """Write each model (`x=1x64.mlir`) and all weights (`weights.safetensors`) into a folder. Returns the paths.

        Raises OutputError if the folder has programs of other shapes, and WeightsError like `Model.save`. Passes on
        OSError.
        """
        check_arguments(path=folder)
        programs = {_file_name(shapes_of(model)): model.program for model in self.models}
        folder = made_folder(Path(folder))
        check_shapes_folder(folder, programs)
        return save_programs(programs, folder)

    @staticmethod
    def quantize(
        model: Any,
        data: Data | None,
        shapes: Iterable[Mapping[str, tuple[int, ...]]],
        *,
        target: str | Path = "cpu",
        profile: str | None = None,
        observer: str = "output",
        io: str = "float",
        ranges: str = "asymmetric",
        recipe: Recipe | None = None,
        effort: str = "balanced",
        corrections: Sequence[str] | None = None,
        validation: Data | None = None,
        mask: str | None = None,
        integer_only: bool = False,
        constants: Mapping[str, Constant] | None = None,
        progress: Progress | bool = False,
    ) -> Specializations:
        """Quantize a network for each of `shapes`, in the form that `zp.load` takes, with one calibration.

        The data is run with the first shapes that it fits. All models get the ranges and corrections found there, and
        so equal weights. The options are those of `zp.quantize`, without `least_sqnr` and `budget`, which judge one
        program. Raises the errors of `zp.quantize`.
        """
        from zeropoint.frontend.sources import load_source
        from zeropoint.numerics.arrays import plain
        from zeropoint.pipeline import quantize
        from zeropoint.recipe import recipe_of
        from zeropoint.specialize import quantize_shapes

        check_arguments(target=target, profile=profile, observer=observer, ranges=ranges, effort=effort, mask=mask)
        check_arguments(corrections=corrections, integer_only=integer_only, progress=progress)
        one_of("io", io, ("float", "integer"))
        check_effort(effort, corrections)
        rules = None if recipe is None else recipe_of(recipe)
        methods = plain(corrections)
        options = Options(
            str(target), profile, observer, io == "integer", rules, ranges, None, effort, methods, mask=mask
        )

        def calibrated(program: Program, given: Iterable[Sample] | None, chosen: Options) -> Quantization:
            held = () if validation is None else samples(validation, program.inputs)
            return quantize(program, given, chosen, validation=held, progress=display(progress))

        if not (each := listed(shapes)):
            raise OptionError(f"found shapes={shapes!r:.200}, expected a list of them: [{{'x': (1, 64)}}, ...]")
        programs = [load_source(model, cast("Shapes", given), constants) for given in each]
        made = quantize_shapes(programs, data, options, calibrated)
        for result in made if integer_only else ():
            require_integers(result)
        return Specializations([Model(each.integer, each) for each in made])

    @staticmethod
    def load(folder: str | Path) -> Specializations:
        """The models that `save` wrote. Raises ModelError for files that are no programs, and for a folder without
        any."""
        check_arguments(path=folder)
        check_name(Path(folder), ModelError)
        if not (paths := sorted(Path(folder).glob("*.mlir"))):
            raise ModelError(f"{folder}: found no .mlir files, expected a folder that Specializations.save wrote")
        return Specializations([Model(load_model(path)) for path in shown(paths, "load")])

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __repr__(self) -> str:
        return f"Specializations({'; '.join(_show(shapes_of(model)) for model in self.models)})"


def _joined(name: str, parts: list[Array]) -> Array:
    """The outputs of parts of the data in one array. Raises InputError if they have different shapes."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        found = " and ".join(_sizes(shape) for shape in sorted(shapes)[:2])
        raise InputError(
            f"found outputs '{name}' of shapes {found}, which cannot be stacked, expected data of one shape; run the "
            f"samples of each shape in a separate call"
        )
    return np.concatenate(parts)


def _in_parts(given: Mapping[str, Array], count: int, batches: Mapping[int, Model]) -> dict[str, Array]:
    """Run `count` rows with models of several batch sizes, the largest first, and concatenate the outputs.

    Rows that are too few for the smallest batch are filled up with copies of the last row, whose outputs are dropped.
    """
    results: list[dict[str, Array]] = []
    start = 0
    while start < count:
        left = count - start
        size = max((size for size in batches if size <= left), default=min(batches))
        part = {name: array[start : start + size] for name, array in given.items()}
        if left < size:
            part = {name: np.concatenate([rows, rows[-1:].repeat(size - left, 0)]) for name, rows in part.items()}
        results.append(batches[size](**part))
        start += size
    return {name: np.concatenate([found[name] for found in results])[:count] for name in results[0]}


def check_shapes_folder(folder: Path, names: Iterable[str]) -> None:
    """Raise OutputError if a folder has programs other than those with these names, because `load` would read them,
    too."""
    others = sorted({path.stem for path in folder.glob("*.mlir")} - set(names))
    if others:
        raise OutputError(
            f"{folder}: found '{others[0]}.mlir', a program for other shapes, expected a new folder; remove the old one"
        )


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's inputs, by name."""
    return {port.name: tuple(port.type.get_shape()) for port in model.inputs}


def _signature(model: Model) -> str:
    return ", ".join(f"{port.name} {port.type.element_type}" for port in (*model.inputs, *model.outputs))


def _show(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {_sizes(shape)}" for name, shape in shapes.items())


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _file_name(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """A file name made of the shapes, with characters that every file system accepts."""
    text = ",".join(f"{name}={_sizes(shape)}" for name, shape in shapes.items())
    return "".join(letter if letter.isalnum() or letter in "=,-_." else "_" for letter in text)
