"""The command line.

Exit status: 0 done; 2 the input is at fault (one line that says found, expected, and the fix); 1 a fault of ours, or a
check that failed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _fail(message: str) -> NoReturn:
    """Say what is wrong with the input in one line, and leave with status 2."""
    click.echo(f"zeropoint: {' '.join(message.split())}", err=True)
    raise SystemExit(2)


def _input_errors() -> tuple[type[BaseException], ...]:
    """The errors that mean that the input is at fault."""
    from xdsl.utils.exceptions import VerifyException

    from zeropoint.calibrate import CalibrationError, DataError
    from zeropoint.codegen.llvm.machine import CodegenError
    from zeropoint.frontend import ModelError
    from zeropoint.interp import InputError, UnsupportedError
    from zeropoint.lower import LoweringError
    from zeropoint.opt import PipelineError
    from zeropoint.report.agreement import ComparisonError
    from zeropoint.report.explain import ExplanationError
    from zeropoint.solve.propagate import PropagationError
    from zeropoint.solve.recipe import RecipeError

    return (
        CalibrationError,
        CodegenError,
        ComparisonError,
        DataError,
        ExplanationError,
        InputError,
        LoweringError,
        ModelError,
        OSError,
        PipelineError,
        PropagationError,
        RecipeError,
        UnsupportedError,
        VerifyException,
    )


def reports_input_errors(command: CommandT) -> CommandT:
    """Turn errors of the input into one line and status 2; anything else is ours, and keeps its traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        from xdsl.utils.exceptions import ParseError

        try:
            return command(*arguments, **options)
        except ParseError as error:
            span = error.span
            line = span.input.content.count("\n" if isinstance(span.input.content, str) else b"\n", 0, span.start) + 1  # pyright: ignore
            _fail(f"{span.input.name}:{line}: {error.msg}")
        except _input_errors() as error:
            _fail(_message(error))

    return wrapped  # pyright: ignore[reportReturnType]


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    from zeropoint.diagnostics import place_of

    place = place_of(error)
    return str(error) if place is None else f"{place.file}:{place.line}: {error}"


