"""Several processes in one: what each of them ends with, whoever comes first; and runs that cannot end."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from zeropoint.interp import ExecutionError, Interpreter, UnsupportedError, execute
from zeropoint.interp.processes import ProcessGrid
from zeropoint.ir.inlining import RecursionInProgram, check_calls
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program


def run_on_grid(body: str, grid: str, inputs: list[Array], result: str = "tensor<2x2xi32>") -> list[list[list[int]]]:
    """The results of processes that all run `body` on a tensor<2x2xi32>."""
    count = len(inputs)
    arguments = ", ".join(f"%x{i}: tensor<2x2xi32>" for i in range(count))
    text = f"""
    func.func private @f(%x: tensor<2x2xi32>) -> {result} {{
      {body}
      return %0 : {result}
    }}
    func.func @main({arguments}) -> ({", ".join([result] * count)}) {{
      %r:{count} = "interpreter.run_parallel"({", ".join(f"%x{i}" for i in range(count))}) <{{programs = {grid}}}>
        : ({", ".join(["tensor<2x2xi32>"] * count)}) -> ({", ".join([result] * count)})
      return {", ".join(f"%r#{i}" for i in range(count))} : {", ".join([result] * count)}
    }}"""
    return [found.tolist() for found in Interpreter(parse_program(text)).run_values(inputs)]


def values(count: int) -> list[Array]:
    return [np.array([[10 * i + 1, 10 * i + 2], [10 * i + 3, 10 * i + 4]], np.int32) for i in range(count)]


def reducing(op: str, attributes: str, result: str = "tensor<2x2xi32>") -> str:
    return f"""%0 = "stablehlo.{op}"(%x) <{{{attributes}}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %s = stablehlo.add %a, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }}) : (tensor<2x2xi32>) -> {result}"""


COLUMN, ROW = "[[@f], [@f], [@f], [@f]]", "[[@f, @f, @f, @f]]"
SQUARE = "[[@f, @f], [@f, @f]]"
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>"


def grids(*functions: str) -> str:
    """@main and functions that each run processes of the next one twice; the last ones compute."""
    pair = "() -> (tensor<i32>, tensor<i32>)"
    runs = (
        f"""func.func {"" if name == "main" else "private "}@{name}() -> tensor<i32> {{
          %r:2 = "interpreter.run_parallel"() <{{programs = [[@{called}], [@{called}]]}}> : {pair}
          return %r#0 : tensor<i32>
        }}"""
        for name, called in itertools.pairwise(functions)
    )
    leaf = """func.func private @leaf() -> tensor<i32> {
      %0 = stablehlo.constant dense<1> : tensor<i32>
      return %0 : tensor<i32>
    }"""
    return "\n".join((*runs, leaf))


def test_processes_that_start_themselves_are_refused() -> None:
    program = parse_program(grids("main", "main"))
    with pytest.raises(UnsupportedError, match="found a function that calls itself; expected no recursion"):
        Interpreter(program)
    with pytest.raises(RecursionInProgram, match="found functions that call themselves"):
        check_calls(program)


@pytest.mark.parametrize("functions", [("main", "f", "g", "f"), ("main", "f", "leaf")], ids=["a circle", "an end"])
def test_processes_that_start_processes_are_refused(functions: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match="found processes that start processes, expected one grid"):
        Interpreter(parse_program(grids(*functions)))


def test_more_processes_than_the_machine_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        real(thread)

    real = threading.Thread.start
    sums = reducing("all_reduce", "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>")
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(ExecutionError, match="found 4 processes, expected up to 3, which this machine runs"):
        run_on_grid(sums, COLUMN, values(4))
    for thread in started:
        thread.join(10)
        assert not thread.is_alive()


def test_all_reduce_on_one_process_is_the_operand():
    text = f"""func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi32> {{
      {reducing("all_reduce", "replica_groups = dense<0> : tensor<1x1xi64>")}
      return %0 : tensor<2x2xi32>
    }}"""
    (x,) = values(1)
    assert np.array_equal(Interpreter(parse_program(text)).run_values([x])[0], x)


@pytest.mark.parametrize(
    ("grid", "attributes", "sums"),
    [
        pytest.param(COLUMN, "replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>", [22, 42], id="replicas"),
        pytest.param(
            SQUARE, f"replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL}", [64, 64], id="and partitions"
        ),
        pytest.param(
            SQUARE,
            f"replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, {CHANNEL}, use_global_device_ids",
            [22, 42],
            id="flattened",
        ),
        pytest.param(COLUMN, "replica_groups = dense<> : tensor<0x0xi64>", [64, 64], id="all"),
    ],
)
def test_all_reduce_sums_over_the_group(grid: str, attributes: str, sums: list[int]):
    results = run_on_grid(reducing("all_reduce", attributes), grid, values(4))
    assert [found[0][0] for found in results] == sums * 2


def test_all_reduce_of_a_ragged_group():
    body = reducing("all_reduce", "replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>")
    assert [found[0][0] for found in run_on_grid(body, "[[@f], [@f], [@f]]", values(3))] == [12, 12, 21]


def test_reduce_scatter_gives_every_process_its_part():
    attributes = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64"
    body = reducing("reduce_scatter", attributes, "tensor<2x1xi32>")
    assert run_on_grid(body, "[[@f], [@f]]", values(2), "tensor<2x1xi32>") == [[[12], [16]], [[14], [18]]]


def test_collective_reduce_leaves_zeros_on_the_others():
    body = reducing("collective_reduce", "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>")
    assert run_on_grid(body, "[[@f], [@f]]", values(2)) == [[[12, 14], [16, 18]], [[0, 0], [0, 0]]]


def test_all_gather_keeps_the_order_of_the_group():
    body = """%0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
      replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> : (tensor<2x2xi32>) -> tensor<4x2xi32>"""
    expected = [[11, 12], [13, 14], [1, 2], [3, 4]]
    assert run_on_grid(body, "[[@f], [@f]]", values(2), "tensor<4x2xi32>") == [expected, expected]


def test_all_to_all_across_partitions():
    body = f"""%0 = "stablehlo.all_to_all"(%x) <{{split_dimension = 1 : i64, concat_dimension = 0 : i64,
      split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL}}}>
      : (tensor<2x2xi32>) -> tensor<4x1xi32>"""
    expected = [[[1], [3], [11], [13]], [[2], [4], [12], [14]]]
    assert run_on_grid(body, "[[@f, @f]]", values(2), "tensor<4x1xi32>") == expected


def test_collective_permute_moves_around_a_ring():
    body = """%0 = "stablehlo.collective_permute"(%x) <{source_target_pairs =
      dense<[[0, 1], [1, 2], [2, 0]]> : tensor<3x2xi64>}> : (tensor<2x2xi32>) -> tensor<2x2xi32>"""
    assert [found[0][0] for found in run_on_grid(body, "[[@f], [@f], [@f], [@f]]", values(4))] == [21, 1, 11, 0]


def test_collective_broadcast_takes_the_first_of_the_group():
    body = """%0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[2, 0]]> : tensor<1x2xi64>}>
      : (tensor<2x2xi32>) -> tensor<2x2xi32>"""
    assert [found[0][0] for found in run_on_grid(body, "[[@f], [@f], [@f]]", values(3))] == [21, 0, 21]


PERMUTED = '"stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[1, 2]]> : tensor<1x2xi64>}>'
SENT = '"stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[1, 2]]> : tensor<1x2xi64>}>'


@pytest.mark.parametrize("moved", [PERMUTED, SENT], ids=["permute", "broadcast"])
@pytest.mark.parametrize(("kind", "zero"), [("i8:f32, 0.5:3", 3), ("u8:f32, 0.5:128", 128)])
def test_a_process_without_a_sender_has_the_zero_point_of_quantized_values(moved: str, kind: str, zero: int):
    """The specification: quantize(0), the stored integer of the real number 0."""
    type_ = f"tensor<2x!quant.uniform<{kind}>>"
    program = parse_program(f"""func.func @main(%x: {type_}) -> {type_} {{
      %r = {moved} : ({type_}) -> {type_}
      return %r : {type_} }}""")
    given = np.array([5, 6], np.uint8 if kind.startswith("u") else np.int8)
    assert Interpreter(program).run_values([given])[0].tolist() == [zero, zero]


def test_collectives_in_a_loop_meet_turn_by_turn():
    summed = reducing("all_reduce", "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>")
    summed = summed.replace("%0", "%t").replace("(%x)", "(%v)")
    body = f"""%n = stablehlo.constant dense<0> : tensor<i32>
      %last = stablehlo.constant dense<3> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0, %m = stablehlo.while(%v = %x, %i = %n) : tensor<2x2xi32>, tensor<i32>
      cond {{
        %c = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        {summed}
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %t, %j : tensor<2x2xi32>, tensor<i32>
      }}"""
    assert [found[0][0] for found in run_on_grid(body, "[[@f], [@f]]", values(2))] == [48, 48]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param("return %x : tensor<i32>", "waits for others in stablehlo.all_reduce", id="the other is done"),
        pytest.param(
            """check.expect_eq_const %x, dense<5> : tensor<i32>
            return %x : tensor<i32>""",
            "@other: check.expect_eq_const",
            id="the other fails",
        ),
        pytest.param(
            """%t = stablehlo.after_all : !stablehlo.token
            %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 9, type = 3>,
              is_host_transfer = true}> : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)
            return %0#0 : tensor<i32>""",
            "waits for others|nothing comes on channel 9",
            id="both wait",
        ),
    ],
)
def test_a_run_that_cannot_end_is_an_error_at_once(other: str, message: str):
    text = f"""
    func.func private @waits(%x: tensor<i32>) -> tensor<i32> {{
      %0 = "stablehlo.all_reduce"(%x) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        stablehlo.return %a : tensor<i32>
      }}) : (tensor<i32>) -> tensor<i32>
      return %0 : tensor<i32>
    }}
    func.func private @other(%x: tensor<i32>) -> tensor<i32> {{
      {other}
    }}
    func.func @main() {{
      %x = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = "interpreter.run_parallel"(%x, %x) <{{programs = [[@waits], [@other]]}}>
        : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
      return
    }}"""
    started = time.monotonic()
    with pytest.raises(Exception, match=message):
        list(execute(parse_program(text)))
    assert time.monotonic() - started < 5


