"""Models of one network for several shapes of its inputs: a call runs the one that its arrays fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from zeropoint.calibrate.fitting import is_exact, is_one_sample
from zeropoint.calibrate.items import as_array
from zeropoint.errors import OptionError
from zeropoint.frontend import load_model
from zeropoint.ir.arguments import InputError
from zeropoint.ir.outputs import made_folder
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array
from zeropoint.model import Model

FITS: tuple[Callable[[tuple[int, ...], Port], bool], ...] = (
    is_exact,
    is_one_sample,
    lambda shape, port: is_one_sample(shape[1:], port),
    lambda shape, port: is_exact(shape[1:], port),
)
"""How an array fits an input, best first: its shape, a sample without the leading 1, and batches of either."""


class Specializations:
    """Models of one network that differ in the shapes of inputs and outputs only.

    `specializations(x=array)` runs the model whose inputs have the shapes of the arrays, or of the samples of a batch,
    and returns its outputs. Each model is a program of its own, with its own ranges and weights.

    Raises OptionError if there are no models, if names or element types differ, and if two have the same shapes.
    """

    def __init__(self, models: Iterable[Model]):
        self.models = list(models)
        if not self.models:
            raise OptionError("found no models, expected one or more, of one network for different shapes")
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

    def __call__(self, *arrays: Any, **inputs: Any) -> dict[str, Array]:
        """The outputs of the model that the arrays fit, as a call of that model returns them.

        Raises InputError if no model has inputs of these shapes.
        """
        return self.fitting(*arrays, **inputs)(*arrays, **inputs)

    def fitting(self, *arrays: Any, **inputs: Any) -> Model:
        """The model that runs for these arrays. Raises InputError if there is none."""
        names = [port.name for port in self.models[0].inputs]
        given = {**dict(zip(names, arrays, strict=False)), **inputs}
        shapes = {name: tuple(as_array(value).shape) for name, value in given.items()}
        for fits in FITS:
            for model in self.models:
                if all(port.name in shapes and fits(shapes[port.name], port) for port in model.inputs):
                    return model
        known = "; ".join(_show(shapes_of(model)) for model in self.models)
        raise InputError(f"found arrays of shapes {_show(shapes)}, expected those of a specialization: {known}")

    def native(self, *, threads: int = 1, callers: int = 1) -> Specializations:
        """The same models as machine code (`Model.native`)."""
        return Specializations([model.native(threads=threads, callers=callers) for model in self.models])

    def save(self, folder: str | Path) -> list[Path]:
        """Write each model into a folder, `x=1x64.mlir` with its weights; return the paths. Raises OSError."""
        folder = made_folder(Path(folder))
        return [path for model in self.models for path in model.save(folder / f"{_file_name(shapes_of(model))}.mlir")]

    @staticmethod
    def load(folder: str | Path) -> Specializations:
        """The models that `save` wrote. Raises ModelError for files that are no programs, OptionError for none."""
        return Specializations([Model(load_model(path)) for path in sorted(Path(folder).glob("*.mlir"))])

    def __repr__(self) -> str:
        return f"Specializations({'; '.join(_show(shapes_of(model)) for model in self.models)})"


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
    """A name made of the shapes, with letters that every file system takes."""
    text = ",".join(f"{name}={_sizes(shape)}" for name, shape in shapes.items())
    return "".join(letter if letter.isalnum() or letter in "=,-_." else "_" for letter in text)
