"""`zeropoint run` and `zeropoint compare`: run programs on data, in the interpreter or as native code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zeropoint.cli.data import PREPROCESS, data_source
from zeropoint.cli.exported import runtime_of
from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, check_output, program_text, weights_of
from zeropoint.cli.idle import refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.mask import MASK
from zeropoint.cli.refusals import fail, reports_errors
from zeropoint.cli.shape_sets import compare_set, run_set
from zeropoint.cli.shapes import CONSTANT, CONSTANT_BESIDE_DATA, SHAPE, DataParameter
from zeropoint.cli.verbosity import progress, say

ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "interp", "native"]),
    default="auto",
    show_default=True,
    help="Interpreter or native code; both give the same bits. auto selects the faster one.",
)
THREADS = click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of threads (native engine only).",
)


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.option(
    "--input",
    "given",
    multiple=True,
    type=DataParameter(),
    help="Inputs: .npz with an array for each input name, a folder of .npy files or of images. NAME=NUMBER replaces an "
    "input by a number.",
)
@PREPROCESS
@click.option("-o", "--output", type=OUTPUT_FILE, default=None, help="Where to write the outputs: .npz.")
@click.option("--args", "arguments", default=None, help="Inputs as text: '[dense<1> : tensor<2xi32>, ...]'.")
@click.option("--split-input-file", is_flag=True, help="Run the parts between '// -----' lines one by one.")
@ENGINE
@THREADS
@SHAPE
@CONSTANT_BESIDE_DATA
@limit_options
@reports_errors
def run(
    model: Path,
    given: tuple[Path | tuple[str, bool | int | float], ...],
    preprocess: str | None,
    output: Path | None,
    arguments: str | None,
    split_input_file: bool,
    engine: str,
    threads: int,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Run MODEL on every sample of the input and write the outputs, stacked.

    MODEL may be a folder of programs for several shapes; the shapes of the input's arrays select the program.

    With ZEROPOINT_GUARDED=1, native code checks every load and store, and its memory lies between guard pages.

    Without --input, MODEL is a test program in MLIR text, which takes no inputs, or those of --args. Its results are
    printed. Exit status 1: one of its checks failed.
    """
    inputs, numbers = _data_and_numbers(given)
    constants = (*constants, *numbers)
    if numbers and inputs is None:
        fail("found --input NAME=NUMBER with no other --input, where it changes nothing; leave it out or add data")
    refuse_idle(
        ("arguments", inputs is not None, "--input"),
        ("split_input_file", inputs is not None, "--input"),
        *((name, inputs is None, "no --input") for name in ("shapes", "constants", "preprocess", "threads")),
    )
    if inputs is not None and output is not None:
        _run_samples(model, (inputs, preprocess), output, (dict(shapes), dict(constants)), engine, threads)
    elif inputs is not None or output is not None or model.suffix.lower() not in ("", ".mlir"):
        missing = "--output" if inputs is not None else "--input"
        fail(f"{model}: found no {missing}, expected --input and --output together, or a .mlir program without either")
    elif engine == "native":
        fail("found --engine native without --input, expected --input and --output with it")
    else:
        _run_text(model, arguments, split_input_file)


def _data_and_numbers(
    given: tuple[Path | tuple[str, bool | int | float], ...],
) -> tuple[Path | None, list[tuple[str, bool | int | float]]]:
    """The data of `--input` and the inputs that it replaces by numbers. Exits with status 2 for data in two files."""
    files = [found for found in given if isinstance(found, Path)]
    if len(files) > 1:
        fail(f"found --input {files[0]} and {files[1]}, expected one file or folder, and NAME=NUMBER for inputs to fix")
    return next(iter(files), None), [found for found in given if isinstance(found, tuple)]


def _run_text(file: Path, arguments: str | None, split: bool) -> None:
    """Run every program of a text. Print its results and the checks that fail; exit with status 1 if any did."""
    from zeropoint.interp import CheckFailed, ExecutionError, TripsExceeded, execute
    from zeropoint.ir.arguments import InputError
    from zeropoint.ir.text import parse_program, split_input
    from zeropoint.ir.values import parse_values, value_text
    from zeropoint.quant_passes import legalize_chlo

    text, name = program_text(file)
    weights = weights_of(file)
    failed = False
    for part in split_input(text, split):
        try:
            given = None if arguments is None else parse_values(arguments)
            program = legalize_chlo(parse_program(part, name, weights))
            check_loops(program)
        except ValueError as error:
            fail(str(error))
        try:
            for outcome in execute(program, given):
                for value, found in zip(outcome.values, outcome.types, strict=True):
                    click.echo(value_text(value, found))
        except TripsExceeded as error:
            fail(str(error))
        except (CheckFailed, ExecutionError) as error:
            failed = True
            click.echo(f"zeropoint: {error}", err=True)
        except InputError as error:
            if arguments is not None:
                raise
            fail(f"{error}; --args gives values, --input and --output name files of samples")
    if failed:
        raise SystemExit(1)


