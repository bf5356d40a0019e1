"""A network, samples, engines that fail in workers, and all of a report: what spread calibrations are compared by."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from networks import Network
from zeropoint.calibrate import Observation, instrument
from zeropoint.calibrate.report import Report
from zeropoint.fuse import fuse
from zeropoint.interp import Engine, ReferenceEngine, Runnable
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, DotDimensions, DotGeneralOp, ExponentialOp
from zeropoint.ir.tensors import Array
from zeropoint.simplify import simplify
from zeropoint.targets import target

SAMPLES = [{"x0": np.random.default_rng(n).normal(size=(1, 32)).astype(np.float32) * n} for n in range(43)]
"""Five chunks of eight, and three."""


def network() -> Program:
    """exp(x + x . w), with weights that lie in a file of their own."""
    net = Network([(1, 32)])
    (x,) = net.values
    weights = net.constant(np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32) / 100)
    product = net.insert(DotGeneralOp(x, weights, x.type, DotDimensions((), (), (1,), (0,))))
    return instrument(
        fuse(simplify(net.finish([net.insert(ExponentialOp(net.insert(AddOp(x, product))))])), target("cpu"))
    )


def whole(report: Report) -> list[tuple[str, Observation, tuple[float, ...]]]:
    """All of a report, the quantiles too."""
    return [(key, found, found.quantiles) for key, found in report.observations.items()]


class Deadly:
    """An engine whose program dies, or fails, in workers as often as there are files that say so."""

    def __init__(self, folder: Path, parent: int):
        self._folder, self._parent = folder, parent

    def prepare(self, program: Program) -> Runnable:
        run = ReferenceEngine().prepare(program)

        def deadly(inputs: dict[str, Array], *, observe: object = None) -> dict[str, Array]:
            if os.getpid() != self._parent:
                for order in sorted(self._folder.glob("die*")):
                    order.unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
            return run(inputs, observe=observe)  # pyright: ignore[reportArgumentType] (a stand-in for an engine)

        return deadly  # pyright: ignore[reportReturnType] (a stand-in for an engine)


def deadly(folder: Path, deaths: int) -> Engine:
    for number in range(deaths):
        (folder / f"die{number}").touch()
    return Deadly(folder, os.getpid())


class Stalled:
    """An engine whose program never returns in workers of Ray."""

    def prepare(self, program: Program) -> Runnable:
        while _title().startswith("ray::"):
            time.sleep(1)
        return ReferenceEngine().prepare(program)


class Mortal:
    """An engine that kills workers of Ray, after their titles are written to a file."""

    def __init__(self, dead: Path) -> None:
        self._dead = dead

    def prepare(self, program: Program) -> Runnable:
        if _title().startswith("ray::"):
            with self._dead.open("a") as file:
                file.write(f"{_title()}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return ReferenceEngine().prepare(program)


def _title() -> str:
    """What Ray calls the processes of its workers; their command line otherwise."""
    return Path("/proc/self/cmdline").read_text().strip("\0 ")
