"""zeropoint: an integer-only quantization compiler. A float network in, an exactly specified integer program out.

```python
import zeropoint as zp

network = zp.load("model.onnx")
integers = zp.quantize(network, "calib.npz")
integers(image=array)                       # a dict of outputs
zp.compare(network, integers, "test.npz")   # SQNR, cosine, top-1 agreement
integers.save("model.mlir")
```
"""

from __future__ import annotations

TYPE_CHECKING = False  # like that of `typing`, whose import takes longer than this one
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from zeropoint.bit_widths import BitWidthError
    from zeropoint.budget.budget import BudgetError
    from zeropoint.calibrate import Images, Progress
    from zeropoint.calibrate.collect import CalibrationError
    from zeropoint.calibrate.columns import DataError
    from zeropoint.codegen.llvm.machine import CodegenError
    from zeropoint.errors import Error, OptionError
    from zeropoint.export.errors import ExportError
    from zeropoint.forms import Data, Recipe
    from zeropoint.frontend.constants import Constant
    from zeropoint.frontend.errors import ModelError
    from zeropoint.ir.arguments import InputError
    from zeropoint.measure.report import ReportError
    from zeropoint.model import Model
    from zeropoint.quant_passes.errors import LoweringError
    from zeropoint.quantization import FloatOpsLeft
    from zeropoint.recipe.rules import RecipeError
    from zeropoint.report.agreement import Comparison, ComparisonError
    from zeropoint.sensitivities import Sensitivities
    from zeropoint.solve.errors import MissingStatistics, PropagationError
    from zeropoint.specializations import Specializations
    from zeropoint.targets.checks import TargetError
    from zeropoint.version import __version__

__all__ = [
    "BitWidthError",
    "BudgetError",
    "CalibrationError",
    "CodegenError",
    "Comparison",
    "ComparisonError",
    "Data",
    "DataError",
    "Error",
    "ExportError",
    "FloatOpsLeft",
    "Images",
    "InputError",
    "LoweringError",
    "MissingStatistics",
    "Model",
    "ModelError",
    "OptionError",
    "PropagationError",
    "Recipe",
    "RecipeError",
    "ReportError",
    "Sensitivities",
    "Specializations",
    "TargetError",
    "__version__",
    "compare",
    "load",
    "quantize",
    "sensitivity",
]

