"""Import PyTorch models as float programs, through PyTorch's export to ONNX.

`torch.onnx.export(dynamo=True)` traces the model with `torch.export`, decomposes its ops, and keeps the names of inputs
and parameters. torch-mlir's FX importer would convert ATen ops to StableHLO directly, but it supports no
quantized_decomposed ops and loses names.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from zeropoint.frontend.constants import Constant
from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.torch_decompositions import decomposed, exported_wrongly
from zeropoint.frontend.torch_eager import fixed_fake_quantization
from zeropoint.frontend.torch_quantized import has_torchao_weights
from zeropoint.frontend.torch_state import assigned_tensors, check_stateless
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.tensors import Array
from zeropoint.progress import phase


def is_torch(model: object) -> bool:
    """Whether a model is a PyTorch object, by the module of its class. Does not import PyTorch."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(model).__mro__)


def is_module(model: object) -> bool:
    """Whether a model is a `torch.nn.Module`, which needs an example to be traced with."""
    return is_torch(model) and any(base.__name__ == "Module" for base in type(model).__mro__)


def load_torch(
    model: Any, example: Any, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant]
) -> Program:
    """Load the float program of an `nn.Module` with example inputs, or of an `ExportedProgram`, which needs no example.

    `example` is a tensor or array, a tuple of them, or a dict of keyword arguments. The module is exported in eval
    mode, with the shapes of the example. Outputs in a dict are named by its keys. Raises ModelError if the model cannot
    be exported or contains something unsupported.
    """
    torch: Any = importlib.import_module("torch")  # not a dependency: it is installed if the user has a module
    from zeropoint.frontend.onnx import load_onnx_model

    exported = isinstance(model, torch.export.ExportedProgram)
    if not exported and not isinstance(model, torch.nn.Module):
        raise ModelError(f"found {type(model).__name__}, expected a torch.nn.Module or an ExportedProgram")
    if not exported and example is None:
        raise ModelError(
            f"found {type(model).__name__} without inputs, expected example=(tensor, ...) to trace it with"
        )
    arguments, keywords = _arguments(example, torch.as_tensor)
    with contextlib.nullcontext() if exported else _as_function(model):
        call = _Call(type(model).__name__, model, arguments, keywords)
        made, program = _imported(call, lambda proto: load_onnx_model(proto, shapes, constants))
    check_stateless(call.name, made.exported_program, call.assigned)
    return _with_output_names(program, _keys(made.exported_program))


@contextlib.contextmanager
def _as_function(module: Any) -> Generator[None]:
    """The module in eval mode, with fake quantization that observes nothing."""
    training = module.training
    try:
        module.eval()
        with fixed_fake_quantization(module):
            yield
    finally:
        if training:
            module.train()


@dataclass(frozen=True)
class _Call:
    """A module with its arguments, or an `ExportedProgram`. `name` is that of the class which the user gave.

    `assigned` gets the tensors that forward assigns and that are no buffers.
    """

    name: str
    model: Any
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] | None = None
    assigned: set[str] = field(default_factory=set[str])

    def to_onnx(self) -> Any:
        """The `ONNXProgram`. Raises ModelError if PyTorch cannot export it.

        With gradients, `scaled_dot_product_attention` of a trained bias has other strides when it is traced than when
        it is decomposed, and a view of it fails. So a module that cannot be exported is traced without gradients.
        """
        torch: Any = importlib.import_module("torch")
        with phase("export from PyTorch"), _quiet(self.assigned):
            try:
                return self._exported()
            except Exception as error:
                failed = error
            with contextlib.suppress(Exception), torch.no_grad():
                return self._exported()
        raise ModelError(f"{self.name}: torch.onnx.export cannot export it: {_reason(failed)}") from failed

    def _exported(self) -> Any:
        torch: Any = importlib.import_module("torch")
        made = torch.onnx.export(
            self.model, self.arguments, kwargs=self.keywords, dynamo=True, verbose=False, optimize=True
        )
        assert made is not None
        return made

    def decomposed(self) -> _Call | None:
        """The same without ops that PyTorch cannot export, or exports wrongly; None if it has none of them."""
        torch: Any = importlib.import_module("torch")
        program = self.model
        try:
            with _quiet(self.assigned):
                if not isinstance(program, torch.export.ExportedProgram):
                    program = torch.export.export(program, self.arguments, self.keywords)
                found = decomposed(program)
        except Exception:  # the exporter's own error is raised instead
            return None
        return None if found is None else _Call(self.name, found, assigned=self.assigned)


_Load = Callable[[Any], Program]
"""Loads an `onnx.ModelProto`."""


