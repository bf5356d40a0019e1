"""The command line.

Exit status: 0 is success. 1: a check failed. 2: invalid input, or the output cannot be written (one line with what was
found, what was expected, and the fix). 70: internal error (one line with how to report it). 130: interrupted by Ctrl-C.
141: the reader of the output closed the pipe. `--debug` shows the traceback.

Commands import their implementation when they run, so that `--help` and errors about options need no slow imports.
"""

from __future__ import annotations

import click

from zeropoint.cli.calibration import calibrate
from zeropoint.cli.check_target import check_target
from zeropoint.cli.compilation import compile_
from zeropoint.cli.entry import Entry
from zeropoint.cli.execution import compare, run
from zeropoint.cli.export import export
from zeropoint.cli.inspection import explain, targets
from zeropoint.cli.passes import opt
from zeropoint.cli.quantization import quantize
from zeropoint.cli.refusals import debug_option
from zeropoint.cli.report import report
from zeropoint.cli.sensitivity import sensitivity
from zeropoint.cli.verbosity import verbosity_options
from zeropoint.version import __version__

COMMANDS = (
    *(quantize, run, compare, report, explain, sensitivity),
    *(compile_, export, calibrate, opt, targets, check_target),
)


@click.group(
    cls=Entry,
    commands=list(COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="zeropoint")
@verbosity_options
@debug_option
def main() -> None:
    """Turn a float network into an exactly specified integer program."""
