"""The native dialect: text there and back, and one rejection for each sentence of its verifier."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.native import BorderOp, KernelOp
from zeropoint.ir.text import parse_program, print_program

TENSOR, MEMREF = "tensor<2xi8>", 'memref<2xi8, strided<[4], offset: 1>, "arena">'


def kernel(
    operands: str = "%x",
    segments: str = "1, 0",
    kind: str = "nest",
    argument: str = TENSOR,
    yielded: str = TENSOR,
    end: str = "native.yield",
    types: str = f"({TENSOR}) -> {TENSOR}",
) -> str:
    return f"""
    func.func @main(%x: {TENSOR}, %a: {MEMREF}, %b: {MEMREF}) {{
      %r = "native.kernel"({operands}) <{{kind = "{kind}", operandSegmentSizes = array<i32: {segments}>}}> ({{
      ^bb0(%y: {argument}):
        %z = "test.op"() : () -> {yielded}
        "{end}"(%z) : ({yielded}) -> ()
      }}) : {types}
      func.return
    }}
    """


def on_memrefs(segments: str = "1, 1", types: str = f"({MEMREF}, {MEMREF}) -> ()", operands: str = "%a, %b") -> str:
    return kernel(operands, segments, types=types).replace("%r = ", "")


@pytest.mark.parametrize("text", [kernel(), on_memrefs()])
def test_kernels_on_tensors_and_on_memrefs_are_printed_and_parsed(text: str) -> None:
    program = parse_program(text, allow_unregistered=True)
    printed = print_program(program)
    assert print_program(parse_program(printed, allow_unregistered=True)) == printed
    (op,) = (op for op in program.entry.ops if isinstance(op, KernelOp))
    assert (op.kind.data, op.reasons, op.row) == ("nest", [], None)


def test_reasons_and_rows_are_printed_and_parsed() -> None:
    text = kernel(kind="rows").replace('kind = "rows"', 'declined = ["sum: i16"], kind = "rows", row = 3 : i64')
    program = parse_program(text, allow_unregistered=True)
    assert 'declined = ["sum: i16"]' in print_program(program)
    (op,) = (op for op in program.entry.ops if isinstance(op, KernelOp))
    assert op.reasons == ["sum: i16"]
    assert op.row is not None
    assert op.row.value.data == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            kernel(kind="rows").replace('kind = "rows"', 'declined = [5 : i8], kind = "rows"'),
            r"found reasons \[5 : i8\], expected strings",
        ),
        (kernel(kind="magic"), "found kind 'magic', expected one of contraction, product, "),
        (
            kernel("%x, %x", "1, 1", types=f"({TENSOR}, {TENSOR}) -> {TENSOR}"),
            "found outputs and results, expected memrefs or tensors",
        ),
        (kernel(end="test.end"), "has a body without 'native.yield' at its end"),
        (
            kernel(argument="tensor<3xi8>"),
            r"has arguments \(tensor<3xi8>\), expected those of its operands \(tensor<2xi8>\)",
        ),
        (
            kernel(yielded="tensor<2xi16>"),
            r"has yielded values \(tensor<2xi16>\), expected those of its results \(tensor<2xi8>\)",
        ),
        (on_memrefs(types=f"({TENSOR}, {MEMREF}) -> ()", operands="%x, %b"), "found tensors beside outputs"),
        (
            on_memrefs().replace('"arena"', '"input"'),
            'writes to space "input", expected "arena", "carried" or "output"',
        ),
    ],
)
def test_other_kernels_are_refused(text: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse_program(text, allow_unregistered=True)


def border(shape: str = "1x2x2x8", sides: str = "1, 1, 0, 2") -> str:
    type_ = f'memref<{shape}xi8, "arena">'
    return f"""
    func.func @main(%a: {type_}) {{
      "native.border"(%a) <{{sides = array<i64: {sides}>, value = -3 : i64}}> : ({type_}) -> ()
      func.return
    }}
    """


def test_a_border_is_printed_and_parsed() -> None:
    program = parse_program(border())
    printed = print_program(program)
    assert print_program(parse_program(printed)) == printed
    (op,) = (op for op in program.entry.ops if isinstance(op, BorderOp))
    assert op.widths == (1, 1, 0, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (border(sides="1, 1, 1"), r"found sides \(1, 1, 1\), expected \(top, left, bottom, right\), none negative"),
        (border(sides="1, 1, 1, -1"), r"found sides \(1, 1, 1, -1\)"),
        (border(shape="2x8"), 'found memref<2x8xi8, "arena">, expected an image of rank 4'),
    ],
)
def test_other_borders_are_refused(text: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse_program(text)
