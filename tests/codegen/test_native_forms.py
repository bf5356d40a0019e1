"""What has a native form: all that the ONNX importer makes, and what docs/native.md says."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from codegen import native_forms
from codegen.native_forms import IMPORTED, imported, ops, refusal
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.text import parse_program


def test_the_importer_makes_these_ops() -> None:
    names = {op.name for op in imported()}
    assert {"stablehlo.cosine", "stablehlo.power", "stablehlo.convolution", "chlo.erf", "stablehlo.gather"} <= names
    assert len(names) > 40


@pytest.mark.parametrize("op", sorted(imported(), key=lambda op: op.name), ids=lambda op: op.name)
def test_what_the_onnx_importer_makes_has_a_native_form(op: type[Operation]) -> None:
    found = {element: refusal(op, element) for element in IMPORTED}
    assert {element: why for element, why in found.items() if why} == {}
    assert "" in found.values()


def test_the_page_says_what_has_a_native_form() -> None:
    page = native_forms.PAGE.read_text()
    found = page.partition(native_forms.BEGIN)[2].partition(native_forms.END)[0]
    assert found == native_forms.table(), "run tests/codegen/native_forms.py"


def test_ops_are_refused_by_name() -> None:
    assert len(ops()) > 100
    program = parse_program(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n%y = stablehlo.reduce_precision %x, format = e5m10 : "
        'tensor<4xf32> loc("half")\nfunc.return %y : tensor<4xf32>\n}'
    )
    with pytest.raises(CodegenError, match=r"stablehlo.reduce_precision 'half': found no native form of it; run it"):
        NativeProgram(program)


def test_a_dynamic_input_is_refused_with_its_place() -> None:
    program = parse_program(
        "func.func @main(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {\n"
        "%y = stablehlo.add %x, %x : tensor<1x?xf32>\nreturn %y : tensor<1x?xf32>\n}"
    )
    with pytest.raises(CodegenError, match=r"input 'arg0': found tensor<1x\?xf32>, expected a static shape") as refused:
        NativeProgram(program)
    assert refused.value.op is program.main
