"""What `lower-quant-ops` makes runs, to the same bits as the casts that it replaces: scalars, ranked, unranked."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ir.quant.quant_texts import lowerable
from zeropoint.errors import Error
from zeropoint.interp import execute
from zeropoint.ir.quant.evaluate import dequantize, element_parameters, expressed_dtype, quantize
from zeropoint.ir.text import parse_program
from zeropoint.numerics.profile import PROFILES
from zeropoint.quant_passes.lower_quant_ops import lower_quant_ops

HARD = (0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -128.5, 1e9, -1e9, np.inf, -np.inf, np.nan)


def quantized_type(case):
    """The quantized type in a case's header."""
    function = parse_program(case.text).entry.parent_op()
    ends = (function.function_type.inputs.data[0], function.function_type.outputs.data[0])
    return getattr(held := ends[case.op == "qcast"], "element_type", held)


def operand(case, quantized, numbers):
    """Ties, bounds and what is beyond, NaN; or storage integers."""
    storage, count = quantized.storage, int(np.prod(case.sizes))
    if case.op == "dcast":
        stored = [numbers.choice([storage.minimum, storage.maximum, 0, 1, 2, 3]) for _ in range(count)]
        return np.array(stored, np.int64).clip(*storage.range).astype(storage.dtype).reshape(case.sizes)
    scale = float(quantized.scales.reshape(-1)[0])
    reals = [
        numbers.choice(HARD) * scale if numbers.random() < 0.5 else numbers.uniform(-300, 300) for _ in range(count)
    ]
    with np.errstate(over="ignore"):
        return np.array(reals).astype(expressed_dtype(quantized)).reshape(case.sizes)


def is_poison(reals, quantized):
    """Whether upstream's conversion has a number that the storage type does not hold."""
    with np.errstate(all="ignore"):
        scales, points = (found.astype(reals.dtype) for found in element_parameters(reals.shape, quantized))
        stored = (reals / scales + points).astype(np.float64)
    least, greatest = quantized.storage.range
    return not ((stored > least - 1) & (stored < greatest + 1)).all()


@settings(max_examples=100)
@given(case=lowerable(), profile=st.sampled_from(list(PROFILES)), numbers=st.randoms(use_true_random=False))
def test_casts_and_what_they_are_lowered_to_compute_what_the_type_says(case, profile, numbers):
    quantized = quantized_type(case)
    array = operand(case, quantized, numbers)
    program = parse_program(case.text)
    if case.op == "qcast":
        assume(profile != "upstream" or not is_poison(array, quantized))
        expected = quantize(array, quantized, profile)
    else:
        expected = dequantize(array, quantized)
    (outcome,) = execute(lower_quant_ops(program, profile), [array])
    np.testing.assert_array_equal(outcome.values[0], expected, case.text)
    assert outcome.values[0].dtype == expected.dtype
    if case.op == "dcast" or profile == "float32-rne":
        (outcome,) = execute(program, [array])
        np.testing.assert_array_equal(outcome.values[0], expected, case.text)


def run_text(text, *arrays):
    (outcome,) = execute(parse_program(text), list(arrays))
    return outcome.values


# Predicates 0 to 15 of (1, 2), (2, 1), (1, 1), (1, NaN): MLIR's page of the arith dialect.
PREDICATES = {
    "false": "0000", "oeq": "0010", "ogt": "0100", "oge": "0110", "olt": "1000", "ole": "1010", "one": "1100",
    "ord": "1110", "ueq": "0011", "ugt": "0101", "uge": "0111", "ult": "1001", "ule": "1011", "une": "1101",
    "uno": "0001", "true": "1111",
}  # fmt: skip


@pytest.mark.parametrize("predicate", PREDICATES)
def test_floats_compare_as_their_predicate_says(predicate):
    text = f"""func.func @f(%a: f32, %b: f32) -> i1 {{
      %0 = arith.cmpf {predicate}, %a, %b : f32
      return %0 : i1
    }}"""
    pairs = np.array([(1, 2), (2, 1), (1, 1), (1, np.nan)], np.float32)
    found = [int(run_text(text, *pair)[0]) for pair in pairs]
    assert "".join(str(bit) for bit in found) == PREDICATES[predicate]


