"""Every kernel of a network against what this machine can do: time, GOPS, share of peak, and what bounds it.

The ceiling of a kernel is its operations at the int8 peak of one core, or its bytes at the bandwidth of the memory that
they come from, whichever takes longer: weights from the last cache (a whole network's do not stay in the second one),
activations from the second cache where they fit it. "epilogue" names what is far below both: a short sum, after which
requantizing an output costs as much as computing it.

    python bench/kernels.py [NETWORK ...] [--rounds N]
"""

import argparse

from rich.console import Console
from rich.table import Table

import zeropoint
from peak import Peak, measure
from suite import SUBJECTS, engine_file, samples
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.profiling import StepTime, profile

SHORT = 128
"""Products of one output up to which requantizing it takes a good part of the time."""


def ceiling(step: StepTime, peak: Peak) -> tuple[float, str]:
    """Seconds that a kernel takes at least, and what says so."""
    levels = {level.name: level for level in peak.levels}
    near = levels["L2"] if step.read + step.written <= 2 * levels["L2"].size else levels["L3"]
    arithmetic = step.operations / peak.int8_gops / 1e9
    weights = step.parameters / levels["L3"].read_gb_s / 1e9
    activations = step.read / near.read_gb_s / 1e9 + step.written / near.write_gb_s / 1e9
    return max((arithmetic, "arithmetic"), (weights, "weights from L3"), (activations, f"activations in {near.name}"))


def bound(step: StepTime, peak: Peak) -> str:
    """What keeps a kernel from the int8 peak."""
    least, reason = ceiling(step, peak)
    if least < 0.5 * step.seconds and step.operations and step.operations / max(1, 2 * step.written) <= SHORT:
        return "epilogue"
    return reason


def table(name: str, steps: list[StepTime], peak: Peak) -> Table:
    """One row a kernel, the totals by kind at the end."""
    drawn = Table(title=f"{name}: {1e3 * sum(step.seconds for step in steps):.3f} ms in kernels, one thread")
    for column in ("kernel", "op", "us", "GOPS", "of peak", "of its ceiling", "bounded by"):
        drawn.add_column(column, justify="left" if column in ("kernel", "op", "bounded by") else "right")
    for step in steps:
        drawn.add_row(step.kernel, step.name, *cells(step, peak), bound(step, peak))
    drawn.add_section()
    for kind in dict.fromkeys(step.kernel for step in steps):
        mine = [step for step in steps if step.kernel == kind]
        seconds, operations = sum(step.seconds for step in mine), sum(step.operations for step in mine)
        gops = operations / seconds / 1e9
        share = f"{gops / peak.int8_gops:.0%}" if operations else ""
        drawn.add_row(kind, f"{len(mine)} of them", f"{1e6 * seconds:.0f}", f"{gops:.0f}", share, "", "")
    return drawn


def cells(step: StepTime, peak: Peak) -> list[str]:
    """Microseconds, GOPS, share of the int8 peak, share of the kernel's own ceiling."""
    least, _ = ceiling(step, peak)
    seconds = max(step.seconds, 1e-9)  # a kernel may be shorter than the clock resolves
    gops = step.operations / seconds / 1e9
    share = f"{gops / peak.int8_gops:.0%}" if step.operations else ""
    return [f"{1e6 * seconds:.1f}", f"{gops:.0f}" if step.operations else "", share, f"{least / seconds:.0%}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("networks", nargs="*", default=["efficientnet_lite0"], choices=[*SUBJECTS, []])
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    peak = measure()
    console = Console(width=170)
    console.print(f"{peak.cpu}: {peak.int8_gops:.0f} GOPS int8 a core ({peak.int8_form})")
    for name in options.networks:
        model = zeropoint.load(engine_file(name, "zeropoint-int8"))
        (sample,) = samples(name, 1)
        console.print(table(name, profile(NativeProgram(model.program), sample, options.rounds), peak))


if __name__ == "__main__":
    main()
