"""The interpreter itself: inputs and their errors, constants, freeing, tracing, threads."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from zeropoint.interp import InputError, Interpreter, ReferenceEngine, run
from zeropoint.interp.control import INLINED
from zeropoint.interp.table import EITHER, QUANTIZED, RULES
from zeropoint.ir.fxpmath import FxpMath
from zeropoint.ir.inlining import NoBody
from zeropoint.ir.quant import Quant
from zeropoint.ir.stablehlo import ConstantOp, StableHlo
from zeropoint.ir.testing import Check
from zeropoint.ir.text import parse_program

ADD = """
func.func @main(%a: tensor<2x3xf32> {zeropoint.name = "image"}, %b: tensor<2x3xf32> {zeropoint.name = "mask"})
    -> (tensor<2x3xf32> {zeropoint.name = "sum"}, tensor<2x3xf32> {zeropoint.name = "product"}) {
  %0 = stablehlo.add %a, %b : tensor<2x3xf32>
  %1 = stablehlo.multiply %a, %b : tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}"""
ONES = np.ones((2, 3), np.float32)


def test_inputs_and_outputs_go_by_name():
    outputs = run(parse_program(ADD), {"mask": ONES * 2, "image": ONES * 3})
    assert {name: array[0, 0] for name, array in outputs.items()} == {"sum": 5, "product": 6}


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"image": ONES}, r"found inputs image; expected image: tensor<2x3xf32>, mask: tensor<2x3xf32>"),
        ({"image": ONES, "mask": ONES, "x": ONES}, r"found inputs image, mask, x; expected image"),
        ({}, r"found no inputs; expected image"),
        (
            {"image": ONES, "mask": np.ones((3, 2), np.float32)},
            r"input mask: found shape 3x2, expected 2x3 \(tensor<2x3xf32>\); reshape it",
        ),
        (
            {"image": ONES.astype(np.float64), "mask": ONES},
            r"input image: found dtype float64, expected float32 \(tensor<2x3xf32>\); convert it with .astype",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_told_what_does(inputs: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        run(parse_program(ADD), inputs)


@pytest.mark.parametrize(
    ("element", "dtype", "least", "greatest"),
    [
        ("i4", np.int8, -8, 7),
        ("ui4", np.uint8, 0, 15),
        ("!quant.uniform<i8<-127:126>:f32, 1.0>", np.int8, -127, 126),
        ("!quant.uniform<u4:f32, 1.0>", np.uint8, 0, 15),
    ],
)
def test_integers_outside_of_the_type_of_an_input_are_refused(element: str, dtype: type, least: int, greatest: int):
    kind = f"tensor<2x{element}>"
    program = Interpreter(parse_program(f"func.func @main(%x: {kind}) -> {kind} {{\n  return %x : {kind}\n}}"))
    ends = np.array([least, greatest], dtype)
    assert program.run_values([ends])[0].tolist() == [least, greatest]
    with pytest.raises(InputError, match=rf"found {greatest + 1}, expected {least}\.\.{greatest}; clip it"):
        program.run_values([np.array([0, greatest + 1], dtype)])


def test_values_by_position_are_counted():
    with pytest.raises(InputError, match="found 1 arrays, expected 2: image"):
        Interpreter(parse_program(ADD)).run_values([ONES])


def test_a_quantized_input_takes_storage_integers():
    text = """
    func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32> {
      %0 = stablehlo.uniform_dequantize %x : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    program = parse_program(text)
    assert run(program, {"arg0": np.array([2, -2], np.int8)})["result0"].tolist() == [1, -1]
    with pytest.raises(InputError, match="found dtype float32, expected int8"):
        run(program, {"arg0": np.ones(2, np.float32)})


def test_a_dynamic_dimension_takes_any_size():
    text = """
    func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
      %0 = stablehlo.add %x, %x : tensor<?x2xf32>
      return %0 : tensor<?x2xf32>
    }"""
    assert run(parse_program(text), {"arg0": np.ones((5, 2), np.float32)})["result0"].shape == (5, 2)
    with pytest.raises(InputError, match=r"found shape 5x3, expected \?x2 \(tensor<\?x2xf32>\)"):
        run(parse_program(text), {"arg0": np.ones((5, 3), np.float32)})


def test_every_op_without_semantics_is_named_with_its_place():
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "quant.region"(%x) ({
        ^bb0(%a: tensor<2xf32>):
          "quant.return"(%a) : (tensor<2xf32>) -> ()
      }) {input_specs = [f32], output_specs = [f32], logical_kernel = "none"} : (tensor<2xf32>) -> tensor<2xf32>
      %1 = func.call @missing(%0) : (tensor<2xf32>) -> tensor<2xf32> loc("block1/call")
      return %1 : tensor<2xf32>
    }
    func.func private @missing(tensor<2xf32>) -> tensor<2xf32>"""
    with pytest.raises(
        NoBody, match=r"func\.call 'block1/call': found @missing without a body, expected a function with"
    ):
        Interpreter(parse_program(text))


def test_every_op_of_the_dialects_has_a_rule():
    known = {*EITHER, *RULES, *QUANTIZED, *INLINED, ConstantOp}
    terminators = {"stablehlo.return", "quant.return"}
    for dialect in (Check, FxpMath, Quant, StableHlo):
        missing = [op.name for op in dialect.operations if op not in known and op.name not in terminators]
        assert not missing


def test_what_follows_from_constants_alone_is_computed_once():
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = stablehlo.add %c, %c : tensor<f32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %2 = stablehlo.multiply %x, %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    traced: list[str] = []
    x = np.arange(4, dtype=np.float32)
    outputs = run(parse_program(text), {"arg0": x}, trace=lambda op, results: traced.append(op.name))
    assert outputs["result0"].tolist() == [0, 4, 8, 12]
    assert traced == ["stablehlo.multiply"]


def test_a_value_is_freed_after_its_last_use():
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %x : tensor<4xf32>
      %unused = stablehlo.multiply %x, %x : tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      %2 = stablehlo.negate %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    alive: list[weakref.ref] = []
    counts: list[int] = []

    def trace(op, results) -> None:
        # Before this op's own result: those of earlier ops that are still held.
        counts.append(sum(ref() is not None for ref in alive))
        alive.extend(weakref.ref(result) for result in results)

    run(parse_program(text), {"arg0": np.ones(4, np.float32)}, trace=trace)
    assert counts == [0, 1, 1, 1]


def test_a_program_may_return_its_input_and_a_constant():
    text = """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %c = stablehlo.constant dense<[5.0, 6.0]> : tensor<2xf32>
      return %x, %c : tensor<2xf32>, tensor<2xf32>
    }"""
    outputs = run(parse_program(text), {"arg0": np.ones(2, np.float32)})
    assert [array.tolist() for array in outputs.values()] == [[1, 1], [5, 6]]


def test_scalars_are_arrays_of_rank_zero():
    text = """
    func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<i1> {
      %0 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      return %0 : tensor<i1>
    }"""
    result = run(parse_program(text), {"arg0": np.float32(1), "arg1": np.float32(2)})["result0"]
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result.item() is True


def test_inputs_are_left_as_they_are():
    x, y = ONES.copy(), ONES.copy()
    run(parse_program(ADD), {"image": x, "mask": y})
    np.testing.assert_array_equal(x, ONES)
    np.testing.assert_array_equal(y, ONES)


def test_one_interpreter_serves_several_threads():
    interpreter = Interpreter(parse_program(ADD))

    def once(i: int) -> float:
        return float(interpreter({"image": ONES * i, "mask": ONES})["sum"][0, 0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(once, range(50))) == [i + 1 for i in range(50)]


def test_samples_are_run_as_they_are_asked_for():
    interpreter = Interpreter(parse_program(ADD))
    samples = ({"image": ONES * i, "mask": ONES} for i in range(1000000))
    results = interpreter.run_samples(samples)
    assert [next(results)["sum"][0, 0] for _ in range(3)] == [1, 2, 3]


def test_the_reference_engine_prepares_an_interpreter():
    prepared = ReferenceEngine().prepare(parse_program(ADD))
    assert prepared({"image": ONES, "mask": ONES})["product"].tolist() == ONES.tolist()
