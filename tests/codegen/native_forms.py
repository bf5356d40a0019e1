"""Which ops native code has a form for, by element type: the table of docs/native.md. Run it to write that anew."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path

from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.codegen.controlled import CONTROLLED
from zeropoint.codegen.group import MOVED, PATTERNS, UPDATES
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.schedule.nest import EXPRESSIONS
from zeropoint.expand.expand import EXPANSIONS
from zeropoint.frontend import onnx
from zeropoint.ir import chlo
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram, verify
from zeropoint.quant_passes.legalize_chlo import LEGALIZATIONS

PAGE = Path(__file__).parents[2] / "docs" / "native.md"
BEGIN, END = "<!-- what has a native form: written by tests/codegen/native_forms.py -->\n", "<!-- end -->\n"

BOOLEANS, INTEGERS = ["i1"], [f"{sign}i{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
GROUPS = {"booleans": BOOLEANS, "integers": INTEGERS, "f32": ["f32"], "f64": ["f64"], "f16": ["f16"], "bf16": ["bf16"]}
IMPORTED = [*BOOLEANS, *INTEGERS, "f32"]
"""The element types that the ONNX importer makes."""

Made = Callable[[str], str]
"""The text of a program of one op, for an element type."""


def _main(arguments: str, result: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\nfunc.return %y : {result}\n}}"


def _plain(op: str, count: int, result: str = "", before: str = "") -> Made:
    def made(e: str) -> str:
        names = [f"%x{n}" for n in range(count)]
        tensor, out = f"tensor<4x{e}>", f"tensor<4x{result or e}>"
        types = ", ".join([tensor] * count)
        listed = ", ".join(f"{name}: {tensor}" for name in names)
        return _main(listed, out, f'%y = "{op}"({", ".join(names)}) {before} : ({types}) -> {out}')

    return made


def _of(body: str, arguments: str, result: str) -> Made:
    def made(e: str) -> str:
        zero = "false" if e == "i1" else "0.0" if "f" in e else "0"
        return _main(*(text.replace("$e", e).replace("$0", zero) for text in (arguments, result, body)))

    return made


def _of_bits(e: str) -> str:
    result = {"i32": "f32", "f32": "i32", "ui64": "f64", "f64": "ui64", "i8": "ui8", "f16": "i16", "bf16": "i16"}.get(
        e, e
    )
    return _plain("stablehlo.bitcast_convert", 1, result)(e)


def _collective(op: type[Operation], properties: str = "", reduces: bool = False) -> Made:
    body = (
        "({ ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n%m = stablehlo.maximum %a, %b : tensor<$e>\n"
        "stablehlo.return %m : tensor<$e> })"
    )
    return _of(
        f'%y = "{op.name}"(%x) <{{replica_groups = dense<0> : tensor<1x1xi64>{properties}}}> {body if reduces else ""} '
        ": (tensor<4x2x$e>) -> tensor<4x2x$e>",
        "%x: tensor<4x2x$e>", "tensor<4x2x$e>",
    )  # fmt: skip


def _batch_norm(kind: str, operands: str) -> Made:
    types = ["tensor<2x3x$e>" if name in "xg" else "tensor<3x$e>" for name in operands]
    results = ["tensor<2x3x$e>"] + ["tensor<3x$e>"] * (0 if kind == "inference" else 2)
    listed = ", ".join(f"%{name}: {found}" for name, found in zip(operands, types, strict=True))
    return _of(
        f'%r{f":{len(results)}" if len(results) > 1 else ""} = "stablehlo.batch_norm_{kind}"'
        f"({', '.join(f'%{name}' for name in operands)}) <{{epsilon = 0.5 : f32, feature_index = 1 : i64}}> : "
        f"({', '.join(types)}) -> ({', '.join(results)})\n"
        f"%y = stablehlo.abs %r{'#0' if len(results) > 1 else ''} : tensor<2x3x$e>",
        listed, "tensor<2x3x$e>",
    )  # fmt: skip


SPECIAL: dict[type[Operation], Made] = {
    hlo.AllGatherOp: _collective(hlo.AllGatherOp, ", all_gather_dim = 0 : i64"),
    hlo.AllReduceOp: _collective(hlo.AllReduceOp, reduces=True),
    hlo.AllToAllOp: _collective(
        hlo.AllToAllOp, ", split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 1 : i64"
    ),
    hlo.BatchNormGradOp: _batch_norm("grad", "xsmvg"),
    hlo.BatchNormInferenceOp: _batch_norm("inference", "xsomv"),
    hlo.BatchNormTrainingOp: _batch_norm("training", "xso"),
    hlo.CollectiveBroadcastOp: _collective(hlo.CollectiveBroadcastOp),
    hlo.CollectiveReduceOp: _collective(hlo.CollectiveReduceOp, reduces=True),
    hlo.ReduceScatterOp: _collective(hlo.ReduceScatterOp, ", scatter_dimension = 0 : i64", reduces=True),
    hlo.SelectAndScatterOp: _of(
        '%y = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> '
        "({ ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n%r = stablehlo.compare GE, %a, %b : (tensor<$e>, tensor<$e>) -> "
        "tensor<i1>\nstablehlo.return %r : tensor<i1> }, { ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n"
        "%m = stablehlo.add %a, %b : tensor<$e>\nstablehlo.return %m : tensor<$e> }) : "
        "(tensor<4x$e>, tensor<3x$e>, tensor<$e>) -> tensor<4x$e>",
        "%x: tensor<4x$e>, %s: tensor<3x$e>, %i: tensor<$e>", "tensor<4x$e>",
    ),
    hlo.BitcastConvertOp: _of_bits,
    **{
        op: _of(
            f'%y = "{op.name}"(%i) ({{ stablehlo.return %x : tensor<4x$e> }}, '
            f"{{ stablehlo.return %x : tensor<4x$e> }}) : (tensor<{index}>) -> tensor<4x$e>",
            f"%x: tensor<4x$e>, %i: tensor<{index}>", "tensor<4x$e>",
        )
        for op, index in ((hlo.CaseOp, "i32"), (hlo.IfOp, "i1"))
    },
    hlo.WhileOp: _of(
        "%y = stablehlo.while(%z = %x) : tensor<4x$e> cond { stablehlo.return %i : tensor<i1> } do { "
        "stablehlo.return %z : tensor<4x$e> }",
        "%x: tensor<4x$e>, %i: tensor<i1>", "tensor<4x$e>",
    ),
    hlo.BroadcastInDimOp: _of(
        "%y = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<4x$e>) -> tensor<3x4x$e>",
        "%x: tensor<4x$e>", "tensor<3x4x$e>",
    ),
    hlo.ClampOp: _plain("stablehlo.clamp", 3),
    hlo.CompareOp: _plain("stablehlo.compare", 2, "i1", "{comparison_direction = #stablehlo<comparison_direction LT>}"),
    hlo.ConcatenateOp: _of(
        "%y = stablehlo.concatenate %x, %x, dim = 0 : (tensor<4x$e>, tensor<4x$e>) -> tensor<8x$e>",
        "%x: tensor<4x$e>", "tensor<8x$e>",
    ),
    hlo.ConstantOp: _of("%y = stablehlo.constant dense<$0> : tensor<4x$e>", "", "tensor<4x$e>"),
    hlo.ConvertOp: _of(
        "%y = stablehlo.convert %x : (tensor<4x$e>) -> tensor<4xf32>", "%x: tensor<4x$e>", "tensor<4xf32>"
    ),
    hlo.ConvolutionOp: _of(
        "%y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x5x$e>, tensor<3x2x2x$e>) -> "
        "tensor<1x3x4x$e>",
        "%x: tensor<1x2x5x$e>, %w: tensor<3x2x2x$e>", "tensor<1x3x4x$e>",
    ),
    hlo.DotGeneralOp: _of(
        "%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3x$e>, tensor<3x4x$e>) -> "
        "tensor<2x4x$e>",
        "%x: tensor<2x3x$e>, %w: tensor<3x4x$e>", "tensor<2x4x$e>",
    ),
    hlo.DynamicSliceOp: _of(
        "%y = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<4x$e>, tensor<i32>) -> tensor<2x$e>",
        "%x: tensor<4x$e>, %i: tensor<i32>", "tensor<2x$e>",
    ),
    hlo.DynamicUpdateSliceOp: _of(
        "%y = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4x$e>, tensor<2x$e>, tensor<i32>) -> tensor<4x$e>",
        "%x: tensor<4x$e>, %u: tensor<2x$e>, %i: tensor<i32>", "tensor<4x$e>",
    ),
    hlo.GatherOp: _of(
        '%y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : "
        "(tensor<4x5x$e>, tensor<2xi64>) -> tensor<2x5x$e>",
        "%x: tensor<4x5x$e>, %i: tensor<2xi64>", "tensor<2x5x$e>",
    ),
    hlo.IotaOp: _of("%y = stablehlo.iota dim = 0 : tensor<4x$e>", "", "tensor<4x$e>"),
    hlo.IsFiniteOp: _plain("stablehlo.is_finite", 1, "i1"),
    hlo.MapOp: _of(
        '%y = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0>}> ({ ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n'
        "%m = stablehlo.add %a, %b : tensor<$e>\nstablehlo.return %m : tensor<$e> }) : "
        "(tensor<4x$e>, tensor<4x$e>) -> tensor<4x$e>",
        "%x: tensor<4x$e>", "tensor<4x$e>",
    ),
    hlo.OptimizationBarrierOp: _plain("stablehlo.optimization_barrier", 1),
    hlo.PadOp: _of(
        "%v = stablehlo.constant dense<$0> : tensor<$e>\n%y = stablehlo.pad %x, %v, low = [1], high = [1], "
        "interior = [0] : (tensor<4x$e>, tensor<$e>) -> tensor<6x$e>",
        "%x: tensor<4x$e>", "tensor<6x$e>",
    ),
    hlo.ReduceOp: _of(
        "%v = stablehlo.constant dense<$0> : tensor<$e>\n%y = stablehlo.reduce(%x init: %v) applies stablehlo.maximum "
        "across dimensions = [1] : (tensor<2x4x$e>, tensor<$e>) -> tensor<2x$e>",
        "%x: tensor<2x4x$e>", "tensor<2x$e>",
    ),
    hlo.ReduceWindowOp: _of(
        '%v = stablehlo.constant dense<$0> : tensor<$e>\n%y = "stablehlo.reduce_window"(%x, %v) '
        "<{window_dimensions = array<i64: 3>}> ({ ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n"
        "%m = stablehlo.maximum %a, %b : tensor<$e>\nstablehlo.return %m : tensor<$e> }) : "
        "(tensor<4x$e>, tensor<$e>) -> tensor<2x$e>",
        "%x: tensor<4x$e>", "tensor<2x$e>",
    ),
    hlo.ReshapeOp: _of(
        "%y = stablehlo.reshape %x : (tensor<4x$e>) -> tensor<2x2x$e>", "%x: tensor<4x$e>", "tensor<2x2x$e>"
    ),
    hlo.ReverseOp: _of("%y = stablehlo.reverse %x, dims = [0] : tensor<4x$e>", "%x: tensor<4x$e>", "tensor<4x$e>"),
    hlo.ScatterOp: _of(
        '%y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims '
        "= [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n"
        "stablehlo.return %b : tensor<$e> }) : (tensor<4x$e>, tensor<2xi32>, tensor<2x$e>) -> tensor<4x$e>",
        "%x: tensor<4x$e>, %i: tensor<2xi32>, %u: tensor<2x$e>", "tensor<4x$e>",
    ),
    hlo.SelectOp: _of(
        "%y = stablehlo.select %p, %x, %x : tensor<4xi1>, tensor<4x$e>", "%p: tensor<4xi1>, %x: tensor<4x$e>",
        "tensor<4x$e>",
    ),
    hlo.SliceOp: _of(
        "%y = stablehlo.slice %x [1:3] : (tensor<4x$e>) -> tensor<2x$e>", "%x: tensor<4x$e>", "tensor<2x$e>"
    ),
    hlo.SortOp: _of(
        '%y = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({ ^bb0(%a: tensor<$e>, %b: tensor<$e>):\n'
        "%r = stablehlo.compare LT, %a, %b : (tensor<$e>, tensor<$e>) -> tensor<i1>\n"
        "stablehlo.return %r : tensor<i1> }) : (tensor<4x$e>) -> tensor<4x$e>",
        "%x: tensor<4x$e>", "tensor<4x$e>",
    ),
    hlo.TransposeOp: _of(
        "%y = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x2x$e>) -> tensor<2x4x$e>", "%x: tensor<4x2x$e>",
        "tensor<2x4x$e>",
    ),
    hlo.UniformDequantizeOp: _of(
        "%q = quant.scast %x : tensor<4xi8> to tensor<4x!quant.uniform<i8:$e, 0.5>>\n"
        "%y = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:$e, 0.5>>) -> tensor<4x$e>",
        "%x: tensor<4xi8>", "tensor<4x$e>",
    ),
    hlo.UniformQuantizeOp: _of(
        "%q = stablehlo.uniform_quantize %x : (tensor<4x$e>) -> tensor<4x!quant.uniform<i8:$e, 0.5>>\n"
        "%y = quant.scast %q : tensor<4x!quant.uniform<i8:$e, 0.5>> to tensor<4xi8>",
        "%x: tensor<4x$e>", "tensor<4xi8>",
    ),
}  # fmt: skip
"""Programs of the ops that are not one operand or two of one type."""


def ops() -> list[type[Operation]]:
    """The computing ops of StableHLO and chlo, by name."""
    known = [op for op in (*hlo.StableHlo.operations, *chlo.Chlo.operations) if "broadcast_" not in op.name
             or op is hlo.BroadcastInDimOp]  # fmt: skip
    return sorted(known, key=lambda op: op.name)


def text_of(op: type[Operation], element: str) -> str | None:
    """A program of one op; None for an op of another form than those above."""
    if op in SPECIAL:
        return SPECIAL[op](element)
    if issubclass(op, hlo.UnaryOp):
        return _plain(op.name, 1)(element)
    if issubclass(op, hlo.BinaryOp):
        return _plain(op.name, 2)(element)
    return None


@functools.cache
def refusal(op: type[Operation], element: str) -> str | None:
    """Why native code has no form, "" where it has one; None where there is no such op."""
    text = text_of(op, element)
    if text is None:
        return f"{op.name}: of another form"
    try:
        program = parse_program(text)
        verify(program.module)
    except (InvalidProgram, VerifyException, ParseError):
        return None
    try:
        steps_of(program, INSTRUCTION_SETS["portable"])
    except CodegenError as error:
        return str(error)
    return ""


def has_rule(op: type[Operation]) -> bool:
    return op in {
        *EXPANSIONS,
        *PATTERNS,
        *UPDATES,
        *MOVED,
        *EXPRESSIONS,
        *CONTROLLED,
        hlo.ConstantOp,
        hlo.OptimizationBarrierOp,
    }


def imported() -> set[type[Operation]]:
    """The ops that the ONNX importer makes: what its modules name, but for the ends of bodies."""
    found: set[type[Operation]] = set()
    for module in pkgutil.iter_modules(onnx.__path__):
        names = vars(importlib.import_module(f"{onnx.__name__}.{module.name}")).values()
        found |= {value for value in names if isinstance(value, type) and issubclass(value, Operation)}
    source = "".join(path.read_text() for path in Path(onnx.__path__[0]).glob("*.py"))
    found |= {op for op in hlo.StableHlo.operations if f"stablehlo.{op.__name__}" in source}
    return {op for op in found if op in ops() and op is not hlo.ReturnOp}


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """For every op with native forms its name, the groups of element types that have them, and those that have not."""
    for op in ops():
        if not has_rule(op) or text_of(op, "f32") is None:
            continue
        native: list[str] = []
        other: list[str] = []
        for group, elements in GROUPS.items():
            found = {element: refusal(op, element) for element in elements}
            legal = {element: why for element, why in found.items() if why is not None}
            for element, why in legal.items():
                assert not why or "found" in why, (op.name, element, why)
            some = [element for element, why in legal.items() if not why]
            if len(some) == len(legal) and legal:
                native.append(group if len(legal) == len(elements) else ", ".join(some))
            elif legal:
                native += some
                other += [element for element, why in legal.items() if why] if some else [group]
        yield op.name.partition(".")[2], native, other


def table() -> str:
    """Ops that have the same forms are one row."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, native, other in rows():
        alike.setdefault((", ".join(native), ", ".join(other)), []).append(f"`{name}`")
    lines = ["| ops | native | by the interpreter only |", "|---|---|---|"]
    for (native, other), names in sorted(alike.items(), key=lambda item: (-len(item[1]), item[1])):
        lines.append(f"| {', '.join(names)} | {native} | {other} |")
    spelled_out = (*LEGALIZATIONS, hlo.CompositeOp, hlo.ReturnOp)
    none = sorted(f"`{op.name.partition('.')[2]}`" for op in ops() if not has_rule(op) and op not in spelled_out)
    return "\n".join(lines) + f"\n\nNo native form: {', '.join(none)}.\n"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