def test_a_group_outside_of_the_grid_is_an_error():
    text = f"""func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi32> {{
      {reducing("all_reduce", "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>")}
      return %0 : tensor<2x2xi32>
    }}"""
    with pytest.raises(ExecutionError, match=r"found process \(1, 0\) in a group, expected a grid of 1 replicas"):
        Interpreter(parse_program(text)).run_values(values(1))


def test_an_empty_infeed_is_an_error():
    with pytest.raises(ExecutionError, match="found an empty infeed"):
        ProcessGrid(1, 1).feed()


PROGRAM = """builtin.module {
  func.func private @f(%x: tensor<2xi32>) -> tensor<2xi32> {
    %y = interpreter.print %x : tensor<2xi32>
    %z = interpreter.probe %y, probe_id = "z" : tensor<2xi32>
    func.return %z : tensor<2xi32>
  }
  func.func @main() {
    %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    %r = "interpreter.run_parallel"(%c) <{programs = [[@f]]}> : (tensor<2xi32>) -> tensor<2xi32>
    check.expect_serialized_eq %r, probe_id = "z", iter = 0 : tensor<2xi32>
    func.return
  }
}
"""


def test_the_interpreter_dialect_reads_back_and_prints_whole_values():
    program = parse_program(PROGRAM)
    assert print_program(program) == PROGRAM
    assert print_program(parse_program(print_program(program, generic=True))) == PROGRAM
    written: list[str] = []
    list(execute(program, write=written.append))
    assert written == ["%x = tensor<2xi32> {\n  [1, 2]\n}\n"]


@pytest.mark.parametrize(
    ("attributes", "operands", "sentence"),
    [
        ("programs = []", "", "`programs` attribute cannot be empty"),
        ("programs = [[@f], [@f, @f]]", "", "Sizes of second dimension of `programs` should all match 1 but got 2"),
        ("programs = [[@g]]", "", 'Function "g" not found'),
        ("programs = [[@f]]", "%x, %x", "Number of inputs (2) should match the sum of the number of inputs of all"),
        ("programs = [[@f]], infeed = []", "%x", "infeed attribute is optional or should not be empty"),
        ("programs = [[@f]], infeed = [@main]", "%x", 'Function "main" should return 1 tensor but returns 0'),
    ],
)
def test_broken_grids_are_refused(attributes: str, operands: str, sentence: str):
    types = ", ".join(["tensor<i32>"] * operands.count("%"))
    text = f"""
    func.func private @f(%x: tensor<i32>) {{
      return
    }}
    func.func @main(%x: tensor<i32>) {{
      "interpreter.run_parallel"({operands}) <{{{attributes}}}> : ({types}) -> ()
      return
    }}"""
    with pytest.raises(VerifyException) as error:
        parse_program(text)
    assert sentence in str(error.value)