_HOMES = {
    "BitWidthError": "bit_widths",
    "BudgetError": "budget.budget",
    "CalibrationError": "calibrate.collect",
    "CodegenError": "codegen.llvm.machine",
    "Comparison": "report.agreement",
    "ComparisonError": "report.agreement",
    "Data": "forms",
    "DataError": "calibrate.columns",
    "Error": "errors",
    "ExportError": "export.errors",
    "FloatOpsLeft": "quantization",
    "Images": "calibrate",
    "InputError": "ir.arguments",
    "LoweringError": "quant_passes.errors",
    "MissingStatistics": "solve.errors",
    "Model": "model",
    "ModelError": "frontend.errors",
    "OptionError": "errors",
    "PropagationError": "solve.errors",
    "Recipe": "forms",
    "RecipeError": "recipe.rules",
    "ReportError": "measure.report",
    "Sensitivities": "sensitivities",
    "Specializations": "specializations",
    "TargetError": "targets.checks",
    "__version__": "version",
}
"""The modules of names that are imported on first use, so that `import zeropoint` alone is fast."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)  # for completion in notebooks: without modules and the names that they import


def load(
    model: Any,
    example: Any = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Constant] | None = None,
    progress: Progress | bool = False,
) -> Model:
    """Load a model as a `Model`.

    `model` is a file (.onnx, .mlir, .tflite), an `onnx.ModelProto`, StableHLO text, a PyTorch module or
    ExportedProgram, or the result of `jax.jit(f).lower(...)`. `example` holds the inputs for tracing a
    `torch.nn.Module`: `zp.load(net, images[:1])`. `shapes` fixes dynamic dimensions of inputs, as in `{"x": (1, 3, 224,
    224)}`, and changes static dimensions of ONNX models. `constants` turns inputs into constants, as in `{"sr":
    16000}`; a constant is a number or an array. `progress=True` shows progress bars on a terminal.
    `Specializations.load` loads a folder of programs for several shapes.

    Raises ModelError with one line that says what was found and what was expected.
    """
    from zeropoint.frontend import ModelError
    from zeropoint.frontend.sources import load_source
    from zeropoint.model import Model
    from zeropoint.options import check_arguments
    from zeropoint.progress import display, showing

    check_arguments(progress=progress)
    if _is_folder(model):
        raise ModelError(f"{model}: found a folder, expected one model; zp.Specializations.load loads a folder of them")
    with showing(display(progress)):
        return Model(load_source(model, shapes, constants, example))


def quantize(
    model: Any,
    data: Data | None = None,
    *,
    target: str | Path = "cpu",
    profile: str | None = None,
    observer: str = "output",
    io: str = "float",
    ranges: str = "asymmetric",
    least_sqnr: float | None = None,
    budget: str | None = None,
    recipe: Recipe | None = None,
    effort: str = "balanced",
    corrections: Sequence[str] | None = None,
    validation: Data | None = None,
    mask: str | None = None,
    integer_only: bool = False,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Constant] | None = None,
    example: Any = None,
    workers: int = 1,
    journal: str | Path | None = None,
    resume: bool = False,
    save_stages: str | Path | None = None,
    max_memory: int | str | None = None,
    max_trips: int | None = None,
    progress: Progress | bool = False,
) -> Model:
    """Quantize a float model to an integer program, calibrated on data.

    `model` is a Model or anything that `load` accepts, with its `shapes`, `constants` and `example`. A model that
    specifies every range or parameter (statistics, fake quantization) needs no data.

    `profile` names the rounding behaviour, by default the target's. `observer` turns observed values into a range
    (`output`, `mse`, `minmax`, `percentile:99.99`, `entropy`, `moving_average`). `io` selects `float` or `integer`
    inputs and outputs. `ranges` turns a range into a scale and a zero point (`asymmetric`, `minmax-nudged`).

    `least_sqnr` is the minimum SQNR of every output in dB, measured on `validation`, or on all of `data` without it;
    wider kernels are used where needed. If the target has enough of them, the SQNR exceeds the minimum by two standard
    errors over the samples. BitWidthError is raised if the minimum cannot be reached. `budget` limits quality, size and
    latency, as in `quality=20,size=4MB,latency=5ms`. A search widens kernels or keeps them in float until the budget is
    met, and BudgetError is raised if it cannot be met. `recipe` is a YAML file of rules for parts of the model, or a
    list of rules as dicts. `effort` (`none`, `fast`, `balanced`, `best`) selects corrections of weights and biases that
    bring outputs closer to float. A correction is kept only if it helps on `validation`, or on a held-back quarter of
    `data`. `corrections` selects them by name instead. `mask` names an input that is 0 at padding, such as
    `attention_mask`. Padded positions do not widen ranges, and do not count when programs are judged. With
    `integer_only`, any remaining float op is an error.

    `workers` is the number of calibration processes. -1 means all processors, or the workers of the backend that
    `joblib.parallel_config` selects (Dask, Ray). The number does not change the result. Calibration saves its progress
    in the file `journal`. After a crash, the same call with `resume=True` continues from there. `save_stages` is a
    folder for the program after every stage. `max_memory` (bytes, or `8G`) limits the size of a tensor, and `max_trips`
    the iterations of all loops in a run. `progress=True` shows progress bars on a terminal.

    The result's `quantization` holds the intermediate stages and the gains of corrections. `Model.report` writes a page
    about it, and `Model.save` and `Model.export` write files. Warnings about calibration and data are logged under the
    name `zeropoint`. Python prints them to standard error unless logging is configured.

    Raises ModelError, DataError, CalibrationError, RecipeError, LoweringError, OptionError for an option that is
    unknown or has no effect, and other kinds of `zp.Error`.
    """
    import logging
    from pathlib import Path

    from zeropoint.budget import Budget
    from zeropoint.calibrate import Work, display, samples
    from zeropoint.limits import bytes_of, limited
    from zeropoint.model import Model
    from zeropoint.numerics.arrays import plain
    from zeropoint.options import Options, check_arguments, check_effort, check_journal, check_trips, one_of
    from zeropoint.pipeline import quantize as run
    from zeropoint.quantization import check_used, require_integers
    from zeropoint.recipe import recipe_of

    check_arguments(target=target, profile=profile, observer=observer, ranges=ranges, least_sqnr=least_sqnr)
    check_arguments(budget=budget, effort=effort, corrections=corrections, integer_only=integer_only, workers=workers)
    check_arguments(mask=mask)
    check_arguments(journal=journal, resume=resume, save_stages=save_stages, max_trips=max_trips, progress=progress)
    one_of("io", io, ("float", "integer"))
    check_effort(effort, corrections)
    check_journal(journal, resume=resume)
    with limited(memory=None if max_memory is None else bytes_of(max_memory), trips=plain(max_trips)):
        network = _loaded(model, data, shapes, constants, example, progress)
        check_trips(max_trips, network.program)
        rules = None if recipe is None else recipe_of(recipe)
        limits = None if budget is None else Budget.parse(budget)
        options = Options(
            str(target),
            profile,
            observer,
            io == "integer",
            rules,
            ranges,
            plain(least_sqnr),
            effort,
            plain(corrections),
            limits,
            mask,
        )
        held = () if validation is None else samples(validation, network.inputs)
        given = None if data is None else samples(data, network.inputs)
        work = Work(plain(workers), None if journal is None else Path(journal), resume)
        spread = None if work == Work() else work
        result = run(network.program, given, options, validation=held, progress=display(progress), work=spread)
    check_used(result, options, spread)
    for warning in result.warnings:
        logging.getLogger(__name__).warning("%s", warning)
    if save_stages is not None:
        result.save_stages(save_stages)
    if integer_only:
        require_integers(result)
    return Model(result.integer, result)


def _is_folder(model: Any) -> bool:
    """Whether a model is given as the path of a folder, which holds programs of one network for several shapes."""
    from pathlib import Path

    if not isinstance(model, str | Path):
        return False
    try:
        return Path(model).is_dir()
    except (OSError, ValueError):  # no path, for example a long text: the code that loads the model raises an error
        return False


def _loaded(
    model: Any,
    data: Any,
    shapes: Mapping[str, tuple[int, ...]] | None,
    constants: Mapping[str, Constant] | None,
    example: Any,
    progress: Progress | bool = False,
) -> Model:
    """A Model unchanged, or one loaded by `load`. The error about dynamic shapes suggests the shapes of the data."""
    from zeropoint.calibrate import shapes_in
    from zeropoint.errors import OptionError
    from zeropoint.frontend import DynamicShapes
    from zeropoint.frontend.sources import checked_constants, checked_shapes
    from zeropoint.model import Model

    if isinstance(model, Model):
        if checked_shapes(shapes) or checked_constants(constants) or example is not None:
            raise OptionError("found shapes, constants or an example for a Model, expected them in the call to zp.load")
        return model
    try:
        return load(model, example, shapes=shapes, constants=constants, progress=progress)
    except DynamicShapes as error:
        raise DynamicShapes(error.found, error.inputs, shapes_in(data, list(error.inputs))) from None


def compare(
    reference: Any,
    model: Any,
    data: Data,
    *,
    layers: bool = False,
    mask: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Constant] | None = None,
    example: Any = None,
    progress: Progress | bool = False,
) -> Comparison:
    """SQNR, cosine and top-1 agreement of a model with a reference on data. With `layers`, also those of inner values.

    `reference` and `model` are a Model or anything that `load` accepts. `mask` names an input that is 0 at padding,
    which is left out. `shapes`, `constants` and `example` are those of the reference. Without them, its dynamic
    dimensions are those of the model, and a PyTorch module is traced with zeros in the shapes of the model's inputs.

    `model` may also be `Specializations`, or a folder of them. Each sample is then run by the model whose shapes it
    fits, the reference is loaded for these shapes, and the figures are over all samples.

    Raises ComparisonError if inputs or outputs differ in name or type, DataError if the data does not match the inputs.
    """
    from zeropoint.calibrate import display, samples
    from zeropoint.comparison import compare as run
    from zeropoint.comparison import compare_all, paired
    from zeropoint.errors import OptionError
    from zeropoint.frontend.sources import checked_shapes, load_alike
    from zeropoint.model import Model
    from zeropoint.options import check_arguments
    from zeropoint.progress import showing
    from zeropoint.specializations import Specializations

    check_arguments(layers=layers, mask=mask, progress=progress)
    with showing(display(progress)):
        if not isinstance(model, Model | Specializations):
            model = Specializations.load(model) if _is_folder(model) else load(model, progress=progress)
        if isinstance(model, Model):
            if isinstance(reference, Model):
                reference = _loaded(reference, data, shapes, constants, example)
            else:
                reference = Model(load_alike(reference, model.inputs, shapes, constants, example))
            given = samples(data, reference.inputs)
            return run(reference, model, given, layers=layers, mask=mask, progress=display(progress))
        if checked_shapes(shapes):
            raise OptionError("found shapes for a comparison of specializations, expected none: their shapes are used")
        if _is_folder(reference):
            reference = Specializations.load(reference)
        pairs = paired(reference, model, data, constants, example)
        return compare_all(pairs, layers=layers, mask=mask, progress=display(progress))


def sensitivity(
    model: Any,
    data: Data,
    *,
    target: str | Path = "cpu",
    profile: str | None = None,
    observer: str = "output",
    recipe: Recipe | None = None,
    effort: str = "balanced",
    mask: str | None = None,
    exact: bool = False,
    workers: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Constant] | None = None,
    example: Any = None,
    progress: Progress | bool = False,
) -> Sensitivities:
    """For each kernel of the quantized model, the noise that it adds and inherits, and the gain from 16 bits, in dB.

    The arguments are those of `quantize`. With `exact`, the result also has the gain at the outputs if only that kernel
    has 16 bits, or is float where the target has the kernel in one width, and the loss if only that kernel has 8 bits.
    `workers` processes share these measurements. The result is a list whose text is a table. Raises the errors of
    `quantize`.
    """
    from zeropoint.calibrate import Work, display, samples
    from zeropoint.numerics.arrays import plain
    from zeropoint.options import Options, check_arguments
    from zeropoint.pipeline import sensitivity as run
    from zeropoint.recipe import recipe_of

    check_arguments(target=target, profile=profile, observer=observer, effort=effort, exact=exact, progress=progress)
    check_arguments(workers=workers, mask=mask)
    network = _loaded(model, data, shapes, constants, example, progress)
    rules = None if recipe is None else recipe_of(recipe)
    options = Options(str(target), profile, observer, recipe=rules, effort=effort, mask=mask)
    work = Work(plain(workers)) if workers != 1 else None
    given = samples(data, network.inputs)
    return run(network.program, given, options, exact=exact, progress=display(progress), work=work)
