"""Import JAX functions as float programs: the objects of `jax.jit(f).lower(...)` and `jax.export.export(...)(...)`.

Both contain StableHLO text. With debug information, the locations of arguments are the names of the function's
parameters, and `jax.result_info` is the path of a result in the returned structure:

    func.func public @main(%arg0: tensor<2x4xf32> loc("image"), %arg1: tensor<4xf32> loc("params['b']"))
        -> (tensor<2x3xf32> {jax.result_info = "result['scores']"})

The inputs of this program are named `image` and `params.b`, its output `scores`. A single array is named `result`, an
output in a tuple `result0`, one in a dict in a tuple `result1.scores`. In text without locations, an input has the name
of its argument: `image` for `%image: tensor<2x4xf32>`.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, NameLoc, StringAttr
from xdsl.ir import BlockArgument

from zeropoint.frontend.errors import DynamicShapes, ModelError
from zeropoint.ir.annotations import NAME
from zeropoint.ir.calls import CallOp, referenced_function
from zeropoint.ir.program import Program

_KEY = re.compile(r"\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]|\.?([^.\[\]]+)")
_NUMBERED = re.compile(r"arg\d+")
_RESULT_INFO = "jax.result_info"


def is_jax(model: object) -> bool:
    """Whether a model is a JAX object, by the module of its class. Does not import JAX."""
    return any(base.__module__.partition(".")[0] in ("jax", "jaxlib") for base in type(model).__mro__)


def jax_text(model: Any) -> str:
    """The StableHLO text of a `jax.stages.Lowered` or a `jax.export.Exported`, with the names of parameters.

    Raises ModelError for any other object of JAX.
    """
    if hasattr(model, "mlir_module"):
        return str(model.mlir_module())
    if hasattr(model, "as_text") and hasattr(model, "args_info") and hasattr(model, "compile"):
        return str(model.as_text(dialect="stablehlo", debug_info=True))
    raise ModelError(
        f"found {type(model).__name__} of JAX, expected a function with its arguments' shapes: jax.jit(f).lower(x), or "
        f"jax.export.export(jax.jit(f))(x)"
    )


def has_symbolic_shapes(model: Any) -> bool:
    """Whether a function was exported for shapes with symbols. A lowered one has numbers."""
    kinds = model.in_avals if hasattr(model, "mlir_module") else ()
    return any(not isinstance(size, int) for kind in kinds for size in kind.shape)


def refined_text(model: Any, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The text of an exported function at concrete shapes, which JAX derives from those of its inputs.

    `names` are those of all inputs, in order. A symbol that one input determines is known in all. Raises ModelError for
    an unknown name, another rank, a symbol without a size, and sizes that do not fit.
    """
    for name in shapes:
        if name not in names:
            raise ModelError(f"found a shape for '{name}', expected one of the inputs: {', '.join(names)}")
    kinds = list(model.in_avals)
    known = _symbols(dict(zip(names, kinds, strict=True)), shapes)
    sizes: list[tuple[int, ...]] = []
    missing: dict[str, list[int | None] | None] = {}
    for name, kind in zip(names, kinds, strict=True):
        found = [size if isinstance(size, int) else known.get(str(size)) for size in kind.shape]
        sizes.append(tuple(size for size in found if size is not None))
        if name not in shapes and None in found:
            missing[name] = found
    if missing:
        raise DynamicShapes(f"found symbolic sizes of {', '.join(map(repr, missing))}, expected numbers", missing)
    try:
        return _refined(model, [shapes.get(name, found) for name, found in zip(names, sizes, strict=True)])
    except Exception as error:  # JAX raises several kinds of errors for sizes that do not fit
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"found shapes that the exported function does not take: {reason}") from error


