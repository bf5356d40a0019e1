"""What the parser refuses in upstream's words, what it takes of other dialects, and the places that ops get."""

from __future__ import annotations

import re

import pytest
from xdsl.utils.exceptions import ParseError

from oracle import mlir
from zeropoint.ir.locations import TextPosition, describe, is_given, text_position
from zeropoint.ir.tensors import UnheldType
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import InvalidProgram
from zeropoint.limits import LimitExceeded

NO_DIALECT = (
    "operation being parsed with an unregistered dialect. If this is intended, please use -allow-unregistered-dialect "
    "with the MLIR tool used"
)
# (text, line and column where it is refused, sentence)
UNKNOWN = [
    ("this is no op", (1, 1), "custom op 'this' is unknown (tried 'builtin.this' as well)"),
    ("func.func @f() {\n  this is\n}", (2, 3), "custom op 'this' is unknown (tried 'func.this' as well)"),
    ("func.func @f() {\n  test.this\n}", (2, 3), "Dialect `test' not found for custom op 'test.this'"),
    ("func.func @f() {\n  quant.this\n}", (2, 3), "custom op 'quant.this' is unknown"),
    ('func.func @f() {\n  "this"() : () -> ()\n}', (2, 9), NO_DIALECT),
    ('func.func @f() {\n  "test.this"() : () -> ()\n}', (2, 14), NO_DIALECT),
    (
        'func.func @f(%x: f32) {\n  %0 = "quant.this"(%x) : (f32) -> f32\n}',
        (2, 8),
        "unregistered operation 'quant.this' found in dialect ('quant') that does not allow unknown operations",
    ),
    ("!alias = !quant.this", (1, 17), "unknown quantized type this"),
    ("!alias = !quant.this<i8:f32>", (1, 17), "unknown quantized type this"),
    ("!alias = !quant<this<i8:f32>>", (1, 17), "unknown quantized type this"),
    ("!alias = tensor<2x!quant.__>", (1, 26), "unknown quantized type __"),
]


def refusal(text: str, **options: bool) -> tuple[str, tuple[int, int]]:
    with pytest.raises(ParseError) as error:
        parse_program(text, **options)
    before = text[: error.value.span.start]
    return error.value.msg, (before.count("\n") + 1, len(before) - before.rfind("\n"))


@pytest.mark.parametrize(("text", "place", "sentence"), UNKNOWN)
def test_a_name_that_no_dialect_has_is_refused_as_upstream_does(
    text: str, place: tuple[int, int], sentence: str
) -> None:
    assert refusal(text) == (sentence, place)
    with pytest.raises(mlir.Rejected) as theirs:
        mlir.parse(text)
    assert theirs.value.sentences[0].strip() == sentence


FOREIGN = """func.func @f(%x: !test.kind<"a">) {
  %0 = "test.op"(%x) {a = #test.a<1>} : (!test.kind<"a">) -> tensor<2x!quant.uniform<i8:f32, 1.0>>
  return
}"""


def test_foreign_ops_types_and_attributes_are_taken_where_they_are_allowed() -> None:
    assert refusal(FOREIGN)[0].startswith("'test.kind' is not registered")
    printed = print_program(parse_program(FOREIGN, allow_unregistered=True))
    assert print_program(parse_program(printed, allow_unregistered=True)) == printed
    theirs = mlir.canonical(FOREIGN, allow_unregistered=True)
    assert print_program(parse_program(theirs, allow_unregistered=True)).replace("%x", "%arg0") == printed.replace(
        "%x", "%arg0"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(text, sentence) for text, _, sentence in UNKNOWN if "quant" in text or "custom op" in sentence],
)
def test_our_own_dialects_allow_no_unknown_names_even_then(text: str, sentence: str) -> None:
    assert refusal(text, allow_unregistered=True)[0] == sentence


def test_an_op_without_a_location_gets_its_place_which_is_not_printed() -> None:
    text = """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32> loc("named")
  %1 = "stablehlo.abs"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}"""
    program = parse_program(text, "a.mlir")
    named, generic, returned = program.entry.ops
    assert text_position(named) is None
    assert is_given(named.location)
    assert text_position(generic) == TextPosition("a.mlir", 3, 8, ("1",))
    assert text_position(returned) == TextPosition("a.mlir", 4, 3)
    assert describe(generic) == "stablehlo.abs"
    assert text_position(program.clone().entry.last_op) == TextPosition("a.mlir", 4, 3)
    assert re.findall(r"loc\(.*?\)", print_program(program, locations=True)) == ['loc("named")']


