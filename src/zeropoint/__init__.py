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

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeropoint.errors import Error

if TYPE_CHECKING:
    from zeropoint.model import Model
    from zeropoint.report.agreement import Comparison

__all__ = ["Error", "__version__", "compare", "load", "quantize"]

__version__ = "0.1.0"

Data = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""An .npz file, a folder of .npy files, a dict of arrays with a leading sample axis, or dicts, one a sample."""
Recipe = str | Path | Sequence[Mapping[str, Any]]
"""A YAML file of rules, or the rules as dicts."""


def load(path: str | Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """The model in a file, .onnx or .mlir.

    `shapes` fixes dynamic dimensions of inputs, `{"x": (1, 3, 224, 224)}`. Raises ModelError, one line that says what
    was found and expected.
    """
    from zeropoint.frontend import load_model
    from zeropoint.model import Model

    return Model(load_model(path, shapes))


def quantize(
    model: Model,
    data: Data | None = None,
    *,
    target: str = "cpu",
    profile: str | None = None,
    observer: str = "mse",
    io: str = "float",
    ranges: str = "asymmetric",
    least_sqnr: float | None = None,
    recipe: Recipe | None = None,
    effort: str = "balanced",
    corrections: Sequence[str] | None = None,
    validation: Data | None = None,
) -> Model:
    """The integer program of a float model, calibrated on data.

    A model that says every range or parameter itself (statistics, fake quantization) needs no data.

    `profile` names the rounding (the target's own unless given), `observer` how values become a range (`mse`, `minmax`,
    `percentile:99.99`), `io` whether inputs and outputs stay `float` or are `integer`. `ranges`
    names how a range becomes a scale and a zero point (`asymmetric`, `minmax-nudged`). `least_sqnr` is the minimum SQNR
    of every output in dB, measured on all of `data`: kernels that the target has in two widths become wide where
    needed, and BitWidthError is raised if it is missed. `recipe` is a YAML file of rules
    for parts of the model, or a list of them as dicts. `effort` (`none`, `fast`, `balanced`, `best`) says how much is
    done to bring outputs nearer to float: corrections of weights and biases, which are kept only if they help on
    `validation`, or on a quarter of `data` that is held back; `corrections` lists some by name instead. The stages in
    between, and what the corrections gained, are the result's `quantization`. Raises DataError, CalibrationError,
    RecipeError, LoweringError; ValueError for unknown options.
    """
    from zeropoint.calibrate import samples
    from zeropoint.model import Model
    from zeropoint.pipeline import Options
    from zeropoint.pipeline import quantize as run
    from zeropoint.recipe import load_recipe, recipe_of

    if io not in ("float", "integer"):
        raise ValueError(f"found io '{io}', expected one of: float, integer")
    rules = load_recipe(recipe) if isinstance(recipe, str | Path) else None if recipe is None else recipe_of(recipe)
    options = Options(target, profile, observer, io == "integer", rules, ranges, least_sqnr, effort, corrections)
    held = () if validation is None else samples(validation, model.inputs)
    given = None if data is None else samples(data, model.inputs)
    result = run(model.program, given, options, validation=held)
    return Model(result.integer, result)


def compare(reference: Model, model: Model, data: Data, *, layers: bool = False) -> Comparison:
    """SQNR, cosine and top-1 agreement of a model with its reference on data; with `layers` of inner values as well.

    Raises ComparisonError where inputs or outputs differ in name or type, DataError for data that does not fit.
    """
    from zeropoint.calibrate import samples
    from zeropoint.model import compare as run

    return run(reference, model, samples(data, reference.inputs), layers=layers)