def _engine(model: Any, engine: str, threads: int) -> Any:
    """The model, set up to run with the engine of that name."""
    if engine == "native":
        return model.native(threads=threads)
    if threads != 1:
        fail(f"found --threads {threads} with --engine {engine}, expected --engine native")
    return model.interpreted() if engine == "interp" else model


def _ranked(model: Path, shapes: Any, constants: Any, source: Any) -> Any:
    """The program of a model. Unranked inputs get the shape of one sample: that of the data without its first axis."""
    from zeropoint.calibrate import shapes_in
    from zeropoint.frontend import load_model
    from zeropoint.frontend.ranks import UnrankedInputs

    try:
        return load_model(model, shapes, constants)
    except UnrankedInputs as error:
        found = {name: shape[1:] for name, shape in shapes_in(source, error.names).items()}
        return load_model(model, {**found, **shapes}, constants)


def _run_samples(
    model: Path, data: tuple[Path, str | None], output: Path, fixed: tuple[Any, Any], engine: str, threads: int
) -> None:
    """Run a model on every sample and write the outputs.

    `data` is the file or folder and its preprocessing, `fixed` the shapes and constants of inputs.
    """
    from zeropoint.calibrate import samples
    from zeropoint.ir.outputs import write_atomically
    from zeropoint.model import Model

    check_output(output, (".npz",), model, data[0])
    if model.is_dir():
        if fixed != ({}, {}) or data[1] is not None:
            fail(f"{model}: found --shape, --constant or --preprocess with a folder of programs, expected none of them")
        outputs = run_set(model, data[0], engine, threads)
    else:
        source = data_source(*data)
        loaded = _engine(Model(_ranked(model, *fixed, source)), engine, threads)
        check_loops(loaded.program)
        outputs = loaded.run_samples(samples(source, loaded.inputs, fill=True), progress=progress())

    def write(temporary: Path) -> None:
        import numpy as np

        with temporary.open("wb") as file:
            np.savez(file, **outputs)

    write_atomically(output, write)
    say(f"wrote {output}")


def _reference_of(reference: Path, exported: Path, shapes: Any, constants: Any) -> Any:
    """The program to compare an exported file with. Its dynamic dimensions are those of a file that zeropoint wrote."""
    from zeropoint.frontend import DynamicShapes, load_model
    from zeropoint.frontend.exported import origin_of
    from zeropoint.frontend.sources import load_alike

    try:
        return load_model(reference, shapes, constants)
    except DynamicShapes:
        if shapes or origin_of(exported) is None:
            raise
        return load_alike(reference, load_model(exported).inputs, None, constants)


@click.command()
@click.argument("reference", type=INPUT_FILE)
@click.argument("model", type=INPUT_FILE)
@click.option("--data", required=True, type=INPUT_FILE, help="Test data: .npz, a folder of .npy files or of images.")
@PREPROCESS
@click.option("--layers", is_flag=True, help="Also compare every inner value that has the same name in both programs.")
@MASK
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@ENGINE
@THREADS
@SHAPE
@CONSTANT
@limit_options
@reports_errors
def compare(
    reference: Path,
    model: Path,
    data: Path,
    preprocess: str | None,
    layers: bool,
    mask: str | None,
    as_json: bool,
    engine: str,
    threads: int,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Print SQNR, cosine and top-1 agreement of MODEL with REFERENCE (usually the float model).

    MODEL may be a folder of programs for several shapes; the shapes of a sample select the program. A .tflite or .onnx
    file that zeropoint exported runs in its runtime, as MODEL and as REFERENCE. Dynamic dimensions of REFERENCE are
    those of MODEL, unless --shape overrides them. --constant fixes inputs of REFERENCE that MODEL does not have.
    """
    from zeropoint.calibrate import samples
    from zeropoint.comparison import compare
    from zeropoint.frontend import load_model
    from zeropoint.frontend.sources import load_alike
    from zeropoint.model import Model
    from zeropoint.report.tables import folded

    if layers and engine == "native":
        fail("found --layers with --engine native, expected --engine auto, which sees inner values")
    if model.is_dir():
        if shapes:
            fail(f"{model}: found --shape with a folder of programs, expected none: their shapes are used")
        given = data_source(data, preprocess)
        result = compare_set(reference, model, given, dict(constants), engine, threads, layers=layers, mask=mask)
        click.echo(result.json() if as_json else folded(result.table()))
        return
    runtime = runtime_of(model, layers)
    refuse_idle(
        *((name, runtime is not None, f"{model.name}, which its runtime runs") for name in ("engine", "threads"))
    )
    if runtime is None:
        second = _engine(Model(load_model(model, dict(shapes))), engine, threads)
        first = Model(load_alike(reference, second.inputs, dict(shapes), dict(constants)))
    else:
        first = Model(_reference_of(reference, model, dict(shapes), dict(constants)))
        second = Model(first.program, engine=runtime)
    if reference.suffix in (".onnx", ".tflite") and (own := runtime_of(reference, layers)) is not None:
        first = Model(first.program, engine=own)
    check_loops(first.program, second.program)
    source = samples(data_source(data, preprocess), first.inputs)
    result = compare(first, second, source, layers=layers, mask=mask, progress=progress())
    click.echo(result.json() if as_json else folded(result.table()))
