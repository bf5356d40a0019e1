"""Import StableHLO text as a float program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.errors import UnreadableFile
from zeropoint.frontend.constants import Constant, with_constants
from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.foreign_calls import refuse_calls, unread_text
from zeropoint.frontend.jax import named_as_in_text
from zeropoint.frontend.ranks import UnrankedInputs, with_ranks
from zeropoint.ir.files import load_program
from zeropoint.ir.locations import text_position
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import UnheldType
from zeropoint.ir.text import parse_program
from zeropoint.progress import phase
from zeropoint.quant_passes import from_reference_forms, legalize_chlo, legalize_real_math


def load_stablehlo(
    path: Path, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant] | None = None
) -> Program:
    """Load the program in a `.mlir` file, with the weights in the `.safetensors` file beside it if there is one.

    `shapes` gives unranked inputs a shape. It may repeat the shapes of other inputs, but cannot change them.
    `constants` turns inputs into constants.

    Raises ModelError for text that does not parse or verify; OSError if the file cannot be read.
    """
    return _imported(lambda: load_program(path), str(path), shapes, constants or {})


def stablehlo_of_text(
    text: str,
    shapes: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Constant] | None = None,
    source: str = "text",
) -> Program:
    """Load the program in a text, as `load_stablehlo` does from a file. Positions in messages begin with `source`."""
    return _imported(lambda: parse_program(text, source, annotated=True), source, shapes, constants or {})


def _imported(
    read: Callable[[], Program],
    source: str,
    shapes: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Constant],
) -> Program:
    try:
        with phase(f"read {Path(source).name}"):
            given = read()
            refuse_calls(given)
            expanded = from_reference_forms(legalize_real_math(legalize_chlo(given)))
        program = with_constants(with_ranks(named_as_in_text(expanded), shapes), constants)
        inputs = _inputs(program)
    except UnreadableFile as error:
        raise ModelError(str(error)) from error
    except UnrankedInputs as error:
        raise UnrankedInputs(error.names, error.types, str(error.position or source)) from error
    except ParseError as error:
        line, column = _line_and_column(error)
        raise ModelError(f"{source}:{line}:{column}: {unread_text(error)}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{source}: found bytes that are not text, expected MLIR") from error
    except (VerifyException, TypeError, ValueError, KeyError) as error:
        op = getattr(error, "op", None)
        position = text_position(op) if isinstance(op, Operation) else getattr(error, "position", None)
        raise ModelError(f"{position or source}: {_reason(error)}") from error
    check_shapes(shapes, inputs, source)
    return program


def check_shapes(shapes: Mapping[str, tuple[int, ...]], inputs: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Raise ModelError for a shape that differs from that of the input."""
    for name, shape in shapes.items():
        if inputs.get(name) != shape:
            expected = ", ".join(f"{known}={_shape_text(size)}" for known, size in inputs.items())
            fix = "; export the model with this shape" if DYNAMIC_INDEX in inputs.get(name, ()) else ""
            raise ModelError(f"{source}: found shape {_shape_text(shape)} for '{name}', expected {expected}{fix}")


def _inputs(program: Program) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs. Raises ModelError if an input or output is not a ranked tensor."""
    try:
        _ = program.outputs
        return {port.name: port.type.get_shape() for port in program.inputs}
    except UnheldType as error:
        reason = f"{error} as input and output of a network; 'zeropoint run' without --input takes other types"
        named = ModelError(reason)
        named.position = error.position
        raise named from error


def _shape_text(shape: Sequence[int]) -> str:
    return "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)


def _line_and_column(error: ParseError) -> tuple[int, int]:
    before = str(error.span.input.content)[: error.span.start].split("\n")
    return len(before), len(before[-1]) + 1


def _reason(error: Exception) -> str:
    return str(error.args[0] if error.args else error) or type(error).__name__