class ShapeParameter(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """`NAME=1x3x224x224`."""

    name = "NAME=1x3x224x224"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name and the sizes."""
        name, equals, sizes = str(value).rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split("x"))
        except ValueError:
            shape = ()
        if not equals or not name or not shape or min(shape) < 1:
            self.fail(f"found '{value}', expected NAME=1x3x224x224 with positive sizes", param, ctx)
        return name, shape


SHAPE = click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=ShapeParameter(),
    metavar="NAME=1x3x224x224",
    help="Fix the shape of an input; once for each input.",
)
ENGINE = click.option(
    "--engine",
    type=click.Choice(["interp", "native"]),
    default="interp",
    show_default=True,
    help="What runs MODEL: the interpreter, or machine code, which gives the same integers.",
)
THREADS = click.option(
    "--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="That share the work, with native."
)
INPUT_FILE = click.Path(path_type=Path)
OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="zeropoint")
def main() -> None:
    """Turn a float network into an exactly specified integer program."""


def _check_output(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse an output that could not be written, before any work is done; no suffixes means any."""
    if suffixes and path.suffix not in suffixes:
        _fail(f"{path}: found suffix '{path.suffix}', expected {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        _fail(f"{path}: found no folder '{path.parent}', expected one to write into; make it first")


@main.command()
@click.argument("model", type=INPUT_FILE)
@click.option("--data", required=True, type=INPUT_FILE, help="Calibration data: .npz, or a folder of .npy files.")
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="Where to write the program: NAME.mlir.")
@click.option(
    "--target",
    default="cpu",
    show_default=True,
    help="Whose kernels decide: see `zeropoint targets`; or a .toml or .py.",
)
@click.option("--profile", default=None, help="Rounding of every step; default: the target's.")
@click.option("--observer", default="mse", show_default=True, help="mse, minmax, or percentile:99.99.")
@click.option("--recipe", "recipe_file", type=INPUT_FILE, default=None, help="Rules for parts of the model: .yaml.")
@click.option("--io", type=click.Choice(["float", "integer"]), default="float", show_default=True)
@click.option(
    "--emit",
    type=click.Choice(["integer", "stablehlo"]),
    default="integer",
    show_default=True,
    help="The integer program, or the quantized StableHLO it comes from.",
)
@click.option("--integer-only", is_flag=True, help="Fail, with the list of them, if any float op is left inside.")
@click.option("--inline-weights", is_flag=True, help="One self-contained .mlir file instead of .mlir + .safetensors.")
@SHAPE
@reports_input_errors
def quantize(
    model: Path,
    data: Path,
    output: Path,
    target: str,
    profile: str | None,
    observer: str,
    recipe_file: Path | None,
    io: str,
    emit: str,
    integer_only: bool,
    inline_weights: bool,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
) -> None:
    """Calibrate MODEL on data and write it as an integer program."""
    from zeropoint.ir.files import save_program
    from zeropoint.pipeline import Options
    from zeropoint.solve.recipe import load_recipe

    _check_output(output, (".mlir",))
    recipe = None if recipe_file is None else load_recipe(recipe_file)
    options = Options(target, profile, observer, io == "integer", recipe)
    result = _quantized(model, data, options, dict(shapes))
    # Where the target leaves nothing open, nothing is asked, which deserves no warning.
    for warning in result.calibration.warnings if result.calibration.observations else ():
        click.echo(f"zeropoint: warning: {warning}", err=True)
    if integer_only:
        _require_integers(result)
    program = result.integer if emit == "integer" else result.quantized
    for path in save_program(program, output, inline_weights=inline_weights):
        click.echo(f"wrote {path}")
    click.echo(_summary(result))


def _quantized(model: Path, data: Path, options: Any, shapes: dict[str, tuple[int, ...]]) -> Any:
    from zeropoint.calibrate import bar, samples
    from zeropoint.frontend import load_model
    from zeropoint.pipeline import check_options, quantize

    try:
        check_options(options)
    except ValueError as error:
        _fail(str(error))
    program = load_model(model, shapes)
    return quantize(program, samples(data, program.inputs), options, progress=bar)


def _require_integers(result: Any) -> None:
    from zeropoint.report.counts import float_ops

    left = float_ops(result.integer)
    if left:
        listed = "; ".join(f"{op} ({reason})" for op, reason in left)
        _fail(f"found {len(left)} float ops, expected none with --integer-only: {listed}")


def _summary(result: Any) -> str:
    from zeropoint.ir.annotations import RESCALE_COUNTS
    from zeropoint.report.counts import count_ops

    counts = count_ops(result.integer)
    moved = result.propagated.module.attributes.get(RESCALE_COUNTS)
    before = counts.rescales if moved is None else moved.data["before"].value.data
    motion = f" ({before} before motion)" if before != counts.rescales else ""
    return (
        f"{counts.integer} integer ops, {counts.float_inside} float ops left, {counts.rescales} rescales{motion}, "
        f"{counts.edges} conversions at the edges"
    )


@main.command()
@click.argument("model", type=INPUT_FILE)
@click.option("--input", "inputs", type=INPUT_FILE, default=None, help="Inputs: .npz with one array per input name.")
@click.option("-o", "--output", type=OUTPUT_FILE, default=None, help="Where to write the outputs: .npz.")
@click.option("--args", "arguments", default=None, help="Inputs as text: '[dense<1> : tensor<2xi32>, ...]'.")
@click.option("--split-input-file", is_flag=True, help="Run the parts between '// -----' lines one by one.")
@ENGINE
@THREADS
@SHAPE
@reports_input_errors
def run(
    model: Path,
    inputs: Path | None,
    output: Path | None,
    arguments: str | None,
    split_input_file: bool,
    engine: str,
    threads: int,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
) -> None:
    """Run MODEL on every sample of the input and write the outputs, stacked.

    Without --input MODEL is a program text that needs none. Its checks are made (status 1 where one fails), what it
    returns is printed.
    """
    if inputs is not None and output is not None:
        _run_samples(model, inputs, output, dict(shapes), engine, threads)
    elif inputs is not None or output is not None or model.suffix.lower() not in ("", ".mlir"):
        missing = "--output" if inputs is not None else "--input"
        _fail(f"{model}: found no {missing}, expected --input and --output together, or a .mlir program without either")
    elif engine == "native":
        _fail("found --engine native without --input, expected --input and --output with it")
    else:
        _run_text(model, arguments, split_input_file)


def _run_text(file: Path, arguments: str | None, split: bool) -> None:
    """Run every program of a text; say what each returns, and what does not hold."""
    from zeropoint.frontend.legalize_chlo import legalize_chlo
    from zeropoint.interp import CheckFailed, ExecutionError, execute
    from zeropoint.ir.text import parse_program, split_input
    from zeropoint.ir.values import parse_values, value_text

    text, name = _program_text(file)
    weights = None if str(file) == "-" else _weights_beside(file)
    failed = False
    for part in split_input(text, split):
        try:
            given = None if arguments is None else parse_values(arguments)
            program = legalize_chlo(parse_program(part, name, weights))
        except ValueError as error:
            _fail(str(error))
        try:
            for outcome in execute(program, given):
                for value, found in zip(outcome.values, outcome.types, strict=True):
                    click.echo(value_text(value, found))
        except (CheckFailed, ExecutionError) as error:
            failed = True
            click.echo(f"zeropoint: {error}", err=True)
    if failed:
        raise SystemExit(1)


def _engine(model: Any, engine: str, threads: int) -> Any:
    """The model, run by the engine of that name."""
    if engine == "native":
        return model.native(threads=threads)
    if threads != 1:
        _fail(f"found --threads {threads} with --engine {engine}, expected --engine native")
    return model


def _run_samples(
    model: Path, inputs: Path, output: Path, shapes: dict[str, tuple[int, ...]], engine: str, threads: int
) -> None:
    from zeropoint.calibrate import bar, samples
    from zeropoint.frontend import load_model
    from zeropoint.ir.files import write_atomically
    from zeropoint.model import Model

    _check_output(output, (".npz",))
    loaded = _engine(Model(load_model(model, shapes)), engine, threads)
    outputs = loaded.run_samples(samples(inputs, loaded.inputs), progress=bar)

    def write(temporary: Path) -> None:
        import numpy as np

        with temporary.open("wb") as file:
            np.savez(file, **outputs)  # pyright: ignore

    write_atomically(output, write)
    click.echo(f"wrote {output}")


@main.command()
@click.argument("reference", type=INPUT_FILE)
@click.argument("model", type=INPUT_FILE)
@click.option("--data", required=True, type=INPUT_FILE, help="Test data: .npz, or a folder of .npy files.")
@click.option("--layers", is_flag=True, help="Also compare every value that both programs name; by the interpreter.")
@click.option("--json", "as_json", is_flag=True, help="For tools.")
@ENGINE
@THREADS
@SHAPE
@reports_input_errors
def compare(
    reference: Path,
    model: Path,
    data: Path,
    layers: bool,
    as_json: bool,
    engine: str,
    threads: int,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
) -> None:
    """SQNR, cosine and top-1 agreement of MODEL with REFERENCE (usually the float model)."""
    from zeropoint.calibrate import bar, samples
    from zeropoint.frontend import load_model
    from zeropoint.model import Model, compare

    if layers and engine == "native":
        _fail("found --layers with --engine native, expected --engine interp, which sees inner values")
    first = Model(load_model(reference, dict(shapes)))
    second = _engine(Model(load_model(model, dict(shapes))), engine, threads)
    result = compare(first, second, samples(data, first.inputs), layers=layers, progress=bar)
    click.echo(result.json() if as_json else result.table())


@main.command()
@click.argument("model", type=INPUT_FILE)
@click.argument("value", required=False)
@click.option("--target", default="cpu", show_default=True, help="For a float model: whose kernels decide.")
@click.option("--json", "as_json", is_flag=True, help="For tools.")
@SHAPE
@reports_input_errors
def explain(
    model: Path, value: str | None, target: str, as_json: bool, shapes: tuple[tuple[str, tuple[int, ...]], ...]
) -> None:
    """Why VALUE has its scale, why a rescale is there, why an op stayed float; without VALUE an overview of MODEL."""
    import json

    from zeropoint.frontend import load_model
    from zeropoint.model import Model
    from zeropoint.report.explain import details, overview
    from zeropoint.targets import target as named_target

    try:
        named_target(target)
    except ValueError as error:
        _fail(str(error))
    found = Model(load_model(model, dict(shapes))).explain(value, target=target)
    if as_json:
        click.echo(json.dumps(found.record(), indent=2))
    else:
        click.echo(overview(found) if value is None else details(found))


@main.command("compile")
@click.argument("model", type=INPUT_FILE)
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="Where to write: libNAME.so, or NAME.o.")
@click.option(
    "--cpu", default=None, metavar="NAME", help="The processor to compile for, as LLVM calls it; default: this one."
)
@click.option("--isa", default=None, metavar="NAME", help="The instruction set to compile for: avx2, portable, ...")
@click.option("--triple", default=None, metavar="TRIPLE", help="Another system: aarch64-unknown-linux-gnu.")
@click.option("--name", default=None, help="What the functions begin with; default: from the file's name.")
@reports_input_errors
def compile_(model: Path, output: Path, cpu: str | None, isa: str | None, triple: str | None, name: str | None) -> None:
    """Compile the integer program MODEL to an object or a shared library, with a C header NAME.h beside it.

    A shared library is linked by the C compiler that $CC names, else cc.
    """
    from zeropoint.frontend import load_model
    from zeropoint.model import Model

    _check_output(output, (".o", ".so"))
    for path in Model(load_model(model)).compile(output, name=name, isa=isa, cpu=cpu, triple=triple):
        click.echo(f"wrote {path}")