def _imported(call: _Call, load: _Load) -> tuple[Any, Program]:
    """The `ONNXProgram` of a call, and the program. What PyTorch cannot export is decomposed, if it can be."""
    if has_torchao_weights(call.model) and (again := call.decomposed()) is not None:
        call = again
    try:
        made, program = _converted(call, load)
    except ModelError:
        if (again := call.decomposed()) is None:
            raise
        return _converted(again, load)
    if not (wrong := exported_wrongly(made.exported_program)):
        return made, program
    if (again := call.decomposed()) is not None:
        made, program = _converted(again, load)
        if not (wrong := exported_wrongly(made.exported_program)):
            return made, program
    raise ModelError(
        f"{call.name}: found {', '.join(wrong)} in a form that torch.onnx.export exports wrongly, and that cannot be "
        f"written in another one; write that part of the module with other operations"
    )


def _converted(call: _Call, load: _Load) -> tuple[Any, Program]:
    made = call.to_onnx()
    return made, load(made.model_proto)


def _keys(exported: Any) -> list[str]:
    """The names of outputs by their path in a returned dict or dataclass, `scores` or `scores.0`; empty for others."""
    if exported is None or exported.call_spec.out_spec is None:
        return []
    trees: Any = importlib.import_module("torch.utils._pytree")
    specs = [spec for spec in exported.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    tree = trees.tree_unflatten(list(range(len(specs))), exported.call_spec.out_spec)
    found: list[str] = []
    for path, number in trees.tree_flatten_with_path(tree)[0]:
        parts = [next(getattr(key, name) for name in _KEYS if hasattr(key, name)) for key in path]
        if not parts or isinstance(parts[0], int):
            return []
        # The exporter leaves out a None.
        if getattr(specs[number].arg, "value", "") is not None:
            found.append(".".join(map(str, parts)))
    return found


_KEYS = ("key", "name", "idx")
"""The attributes of path entries: the key of a dict, the name of a field, the position in a tuple."""


def _with_output_names(program: Program, names: list[str]) -> Program:
    """The program, changed in place, with `names` for its outputs, if the numbers are equal.

    An output does not get the name of an input, because ONNX does not allow this. It keeps the name of its op.
    """
    if len(names) == len(program.outputs):
        taken = {port.name for port in program.inputs}
        found = [port.name if name in taken else name for name, port in zip(names, program.outputs, strict=True)]
        program.main.res_attrs = name_attributes(found)
    return program


def _arguments(example: Any, tensor: Callable[[Array], Any]) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """The example as positional and keyword arguments; NumPy arrays become tensors."""

    def taken(value: Any) -> Any:
        return tensor(cast("Array", value)) if isinstance(value, np.ndarray) else value

    if example is None:
        return (), None
    if isinstance(example, Mapping):
        return (), {name: taken(value) for name, value in cast("Mapping[str, Any]", example).items()}
    given = cast("Sequence[Any]", example) if isinstance(example, tuple | list) else (example,)
    return tuple(taken(value) for value in given), None


def _reason(error: BaseException) -> str:
    """The first line of the original error. The exporter's own message only says which step failed."""
    unconverted = type(error).__name__ == "ConversionError"
    while error.__cause__ is not None:
        error = error.__cause__
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    # A line may end in the title of a list, such as "... arguments. Tried overloads:".
    line = line.rpartition(".")[0] or line if line.endswith(":") else line
    other = "write that part of the module with other operations" if unconverted else ""
    fix = next((fix for name, fix in _FIXES.items() if name in line), other)
    return f"{line.rstrip('.')}; {fix}" if fix else line


_SMALL = "inverses and determinants of up to 4 rows are loaded; compute larger ones outside of the module"
_FIXES: Mapping[str, str] = {
    "aten.linalg_inv": _SMALL,
    "aten._linalg_": _SMALL,
    "choose_qparams": "quantize the module statically (is_dynamic=False)",
    "data-dependent": "write branches on values with torch.where or torch.cond",
    "fused_moving_avg_obs": "convert the prepared module with convert_pt2e",
}
"""What to do about what PyTorch does not export, by a part of the op's name or of the message."""


@contextlib.contextmanager
def _quiet(assigned: set[str]) -> Any:
    """Suppress the exporter's output and logging. Before a failure is raised, tracebacks and graphs are printed.

    What it warns about tensors that forward assigns is added to `assigned`.
    """
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        hidden = io.StringIO()
        recording = warnings.catch_warnings(record=True)
        with recording as found, contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
            warnings.simplefilter("always")
            yield
            assigned |= assigned_tensors(str(each.message) for each in found)
    finally:
        logging.disable(level)
