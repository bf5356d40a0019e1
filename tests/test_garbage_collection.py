"""The threshold of Python's collector is raised while programs are transformed, and restored."""

import gc

import click
import pytest

from zeropoint.cli.entry import Entry
from zeropoint.garbage_collection import OBJECTS, seldom_collected


def test_the_last_user_restores_the_threshold() -> None:
    before = gc.get_threshold()
    usual = (700, *before[1:])
    gc.set_threshold(*usual)
    try:
        with seldom_collected():
            assert gc.get_threshold() == (OBJECTS, *before[1:])
            with pytest.raises(ValueError, match="stop"), seldom_collected():
                raise ValueError("stop")
            assert gc.get_threshold() == (OBJECTS, *before[1:])
        assert gc.get_threshold() == usual
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("threshold", [0, OBJECTS + 1])
def test_a_collector_that_runs_less_often_stays_as_it_is(threshold: int) -> None:
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        with seldom_collected():
            assert gc.get_threshold()[0] == threshold
        assert gc.get_threshold()[0] == threshold
    finally:
        gc.set_threshold(*before)


def test_commands_collect_seldom_from_their_first_import_on() -> None:
    seen: list[int] = []
    group = Entry("tool")
    group.add_command(click.Command("show", callback=lambda: seen.append(gc.get_threshold()[0])))
    before = gc.get_threshold()
    group.main(["show"], standalone_mode=False)
    assert seen == [max(before[0], OBJECTS)]
    assert gc.get_threshold() == before