def _list_passes(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value:
        return
    from zeropoint.opt import PASSES

    for name, entry in PASSES.items():
        options = "".join(f" {option}={default}" for option, default in entry.options.items())
        click.echo(f"{name:24s}{entry.summary}{options and f'  ({options.strip()})'}")
    context.exit()


@main.command()
@click.argument("file", type=INPUT_FILE)
@click.option("-p", "--passes", default="", help="Passes in order: 'simplify,fuse,lower{profile=fixed32}'.")
@click.option("-o", "--output", type=OUTPUT_FILE, default=None, help="Where to write; default: the terminal.")
@click.option("--split-input-file", is_flag=True, help="Treat the parts between '// -----' lines one by one.")
@click.option("--verify-diagnostics", is_flag=True, help="Check the errors that expected-error comments announce.")
@click.option("--allow-unregistered-dialect", is_flag=True, help="Take ops of other dialects, in the generic form.")
@click.option("--generic", is_flag=True, help="Print ops in the generic form.")
@click.option("--locations", is_flag=True, help="Print locations.")
@click.option("--inline-weights", is_flag=True, help="Print large constants as a resource section.")
@click.option("--list-passes", is_flag=True, is_eager=True, expose_value=False, callback=_list_passes)
@reports_input_errors
def opt(
    file: Path,
    passes: str,
    output: Path | None,
    split_input_file: bool,
    verify_diagnostics: bool,
    allow_unregistered_dialect: bool,
    generic: bool,
    locations: bool,
    inline_weights: bool,
) -> None:
    """Run passes on the program text in FILE ('-' is the standard input), as mlir-opt does."""
    from zeropoint import opt as optimizer
    from zeropoint.ir.files import write_atomically

    if output is not None:
        _check_output(output, ())
    chain = optimizer.parse_passes(passes)
    text, name = _program_text(file)
    if verify_diagnostics:
        problems = optimizer.verify_diagnostics(
            text, chain, name=name, split=split_input_file, allow_unregistered=allow_unregistered_dialect
        )
        for problem in problems:
            click.echo(problem, err=True)
        raise SystemExit(1 if problems else 0)
    weights = None if str(file) == "-" else _weights_beside(file)
    printed = optimizer.optimize(
        text,
        chain,
        name=name,
        weights=weights,
        split=split_input_file,
        allow_unregistered=allow_unregistered_dialect,
        generic=generic,
        locations=locations,
        inline_weights=inline_weights,
    )
    if output is None:
        click.echo(printed, nl=False)
    else:
        write_atomically(output, lambda temporary: temporary.write_text(printed))


def _program_text(file: Path) -> tuple[str, str]:
    """The text of a file, or of the standard input, and what to call it in messages."""
    if str(file) == "-":
        return sys.stdin.read(), "<stdin>"
    try:
        return file.read_text(), str(file)
    except UnicodeDecodeError:
        _fail(f"{file}: found bytes that are no text, expected MLIR")


def _weights_beside(file: Path) -> Any:
    """The weights in the .safetensors file beside a program, None where there is none."""
    from zeropoint.ir.files import load_weights

    sidecar = file.with_suffix(".safetensors")
    try:
        return load_weights(sidecar) if sidecar.exists() else None
    except ValueError as error:
        _fail(str(error))


@main.command()
@click.argument("name", required=False)
def targets(name: str | None) -> None:
    """List the targets, or the kernel table of one."""
    from zeropoint.report.tables import target_list, target_table
    from zeropoint.targets import target

    try:
        click.echo(target_list() if name is None else target_table(target(name)))
    except ValueError as error:
        _fail(str(error))


if __name__ == "__main__":
    main()