UNRANKED = """func.func @f(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>> {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>>
  return %0 : tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>>
}"""
BLOCKS = """func.func @f(%x: tensor<6x?xf32>) -> tensor<6x?x!quant.uniform<i8:f32:{1:2}, {{2.0:3}}>> {
  %0 = quant.qcast %x : tensor<6x?xf32> to tensor<6x?x!quant.uniform<i8:f32:{1:2}, {{2.0:3}}>>
  return %0 : tensor<6x?x!quant.uniform<i8:f32:{1:2}, {{2.0:3}}>>
}"""


@pytest.mark.parametrize(
    ("text", "shape", "sentence"),
    [
        (UNRANKED, (2,), "found a tensor of 1 dimensions, expected at least 2"),
        (UNRANKED, (1, 3), r"found a tensor of shape \[1, 3\] to be reshaped to \[1, 2, 1\]"),
        (BLOCKS, (6, 4), r"found an operand of shape \[1, 1\], expected \[1, 2\] for loops of sizes \[6, 4\]"),
    ],
)
def test_a_size_that_the_parameters_do_not_fit_is_refused_after_lowering_too(text, shape, sentence):
    program, array = parse_program(text), np.zeros(shape, np.float32)
    for refused, found in ((program, "found an array of shape"), (lower_quant_ops(program), sentence)):
        with pytest.raises(Error, match=found) as error:
            list(execute(refused, [array]))
        assert str(error.value.position)


def test_tensors_are_cast_and_read():
    text = """func.func @f(%x: tensor<*xf32>) -> (f32, index, tensor<*xf32>) {
      %one = arith.constant 1 : index
      %a = tensor.cast %x : tensor<*xf32> to tensor<2x?xf32>
      %b = tensor.extract %a[%one, %one] : tensor<2x?xf32>
      %c = tensor.dim %a, %one : tensor<2x?xf32>
      %d = tensor.cast %a : tensor<2x?xf32> to tensor<*xf32>
      return %b, %c, %d : f32, index, tensor<*xf32>
    }"""
    found = run_text(text, array := np.arange(6, dtype=np.float32).reshape(2, 3))
    assert (found[0], found[1], found[2].tolist()) == (4.0, 3, array.tolist())
    with pytest.raises(Error, match=r"found a tensor of shape \[3, 2\], expected \[2, \?\]"):
        run_text(text, array.reshape(3, 2))
    with pytest.raises(Error, match=r"found index \[1, 1\] of a tensor of shape \[2, 1\]"):
        run_text(text, array.reshape(2, 3)[:, :1])


@pytest.mark.parametrize(
    ("op", "negative"), [("maximumf", [False, False, False, True]), ("minimumf", [True, True, False, True])]
)
def test_extremes_order_the_zeros(op, negative):
    text = f"""func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = arith.{op} %x, %y : tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    x, y = np.array([0.0, -0.0, 0.0, -0.0], np.float32), np.array([-0.0, 0.0, 0.0, -0.0], np.float32)
    assert np.signbit(run_text(text, x, y)[0]).tolist() == negative


REDUCE = """
func.func @main(%x: tensor<2xCOUNTxf32>) -> tensor<2xf32> {
  %c = arith.constant START : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %r = linalg.reduce ins(%x : tensor<2xCOUNTxf32>) outs(%f : tensor<2xf32>) dimensions = [1]
  (%a: f32, %b: f32) {
    %m = arith.OP %b, %a : f32
    linalg.yield %m : f32
  }
  func.return %r : tensor<2xf32>
}
"""


@pytest.mark.parametrize(("op", "start"), [("maximumf", "0xFF800000"), ("minimumf", "0x7F800000")])
def test_extremes_of_reductions_order_zeros_and_keep_the_start_if_there_is_nothing(op, start):
    def results(numbers):
        array = np.array(numbers, np.float32).reshape(2, -1)
        text = REDUCE.replace("OP", op).replace("START", start).replace("COUNT", str(array.shape[1]))
        return run_text(text, array)[0]

    assert np.signbit(results([0.0, -0.0, -0.0, 0.0])).tolist() == [op == "minimumf"] * 2
    assert results([]).tolist() == [-np.inf if op == "maximumf" else np.inf] * 2
    assert results([3.0, 1.0, -2.0, 5.0]).tolist() == ([3.0, 5.0] if op == "maximumf" else [1.0, -2.0])
