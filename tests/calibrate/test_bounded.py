"""The second calibration, of parts that a pass computes alone, is spread and recorded as the first one is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network
from solve.uneven_joins import SHAPE, a_maximum_pool, convolved, joined, network, normalized, parts
from zeropoint.calibrate import DataError, Work, journal
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import print_program
from zeropoint.options import Options
from zeropoint.pipeline import quantize

OPTIONS = Options(effort="none")


def uneven() -> Program:
    """The parts of the pool are computed alone, and their ranges are bounds at first."""

    def pooled(net: Network, value: SSAValue) -> list[SSAValue]:
        pool = a_maximum_pool(net, joined(net, parts(net, value)))
        return [convolved(net, normalized(net, pool, (100.0, 1.0)), 8)]

    return network(pooled)


class Samples:
    """Samples that end with an error in a round."""

    def __init__(self, broken: int | None = None):
        self.broken, self.rounds = broken, 0
        self.all = [{"x0": x} for x in np.random.default_rng(0).normal(size=(20, *SHAPE)).astype(np.float32)]

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        self.rounds += 1
        yield from self.all[:18] if self.rounds == self.broken else self.all
        if self.rounds == self.broken:
            raise DataError("broken off")


@pytest.fixture
def _recorded_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    monkeypatch.setattr(journal, "SHARE", 0)


@pytest.mark.usefixtures("_recorded_always")
def test_a_run_goes_on_from_the_journal_of_the_second_calibration_with_the_same_bits(tmp_path: Path) -> None:
    expected = print_program(quantize(uneven(), Samples(), OPTIONS).integer)
    work = Work(1, tmp_path / "j")
    with pytest.raises(DataError, match="broken off"):
        quantize(uneven(), Samples(broken=2), OPTIONS, work=work)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "j", tmp_path / "j.parts"]
    found = quantize(uneven(), Samples(), OPTIONS, work=Work(2, tmp_path / "j", resume=True))
    assert print_program(found.integer) == expected
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_recorded_always")
def test_the_journal_of_the_second_calibration_alone_is_enough_to_resume(tmp_path: Path) -> None:
    """The first one may have been too short for a journal."""
    with pytest.raises(DataError, match="broken off"):
        quantize(uneven(), Samples(broken=2), OPTIONS, work=Work(1, tmp_path / "j"))
    (tmp_path / "j").unlink()
    quantize(uneven(), Samples(), OPTIONS, work=Work(1, tmp_path / "j", resume=True))
    assert not list(tmp_path.iterdir())
