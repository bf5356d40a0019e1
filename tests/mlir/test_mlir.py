"""Passes before and after: every .mlir file here says on its RUN line what to run and in CHECK lines what to expect."""

import re
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from zeropoint import opt
from zeropoint.passes import PASSES

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.mlir"))
RUN = re.compile(r"// RUN: -p '(?P<passes>[^']*)'(?P<flags>.*)")


def filecheck(checks: Path, text: str) -> int:
    options = Options(match_filename=str(checks))
    return Matcher(options, FInput("output", text), Parser.from_opts(options)).run()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(HERE).with_suffix("").as_posix())
def test_the_passes_turn_the_input_into_what_the_checks_say(path: Path) -> None:
    source = path.read_text()
    run = RUN.search(source)
    assert run is not None, f"{path} has no RUN line"
    passes = opt.parse_passes(run["passes"].replace("%S", str(path.parent)))
    flags = run["flags"]
    reading = opt.Reading(path.name, "--split-input-file" in flags, "--allow-unregistered-dialect" in flags)
    if "--verify-diagnostics" in flags:
        assert "expected-error" in source
        assert opt.verify_diagnostics(source, passes, reading) == []
        return
    assert "// CHECK" in source
    printed = opt.printed(opt.optimized(source, passes, reading), locations="--locations" in flags)
    assert filecheck(path, printed) == 0, printed


def test_every_pass_has_checks_of_what_it_returns() -> None:
    checked: set[str] = set()
    for path in FILES:
        source = path.read_text()
        run = RUN.search(source)
        if run is not None and "// CHECK" in source:
            # The checks are of the last pass; the ones before it make its input.
            *_, (name, _) = re.findall(r"([\w-]+)({[^}]*})?", run["passes"])
            checked.add(name)
    assert checked == {*PASSES}
