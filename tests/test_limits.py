"""What the input may cost: large tensors and loops without end are refused before they cost it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zeropoint.cli import main
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.limits import LimitExceeded, afford, limited, limits, machine_memory

SPLAT = """func.func @main() -> tensor<1000000x1000000xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<1000000x1000000xf32>
  return %0 : tensor<1000000x1000000xf32>
}
"""
BROADCAST = """func.func @main() -> tensor<f32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1000000x1000000xf32> loc("the_large_one")
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<1000000x1000000xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
"""
FOR_EVER = """func.func @main() -> tensor<i32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.while(%x = %0) : tensor<i32> cond {
    %2 = stablehlo.compare EQ, %0, %0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %2 = stablehlo.add %x, %x : tensor<i32>
    stablehlo.return %2 : tensor<i32>
  } loc("round")
  return %1 : tensor<i32>
}
"""


def run(text: str, folder: Path, *options: str) -> Result:
    path = folder / "m.mlir"
    path.write_text(text)
    return CliRunner().invoke(main, ["run", str(path), *options])


def test_a_constant_that_repeats_one_number_too_often_is_refused_at_its_line(tmp_path: Path) -> None:
    result = run(SPLAT, tmp_path)
    assert result.exit_code == 2
    assert "found a constant of shape [1000000, 1000000] and 3.638 TiB, expected up to " in result.stderr


def test_an_op_with_too_large_a_result_is_named(tmp_path: Path) -> None:
    result = run(BROADCAST, tmp_path)
    assert result.exit_code != 0
    assert "stablehlo.broadcast_in_dim 'the_large_one': found a result of shape [1000000, 1000000]" in result.stderr


def test_a_loop_without_end_stops(tmp_path: Path) -> None:
    result = run(FOR_EVER, tmp_path, "--max-trips", "100")
    assert result.exit_code == 2
    said = (
        "'round': found a loop that goes on after 100 trips of all loops in this run; "
        "max_trips (--max-trips) allows more"
    )
    assert said in result.stderr


def rounds(times: int, body: str, name: str) -> str:
    """A loop that counts its trips in an i32, with `body` in each."""
    return f"""%end_{name} = stablehlo.constant dense<{times}> : tensor<i32>
  %zero_{name} = stablehlo.constant dense<0> : tensor<i32>
  %{name} = stablehlo.while(%n_{name} = %zero_{name}) : tensor<i32> cond {{
    %c = stablehlo.compare LT, %n_{name}, %end_{name}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    {body}
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %n_{name}, %one : tensor<i32>
    stablehlo.return %next : tensor<i32>
  }} loc("{name}")"""


NESTED = rounds(9, rounds(9, rounds(9, "", "innermost"), "inner"), "outer")  # 9 + 81 + 729 trips
PARALLEL = f"""func.func private @f() -> tensor<i32> {{
  {NESTED}
  return %outer : tensor<i32>
}}
func.func @main() -> (tensor<i32>, tensor<i32>) {{
  %r:2 = "interpreter.run_parallel"() <{{programs = [[@f], [@f]]}}> : () -> (tensor<i32>, tensor<i32>)
  return %r#0, %r#1 : tensor<i32>, tensor<i32>
}}
"""
SERIAL = f"func.func @main() -> tensor<i32> {{ {NESTED} return %outer : tensor<i32> }}"


@pytest.mark.parametrize(("text", "trips"), [(SERIAL, 819), (PARALLEL, 2 * 819)], ids=["nested", "processes"])
def test_the_trips_of_all_loops_in_a_run_are_counted_together(text: str, trips: int, tmp_path: Path) -> None:
    assert run(text, tmp_path, "--max-trips", str(trips)).exit_code == 0
    result = run(text, tmp_path, "--max-trips", str(trips - 1))
    assert result.exit_code == 2
    assert f"found a loop that goes on after {trips - 1} trips of all loops in this run" in result.stderr


def test_every_run_has_all_trips() -> None:
    program = Interpreter(parse_program(SERIAL))
    with limited(trips=819):
        assert [program.run_values([])[0] for _ in range(3)] == [9, 9, 9]


FOR = """func.func @main() -> tensor<i64> {{
  %0 = stablehlo.constant dense<0> : tensor<i64>
  {loop}
  return %0 : tensor<i64>
}}
"""


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (
            "%r = affine.for %i = 0 to 1000000000000 iter_args(%a = %0) -> (tensor<i64>) "
            "{ affine.yield %a : tensor<i64> }",
            "affine.for: found a loop that goes on after 100 trips of all loops in this run",
        ),
        ("affine.for %i = 0 to 9000000000000000000 { }", "found the indices of a loop of shape [9000000000000000000]"),
        (
            "affine.for %i = 0 to 1000000 { affine.for %j = 0 to 1000000 { affine.for %k = 0 to 1000000 { } } }",
            "found the values in a nest of loops of shape [1000000, 1000000, 1000000]",
        ),
    ],
    ids=["carried values", "indices", "a nest"],
)
def test_loops_of_many_steps_are_refused(loop: str, said: str, tmp_path: Path) -> None:
    result = run(FOR.format(loop=loop), tmp_path, "--max-trips", "100")
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("size", ["512M", "0.5G", "512MiB", "512mb", str(512 << 20)])
def test_sizes_have_units(size: str, tmp_path: Path) -> None:
    assert "expected up to 512 MiB" in run(SPLAT, tmp_path, "--max-memory", size).stderr


@pytest.mark.parametrize("size", ["", "G", "-1", "0", "1X", "nan", "inf"])
def test_a_size_that_is_none_is_refused(size: str, tmp_path: Path) -> None:
    result = run(SPLAT, tmp_path, "--max-memory", size)
    assert result.exit_code == 2
    assert "expected a size such as 512M or 8G" in result.stderr


def test_limits_hold_inside_of_the_with_only() -> None:
    assert limits().memory == machine_memory() // 2
    with limited(memory=100), limited(trips=7):
        assert (limits().memory, limits().trips) == (100, 7)
        afford([5, 5], 4)
        with pytest.raises(
            LimitExceeded, match=r"found a tensor of shape \[26\] and 104 bytes, expected up to 100 bytes"
        ):
            afford([26], 4)
    assert limits().memory == machine_memory() // 2
