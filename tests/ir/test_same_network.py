"""When two programs count as the same float network."""

from __future__ import annotations

import pytest

from zeropoint.ir.regions import regions_of
from zeropoint.ir.same_network import same_regions
from zeropoint.ir.text import parse_program

NETWORK = """
func.func @main(%x: tensor<2xf32> {zeropoint.name = "x"}) -> (tensor<2xf32> {zeropoint.name = "y"}) {
  %c = stablehlo.constant dense<NUMBER> : tensor<2xf32>
  STATED
  %0 = "quant.region"(IN, %c) ({
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %s = stablehlo.ADD %a, %b : tensor<2xf32>
    "quant.return"(%s) : (tensor<2xf32>) -> ()
  }) {logical_kernel = "add", input_specs = [SPEC, SPEC], output_specs = [SPEC]}
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
STATED = '%t = "quant.stats_ref"(%x) {statsKey = "x"} : (tensor<2xf32>) -> tensor<2xf32>'
TYPE = "!quant.uniform<i8:f32, 0.5>"


def network(number: str = "1.0", add: str = "add", spec: str = "f32", *, stated: bool = False):
    text = NETWORK.replace("NUMBER", number).replace("ADD", add).replace("SPEC", spec)
    text = text.replace("STATED", STATED if stated else "").replace("IN,", "%t," if stated else "%x,")
    return parse_program(text)


def test_specs_and_requests_for_statistics_change_no_float() -> None:
    first, second = network(stated=True), network(spec=TYPE)
    found = same_regions(first, second)
    assert found == dict(zip(regions_of(second), regions_of(first), strict=True))


@pytest.mark.parametrize("other", [{"number": "2.0"}, {"add": "multiply"}], ids=str)
def test_another_constant_or_op_is_another_network(other: dict[str, str]) -> None:
    assert same_regions(network(), network(**other)) is None


def test_another_order_of_operands_is_another_network() -> None:
    text = NETWORK.replace("NUMBER", "1.0").replace("SPEC", "f32").replace("STATED", "").replace("IN,", "%x,")
    turned = text.replace("stablehlo.ADD %a, %b", "stablehlo.subtract %b, %a")
    assert same_regions(parse_program(text.replace("ADD", "subtract")), parse_program(turned)) is None


def test_another_name_of_an_input_is_another_network() -> None:
    text = NETWORK.replace("NUMBER", "1.0").replace("SPEC", "f32").replace("STATED", "").replace("IN,", "%x,")
    text = text.replace("ADD", "add")
    assert same_regions(parse_program(text), parse_program(text.replace('"x"', '"z"'))) is None


RESCALE = """
  %r = "quant.region"(%x) ({
  ^bb0(%a: tensor<2xf32>):
    "quant.return"(%a) : (tensor<2xf32>) -> ()
  }) {logical_kernel = "rescale", input_specs = [!quant.uniform<i8:f32, 0.5>],
      output_specs = [!quant.uniform<i8:f32, 0.25>]} : (tensor<2xf32>) -> tensor<2xf32>
"""


def test_rescales_change_no_float() -> None:
    text = NETWORK.replace("NUMBER", "1.0").replace("SPEC", TYPE).replace("ADD", "add")
    first = network()
    second = parse_program(text.replace("STATED", RESCALE).replace("IN,", "%r,"))
    found = same_regions(first, second)
    assert found == {regions_of(second)[1]: regions_of(first)[0]}
