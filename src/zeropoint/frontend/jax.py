"""Imports JAX functions as float programs: what `jax.jit(f).lower(...)` and `jax.export.export(...)(...)` return.

Both hold StableHLO text. With debug information, arguments have the names of the function's parameters as locations,
and results have their path in the returned structure as `jax.result_info`:

    func.func public @main(%arg0: tensor<2x4xf32> loc("image"), %arg1: tensor<4xf32> loc("params['b']"))
        -> (tensor<2x3xf32> {jax.result_info = "result['scores']"})

Here the inputs are named `image` and `params.b`, the output `scores`. An output without a key is `result`, `result0`
in a tuple, `result1.scores` in a dict in a tuple. An input of text without locations is named as its argument is:
`%image: tensor<2x4xf32>` is `image`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, NameLoc, StringAttr
from xdsl.ir import BlockArgument

from zeropoint.frontend.errors import ModelError
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


def named_as_in_text(program: Program) -> Program:
    """Inputs and outputs without names get those of the text: the locations and result infos of JAX, else the names of
    the arguments. The program is changed in place."""
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
    """The attributes with the names, where they have none and a name is unique; None if the function has no names."""
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
    """The name in the argument's location, else its own, `%image`; None for a numbered one, such as `%arg0`.

    A function that JAX exported with symbolic shapes is wrapped: `@main` checks the shapes and calls the function,
    whose arguments have the names.
    """
    for one in (argument, *_arguments_of_calls(argument)):
        if isinstance(one.location, NameLoc):
            return _dotted(one.location.desc.data)
    name = argument.name_hint
    return None if name is None or _NUMBERED.fullmatch(name) else name


def _arguments_of_calls(argument: BlockArgument) -> Iterator[BlockArgument]:
    """The arguments of functions that an argument is passed to as it is."""
    for use in argument.uses:
        if isinstance(use.operation, CallOp):
            called = referenced_function(use.operation, use.operation.callee.root_reference.data)
            if called is not None and called.body.blocks:
                yield called.body.blocks[0].args[use.index]


def _dotted(path: str) -> str:
    """`params['conv'][0]` as `params.conv.0`."""
    return ".".join(next(part for part in match.groups() if part is not None) for match in _KEY.finditer(path))


def _result_name(info: str) -> str:
    """`result['scores']` as `scores`, `result[0]` as `result0`; `result` for a single array."""
    name = _dotted(info.removeprefix("result"))
    return f"result{name}" if not name or name[0].isdigit() else name