def _symbols(kinds: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The size of each symbol that is the size of a dimension."""
    known: dict[str, int] = {}
    for name, given in shapes.items():
        stated = kinds[name].shape
        if len(given) != len(stated):
            raise ModelError(f"found {len(given)} sizes for '{name}', expected {len(stated)} as in the function")
        known |= {str(size): number for size, number in zip(stated, given, strict=True) if not isinstance(size, int)}
    return known


def _refined(model: Any, sizes: Sequence[tuple[int, ...]]) -> str:
    jax: Any = importlib.import_module("jax")
    lowest: Any = importlib.import_module("jaxlib._jax")
    mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
    kinds = [jax.ShapeDtypeStruct(size, kind.dtype) for size, kind in zip(sizes, model.in_avals, strict=True)]
    arguments, keywords = jax.tree_util.tree_unflatten(model.in_tree, kinds)
    lowered = jax.jit(model.call, keep_unused=True).lower(*arguments, **keywords)
    refined = lowest.mlir.refine_polymorphic_shapes(lowered.as_text(dialect="stablehlo").encode(), True, True)
    parser: Any = importlib.import_module("jaxlib.mlir.ir")
    with mlir.make_ir_context():
        return str(parser.Module.parse(refined))


def named_as_in_text(program: Program) -> Program:
    """The program, changed in place, with names for inputs and outputs that have none.

    The names are JAX's locations and result infos, or else the names of arguments in the text.
    """
    main = program.main
    inputs = [_argument_name(argument) for argument in program.entry.args]
    infos = [] if main.res_attrs is None else [found.data.get(_RESULT_INFO) for found in main.res_attrs.data]
    outputs = [_result_name(info.data) if isinstance(info, StringAttr) else None for info in infos]
    if named := _named(main.arg_attrs, inputs):
        main.arg_attrs = named
    if named := _named(main.res_attrs, outputs):
        main.res_attrs = named
    return program


def _named(attributes: ArrayAttr[DictionaryAttr] | None, names: list[str | None]) -> ArrayAttr[DictionaryAttr] | None:
    """The attributes, with a name for each entry that has none, if the name is unique. None if there are no names."""
    if not any(names):
        return None
    found = [DictionaryAttr({}) for _ in names] if attributes is None else list(attributes.data)
    given = [of_one.data.get(NAME) for of_one in found]
    taken = Counter([*names, *(name.data for name in given if isinstance(name, StringAttr))])
    for index, name in enumerate(names):
        if name and taken[name] == 1 and given[index] is None:
            found[index] = DictionaryAttr({**found[index].data, NAME: StringAttr(name)})
    return ArrayAttr(found)


def _argument_name(argument: BlockArgument) -> str | None:
    """The name in the argument's location, else its own name, `%image`. None for a numbered name, such as `%arg0`.

    If JAX exported a function with symbolic shapes, `@main` only checks the shapes and calls the function, and only the
    arguments of the function have names.
    """
    for one in (argument, *_arguments_of_calls(argument)):
        if isinstance(one.location, NameLoc):
            return _dotted(one.location.desc.data)
    name = argument.name_hint
    return None if name is None or _NUMBERED.fullmatch(name) else name


def _arguments_of_calls(argument: BlockArgument) -> Iterator[BlockArgument]:
    """The arguments of called functions to which an argument is passed unchanged."""
    for use in argument.uses:
        if isinstance(use.operation, CallOp):
            called = referenced_function(use.operation, use.operation.callee.root_reference.data)
            if called is not None and called.body.blocks:
                yield called.body.blocks[0].args[use.index]


def _dotted(path: str) -> str:
    """A path with dots: `params.conv.0` for `params['conv'][0]`."""
    return ".".join(next(part for part in match.groups() if part is not None) for match in _KEY.finditer(path))


def _result_name(info: str) -> str:
    """The name of an output: `scores` for `result['scores']`, `result0` for `result[0]`, `result` for one array."""
    name = _dotted(info.removeprefix("result"))
    return f"result{name}" if not name or name[0].isdigit() else name
