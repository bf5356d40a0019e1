"""Which line of a text an `expected-error` comment speaks of, and what meets it."""

from __future__ import annotations

import pytest

from oracle import mlir
from zeropoint import opt
from zeropoint.diagnostics import Diagnostic, Expectation, differences, expectations

CAST = "%0 = quant.qcast %x : f32 to f32"
SENTENCE = "result #0 must be scalar or tensor of quantized type"


def program(*body: str) -> str:
    return "\n".join(["func.func @f(%x: f32) {", *body, "  return", "}"])


def problems(text: str, passes: str = "", **reading: bool) -> list[str]:
    return opt.verify_diagnostics(text, opt.parse_passes(passes), opt.Reading("a.mlir", **reading))


@pytest.mark.parametrize(
    "body",
    [
        (f"{CAST}  // expected-error {{{{{SENTENCE}}}}}",),
        (f"// expected-error@+1 {{{{{SENTENCE}}}}}", CAST),
        (f"// expected-error @+2 {{{{{SENTENCE}}}}}", "", CAST),
        (f"// expected-error@below {{{{{SENTENCE}}}}}", CAST),
        (CAST, f"// expected-error@above {{{{{SENTENCE}}}}}"),
        (CAST, f"// expected-error@-1 {{{{{SENTENCE}}}}}  "),
        (r"// expected-error-re@+1 {{op result #{{[0-9]+}} must be {{(scalar|vector)}} or tensor of}}", CAST),
    ],
)
def test_a_comment_speaks_of_its_line(body: tuple[str, ...]) -> None:
    assert problems(program(*body)) == []


@pytest.mark.parametrize(
    "body",
    [
        (f"// expected-error {{{{{SENTENCE}}}}}", CAST),
        (f"// expected-error@+2 {{{{{SENTENCE}}}}}", CAST),
        (f"// expected-error@unknown {{{{{SENTENCE}}}}}", CAST),
        (f"// expected-warning@below {{{{{SENTENCE}}}}}", CAST),
        (r"// expected-error@below {{result #{{[0-9]+}} must be}}", CAST),
        (r"// expected-error-re@below {{result #{{[a-z]+}} must be}}", CAST),
    ],
)
def test_an_error_of_another_line_kind_or_text_is_missing_and_a_surprise(body: tuple[str, ...]) -> None:
    missing, surprise = problems(program(*body))
    assert missing.startswith("a.mlir:2: expected ")
    assert surprise.startswith("a.mlir:3: unexpected error: quant.qcast: 'quant.qcast' op result #0 must be")


def test_below_and_above_look_past_other_comments() -> None:
    found = expectations(
        "// expected-error@below {{a}}\n// expected-note@below {{b}}\nx\n// expected-error@above {{c}}\n"
    )
    assert [(expected.kind, expected.line, expected.text) for expected in found] == [
        ("error", 3, "a"),
        ("note", 3, "b"),
        ("error", 3, "c"),
    ]


def test_one_comment_expects_one_error() -> None:
    expected = [Expectation("error", 3, "x", 2)]
    found = [Diagnostic("error", 3, "xy"), Diagnostic("error", 3, "yx")]
    assert list(differences("a", expected, found)) == ["a:3: unexpected error: yx"]


def test_an_error_that_no_line_is_at_fault_for_is_met_on_any_line_and_at_no_place() -> None:
    text = "{}\nfunc.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  {}return %x : tensor<4xf32>\n}}"
    op = "%0 = stablehlo.logistic %x : tensor<4xf32>\n  "
    for comment in ("// expected-error {{found ranges}}", "// expected-error@unknown {{found ranges}}"):
        announced = text.format(comment, op).replace("return %x", "return %0")
        assert problems(announced, "fuse,propagate{ranges=nonsense}") == []


def test_the_line_of_what_a_pass_refuses_survives_the_passes_before_it() -> None:
    text = """func.func @f(%q: !quant.uniform<i8:f32, 1.0>, %x: f32) -> (f32, !quant.any<i8:f32>) {
  %0 = quant.dcast %q : !quant.uniform<i8:f32, 1.0> to f32
  // expected-error@below {{pass 'lower-quant-ops': quant.qcast: found type !quant.any<i8:f32>}}
  %1 = quant.qcast %x : f32 to !quant.any<i8:f32>
  return %0, %1 : f32, !quant.any<i8:f32>
}"""
    assert problems(text, "canonicalize-quant,normalize-quant-types,lower-quant-ops") == []


def test_of_two_wrong_ops_the_first_is_reported_as_upstream_does() -> None:
    text = program(CAST, "%1 = quant.dcast %x : f32 to f32")
    assert [problem.split(": ")[0] for problem in problems(text)] == ["a.mlir:2"]


def test_every_function_reports_its_first_wrong_op_as_upstream_does() -> None:
    right = "func.func private @g(f32)"
    text = "\n".join([program(CAST), right, program(CAST, CAST.replace("%0", "%1")).replace("@f", "@h")])
    assert [problem.split(": ")[0] for problem in problems(text)] == ["a.mlir:2", "a.mlir:7"]
    mlir.require()
    assert sorted(error["line"] for error in mlir.ORACLE.ask("module", text)["errors"]) == [2, 7]


def test_isolation_has_its_note() -> None:
    text = """func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note@below {{required by region isolation constraints}}
  %0 = "quant.region"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    // expected-error@below {{'test.bar' op using value defined outside the region}}
    %1 = "test.bar"(%a, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "quant.return"(%1) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], output_specs = [f32], logical_kernel = "k"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    assert problems(text, allow_unregistered=True) == []
    assert len(problems(text)) == 3  # test.bar is refused, the two are missing


def test_lines_are_those_of_the_file_in_every_part_of_it() -> None:
    two = f"{program(CAST + f'  // expected-error {{{{{SENTENCE}}}}}')}\n// -----\n{program(CAST)}"
    (problem,) = problems(two, split=True)
    assert problem.startswith(f"a.mlir:{two.split(chr(10)).index(CAST) + 1}: unexpected error: ")