def test_an_op_that_looks_out_of_a_region_is_refused_in_upstreams_sentence() -> None:
    text = """func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.region"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = stablehlo.add %a, %y : tensor<4xf32>
    "quant.return"(%1) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], output_specs = [f32], logical_kernel = "k"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    with pytest.raises(InvalidProgram, match=r"'stablehlo\.add' op using value defined outside the region") as error:
        parse_program(text)
    assert error.value.note is not None
    assert (error.value.op.name, error.value.note[0].name) == ("stablehlo.add", "quant.region")


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        ('"quant.qcast"(%x, %x) : (f32, f32) -> !quant.uniform<i8:f32, 1.0>', "requires a single operand"),
        ('"quant.qcast"() : () -> !quant.uniform<i8:f32, 1.0>', "requires a single operand"),
        ('"quant.dcast"(%x) : (f32) -> ()', "requires one result"),
        ('"stablehlo.clamp"(%t, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>', "expected 3 operands, but found 2"),
        (
            '"stablehlo.constant"(%t) {value = dense<1.0> : tensor<f32>} : (tensor<f32>) -> tensor<f32>',
            "requires zero operands",
        ),
    ],
)
def test_a_wrong_number_of_operands_or_results_is_refused_in_upstreams_sentence(op: str, sentence: str) -> None:
    text = f"func.func @f(%x: f32, %t: tensor<f32>) {{\n  {'' if '-> ()' in op else '%0 = '}{op}\n  return\n}}"
    with pytest.raises(InvalidProgram) as error:
        parse_program(text)
    with pytest.raises(mlir.Rejected) as theirs:
        mlir.parse(text)
    assert theirs.value.sentences[0].endswith(f"op {sentence}")
    assert str(error.value).endswith(theirs.value.sentences[0])


def test_a_string_that_does_not_end_is_refused_at_once() -> None:
    with pytest.raises(ParseError, match="End of file reached before closing string literal"):
        parse_program('"' + "a" * 200)


OUTSIDE_ASCII = """func.func @main(%C3A9: tensor<2xf32> {zeropoint.name = "\\C3\\A9"} loc("\\C3\\A9"))
    -> tensor<2xf32> {
  %E697A5 = stablehlo.abs %C3A9 : tensor<2xf32> loc(#loc1)
  func.return %E697A5 : tensor<2xf32>
}
#loc1 = loc("\\E6\\97\\A5")"""


def test_names_outside_ascii_are_read_as_they_are_printed() -> None:
    program = parse_program(OUTSIDE_ASCII)
    assert [port.name for port in program.inputs] == ["é"]
    assert next(describe(op) for op in program.entry.ops) == "stablehlo.abs '日'"
    printed = print_program(program, locations=True, names=True)
    assert 'loc("\\C3\\A9")' in printed
    assert "%E697A5 = stablehlo.abs %C3A9" in printed
    assert print_program(parse_program(printed), locations=True, names=True) == printed
    mlir.parse(printed)


def test_a_string_that_is_no_utf_8_stays_bytes() -> None:
    text = 'builtin.module attributes {a = "\\FF\\00"} {\n}'
    assert '"\\FF\\00"' in print_program(parse_program(text))


@pytest.mark.parametrize(
    ("first", "rest"),
    [("#a0 = [1, 1]", "#a{0} = [#a{1}, #a{1}]"), ("!a0 = tuple<i1, i1>", "!a{0} = tuple<!a{1}, !a{1}>")],
)
def test_aliases_that_double_from_one_to_the_next_are_refused(first: str, rest: str) -> None:
    lines = [first, *(rest.format(n, n - 1) for n in range(1, 40))]
    with pytest.raises(LimitExceeded, match="stands for more than 100000 parts, expected fewer"):
        parse_program("\n".join([*lines, "func.func @main() { return }"]))


def test_a_profile_that_is_no_string_is_refused() -> None:
    program = parse_program("module attributes {zeropoint.profile = 7} { func.func @main() { return } }")
    with pytest.raises(UnheldType, match=r"attribute zeropoint\.profile: found 7 : i64, expected a string"):
        assert program.profile


@pytest.mark.parametrize("written", ["5 x 1 x f32", "5x 1 xf32", "5 x1x f32", "? x 0 x f32", "f32"])
def test_spaces_may_stand_in_a_shape_as_upstream_takes_them(written: str) -> None:
    text = "func.func @main(%x: tensor<WRITTEN>) -> tensor<WRITTEN> {\n  return %x : tensor<WRITTEN>\n}\n"
    given, plain = text.replace("WRITTEN", written), text.replace("WRITTEN", written.replace(" ", ""))
    assert print_program(parse_program(given)) == print_program(parse_program(plain))
    mlir.require()
    assert mlir.canonical(given) == mlir.canonical(plain)
