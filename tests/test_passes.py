"""The one list of passes, and who reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.classifier import classifier
from networks import Network
from zeropoint.codegen.lowering import PASSES as NATIVE
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program
from zeropoint.opt import PipelineError, parse_passes, run_passes
from zeropoint.passes import NATIVE_PASSES, PASSES, Pass, PassError, listing
from zeropoint.targets import Target, target

DOCS = Path(__file__).parent.parent / "docs"


def test_the_docs_list_the_passes() -> None:
    assert listing() in (DOCS / "passes.md").read_text()


def test_a_pass_is_named_after_its_function() -> None:
    assert PASSES["move-rescales"].run.__name__ == "move_rescales"
    assert all(entry.name == name for name, entry in PASSES.items())


def test_native_code_runs_its_listed_passes_in_order() -> None:
    assert [entry.name for entry in NATIVE_PASSES] == list(NATIVE)


def test_quantize_with_integer_io_runs_the_listed_pass() -> None:
    made = classifier()
    asked, kept = (run_passes(made, parse_passes(f"integer-io{{io={io}}}")) for io in ("integer", "float"))
    assert print_program(asked) == print_program(classifier(integer_io=True)) != print_program(made)
    assert print_program(kept) == print_program(made)
    with pytest.raises(PipelineError, match="found io = both, expected one of: float, integer"):
        parse_passes("integer-io{io=both}")[0](made)


def test_an_option_that_is_given_twice_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"found option 'target' twice in '{target=cpu target=litert}'"):
        parse_passes("simplify,fuse{target=cpu target=litert}")


def a_pass(program: Program, target: Target, deep: bool = False, profile: str | None = None) -> Program:
    seen.append((target, deep, profile))
    return program


seen: list[tuple[Target, bool, str | None]] = []


def test_options_are_the_parameters_of_the_function(network: Program) -> None:
    entry = Pass(a_pass, "")
    assert [str(option) for option in entry.options.values()] == ["target=cpu", "deep=False", "profile=None"]
    entry(network, {"deep": True, "ranges": "of another pass"})
    entry(network, {"target": "litert", "profile": "fixed32"})
    assert seen[-2:] == [(target("cpu"), True, None), (target("litert"), False, "fixed32")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deep": 3}, "found deep = 3, expected true or false"),
        ({"target": True}, "found target = True, expected a name"),
        ({"profile": 3.5}, "found profile = 3.5, expected a name"),
    ],
)
def test_a_setting_of_another_type_is_refused(network: Program, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PassError, match=message):
        Pass(a_pass, "")(network, settings)


@pytest.fixture
def network() -> Program:
    net = Network([(1, 2)])
    return net.finish([net.values[0]])


def test_a_target_file_needs_no_quotes_in_a_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "of mine.toml"
    path.write_text('name = "mine"\nextends = "litert"\n')
    program = parse_program("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    for value in (str(path), f'"{path}"'):
        made = run_passes(program, parse_passes(f"fuse{{target={value}}},propagate{{target={value} profile=fixed32}}"))
        assert made.module.attributes["zeropoint.target"].data == "mine"
