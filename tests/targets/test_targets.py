"""Kernel tables: look-up by kernel and signature, the built-in tables, tables of a user's own, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.report.tables import target_table
from zeropoint.targets import (
    TARGETS,
    AtLeast,
    Custom,
    FixedScale,
    Free,
    KernelRow,
    KernelSignature,
    MultiplierAccumulatorScale,
    PortRule,
    Role,
    SameScale,
    Target,
    TargetError,
    check_target,
    port_text,
    relation_text,
    target,
)
from zeropoint.targets.text import parse_port, parse_relation

DOCUMENT = Path(__file__).parents[2] / "docs" / "targets.md"
I8, U8, I16 = (Storage.of(text) for text in ("i8", "u8", "i16"))


def written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def row_text(**columns: object) -> str:
    """A table of one good row, with some columns changed or, where None, left out."""
    row = {"name": "k", "inputs": ["act i8"], "output": "act i8", "relation": "free", "composites": [], **columns}
    lines = [f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in row.items()]
    kept = [line for line in lines if not line.endswith("= None")]
    return "\n".join(['name = "mine"', 'profile = "fixed32"', "[[kernel]]", *kept])


@pytest.mark.parametrize("name", TARGETS)
def test_every_built_in_table_is_sound_and_prints(name: str) -> None:
    found = target(name)
    assert found.name == name
    assert check_target(found) is found
    table = target_table(found)
    assert all(kernel in table for kernel in found.by_kernel)


@pytest.mark.parametrize("name", TARGETS)
def test_the_text_of_every_built_in_port_and_relation_reads_back(name: str) -> None:
    for row in target(name).rows:
        for rule in (*row.inputs, row.output):
            assert parse_port(port_text(rule)) == rule
        assert parse_relation(relation_text(row.relation), pytest.fail) == row.relation


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("logistic", (1 / 256, -128)),
        ("softmax", (1 / 256, -128)),
        ("tanh", (1 / 128, 0)),
        ("l2_normalization", (1 / 128, 0)),
        ("log_softmax", (16 / 256, 127)),
    ],
)
def test_litert_fixes_the_outputs_that_its_kernels_check(kernel: str, parameters: tuple[float, int]) -> None:
    row = target("litert").row(kernel)
    assert row is not None
    assert row.relation == FixedScale(*parameters)


def test_litert_subtracts_with_free_scales_and_quantizes_fully_connected_weights_per_channel() -> None:
    table = target("litert")
    assert table.row("subtract").relation == Free()
    assert table.row("fully_connected").inputs[1].per_channel
    assert [table.row(k).inputs[1].axis for k in ("convolution", "depthwise_convolution")] == [0, 3]


@pytest.mark.parametrize("kernel", ["arg_max", "hard_swish", "log_softmax", "prelu", "space_to_depth"])
def test_litert_has_no_16_bit_kernel_for(kernel: str) -> None:
    table = target("litert")
    assert table.row(kernel, KernelSignature((I8,))) is not None
    assert table.row(kernel, KernelSignature((I16,))) is None


def test_rfc_target_key_the_signature_selects_the_first_row_that_fits() -> None:
    """RFC, target constraints: the key is kernel name and signature."""
    table = target("litert")
    assert table.row("convolution", KernelSignature((I8, None, None))).output.storage == I8
    row = table.row("convolution", KernelSignature((I16, None, None)))
    assert row.output.storage == I16
    assert str(row.inputs[2].storage) == "i64<-549755813888:549755813887>"
    assert table.row("convolution", KernelSignature((U8, None, None))) is None
    assert table.row("nothing of the kind") is None


def test_rfc_target_key_what_a_partial_signature_leaves_open_is_derived_from_the_first_match() -> None:
    """RFC, target constraints: the unspecified part is derived from the first matched signature."""
    row = target("onnxruntime").row("convolution", KernelSignature((None, U8, None)))
    assert [str(s) for s in row.storages(KernelSignature((None, U8, None))) or ()] == ["u8", "u8", "i32", "u8"]


def test_rfc_target_key_a_wildcard_takes_what_is_asked_and_else_its_default() -> None:
    """RFC, target constraints: a tuple can be a wildcard; a default value is used."""
    table = target("onnxruntime")
    for signature, storage in (
        (KernelSignature((None,)), U8),
        (KernelSignature((I8,)), I8),
        (KernelSignature((None,), I16), I16),
    ):
        row = table.row("reshape", signature)
        assert row.storages(signature) == (storage, storage)
    assert table.row("reshape", KernelSignature((I8,), U8)) is None  # both ports take one storage


def test_rfc_any_type_asks_for_sufficient_storage() -> None:
    """RFC, model constraints: AnyQuantizedType wants at least the bit width referred to."""
    table = target("litert")
    assert table.row("add", KernelSignature((AtLeast(9), None))).output.storage == I16
    assert table.row("add", KernelSignature((AtLeast(4), None))).output.storage == I8
    assert table.row("add", KernelSignature((AtLeast(17), None))) is None
    row = target("onnxruntime").row("reshape", KernelSignature((AtLeast(12),)))
    assert [str(s) for s in row.storages(KernelSignature((AtLeast(12),))) or ()] == ["u16", "u16"]


def test_a_condition_on_bits_keeps_a_wildcard_from_other_widths() -> None:
    assert target("onnxruntime").row("max_pool", KernelSignature((I16,))) is None
    assert target("onnxruntime").row("transpose", KernelSignature((I16,))) is not None


def test_a_part_of_the_storage_range_is_as_good() -> None:
    narrow = Storage.of("i8", -127)
    assert target("cpu").row("add", KernelSignature((narrow, I8))) is not None
    assert target("litert").row("convolution", KernelSignature((I8, I8, None))) is None  # weights are narrow there


def test_a_preference_puts_rows_in_front_and_keeps_the_others() -> None:
    table = target("litert-16x8")
    assert table.row("convolution").output.storage == I16
    assert table.row("hard_swish").output.storage == I8


def test_a_group_ties_the_ports_it_lists() -> None:
    row = target("litert").row("gather")
    assert row.relation == SameScale((0, -1))
    assert (row.tied(0), row.tied(1)) == (True, False)
    assert [target("litert").row("select").tied(i) for i in range(3)] == [False, True, True]


def test_the_table_of_the_documentation_loads_with_its_function(tmp_path: Path) -> None:
    table, function = re.findall(r"```(?:toml|python)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (tmp_path / "my_scales.py").write_text(function)
    mine = target(str(written(tmp_path, table, "my_target.toml")))
    assert (mine.name, mine.profile) == ("my_target", "fixed32")
    assert mine.row("elementwise_unary").relation == FixedScale(1 / 64, 0)
    assert mine.row("convolution").output.storage == U8
    assert mine.row("depthwise_convolution").relation == MultiplierAccumulatorScale()  # of cpu, behind its own rows
    custom = mine.row("mean").relation
    assert isinstance(custom, Custom)
    outputs = [None]
    assert custom.function([UniformQuantizedType.per_layer(I8, 0.3, 5)], outputs) == ([], [0])
    assert outputs == [UniformQuantizedType.per_layer(I8, 0.5)]


def test_a_target_in_python_is_checked_as_one_in_toml(tmp_path: Path) -> None:
    rows = "KernelRow('mean', (PortRule(Role.ACTIVATION, I8),), PortRule(Role.ACTIVATION, I8), "
    head = "from zeropoint.ir.quant import Storage\nfrom zeropoint.targets import *\nI8 = Storage.of('i8')\n"
    good = f"{head}TARGET = Target('mine', 'fixed32', ({rows}Free()),))"
    assert target(str(written(tmp_path, good, "good.py"))).name == "mine"
    bad = f"{head}TARGET = Target('mine', 'fixed32', ({rows}FixedScale(0.5, 500)),))"
    with pytest.raises(TargetError, match=r"row 1 .kernel 'mean'., column 'relation': found zero point 500"):
        target(str(written(tmp_path, bad, "bad.py")))
    with pytest.raises(TargetError, match="found no TARGET"):
        target(str(written(tmp_path, "x = 1", "none.py")))
    with pytest.raises(TargetError, match="found Python that fails: ZeroDivisionError"):
        target(str(written(tmp_path, "1 / 0", "fails.py")))


REFUSED = [
    ({"name": None}, "name", "found nothing"),
    ({"name": []}, "name", r"found \[\], expected a name"),
    ({"name": 3}, "name", "found 3, expected a string"),
    ({"inputs": []}, "inputs", "found no ports"),
    ({"inputs": [3]}, "inputs", "found 3, expected a string"),
    ({"inputs": "act i8"}, "inputs", "expected a list of strings"),
    ({"inputs": ["activation i8"]}, "inputs", "found port 'activation i8', expected"),
    ({"inputs": ["act"]}, "inputs", "found port 'act' without storage"),
    ({"inputs": ["act i8<3:2>"]}, "inputs", "expected bounds in order"),
    ({"inputs": ["act i8<-300:2>"]}, "inputs", "expected bounds in order and inside -128:127"),
    ({"inputs": ["act float"]}, "inputs", "found storage type 'float'"),
    ({"inputs": ["act i8 zp=x"]}, "inputs", "expected whole numbers"),
    ({"inputs": ["act i8 zp=300"]}, "inputs", "found zero point 300"),
    ({"inputs": ["act i8 bits=8"]}, "inputs", "expected them only with any storage"),
    ({"inputs": ["act *i8 bits=16"]}, "inputs", "including that of the default"),
    ({"inputs": ["act i8 per_channel"]}, "inputs", "for weights and biases only"),
    ({"inputs": ["act i8 wide"]}, "inputs", "found 'wide' in port"),
    ({"inputs": ["other i8"]}, "inputs", "expected 'other' alone"),
    ({"output": "weight i8"}, "output", "found role 'weight'"),
    ({"relation": "same"}, "relation", "found relation 'same', expected one of: free"),
    ({"relation": "fixed_scale(0, 0)"}, "relation", "found scale 0.0, expected a positive number"),
    ({"relation": "fixed_scale(x, 0)"}, "relation", "found scale 'x'"),
    ({"relation": "fixed_scale(1, 200)"}, "relation", "found zero point 200"),
    ({"relation": "fixed_scale(1, 3)", "output": "act i8 zp=0"}, "relation", "expected that of the output port, 0"),
    ({"relation": "same_scale(1, out)"}, "relation", "found port 1, expected 'out' or an operand from 0 to 0"),
    ({"relation": "same_scale", "output": "act u8"}, "relation", "different storage or zero point"),
    ({"relation": "python:no.py:f"}, "relation", "expected FILE.py:FUNCTION"),
    ({"relation": "multiplier_accumulator_scale"}, "inputs", "expected the ports 'act', 'weight'"),
    ({"inputs": ["act i8", "weight i8"]}, "accumulator", "found none, expected a width"),
    ({"inputs": ["act i8", "bias i32"]}, "relation", "found a bias port"),
    ({"accumulator": 7}, "accumulator", "found 7 bits"),
    ({"accumulator": True}, "accumulator", "expected a whole number"),
    ({"steps_per_term": 0}, "steps_per_term", "found 0, expected a whole number of at least 1"),
    ({"segments": 0}, "segments", "found 0, expected a whole number of at least 1"),
    ({"activation_scales": "per_row"}, "activation_scales", "found it for kernel 'k', expected fully_connected"),
    ({"activation_scales": "per_token"}, "activation_scales", "found 'per_token', expected 'per_row'"),
    ({"nonzero": -1}, "nonzero", "found -1, expected a whole number of at least 0"),
    ({"profile": "nearest"}, "profile", "found 'nearest', expected one of"),
    ({"colour": "red"}, "colour", "found it, expected: name"),
]


@pytest.mark.parametrize(("columns", "column", "sentence"), REFUSED)
def test_a_bad_row_names_the_row_and_the_column(
    tmp_path: Path, columns: dict[str, object], column: str, sentence: str
) -> None:
    path = written(tmp_path, row_text(**columns))
    with pytest.raises(TargetError, match=rf"row 1 .*column '{column}': .*{sentence}"):
        target(str(path))


def test_rows_are_counted_from_the_first(tmp_path: Path) -> None:
    good = row_text()
    path = written(tmp_path, good + "\n[[kernel]]\n" + row_text(relation="no").split("[[kernel]]\n")[1])
    with pytest.raises(TargetError, match=r"row 2 \(kernel 'k'\), column 'relation'"):
        target(str(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "found text that is not TOML"),
        ("profile = 'fixed32'", "found name = None"),
        ("name = 'x'", "found profile = None"),
        ("name = 'x'\nprofile = 'fixed32'", "found no rows"),
        ("name = 'x'\nprofile = 'up'", "found profile 'up', expected one of"),
        ("name = 'x'\nprofile = 'fixed32'\nkernel = 3", "found a 'kernel' that is not a list"),
        ("name = 'x'\ncolour = 3", "found key 'colour'"),
        ("name = 'x'\nextends = 'gpu'", "found target 'gpu', expected one of: cpu, cpu-integer"),
    ],
)
def test_a_bad_table_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    bad = (
        text
        if "up" not in text
        else text + "\n[[kernel]]\nname='k'\ninputs=['act i8']\noutput='act i8'\nrelation='free'\ncomposites=[]"
    )
    with pytest.raises(TargetError, match=sentence):
        target(str(written(tmp_path, bad)))


def test_a_target_that_is_not_there_is_named() -> None:
    with pytest.raises(TargetError, match=r"nowhere\.toml: No such file"):
        target("nowhere.toml")
    with pytest.raises(TargetError, match="found target 'gpu', expected one of: cpu, cpu-integer"):
        target("gpu")


def test_a_python_row_that_ties_ports_of_different_storage_is_refused() -> None:
    ports = (PortRule(Role.ACTIVATION, I8), PortRule(Role.ACTIVATION, I16))
    bad = Target("mine", "fixed32", (KernelRow("concatenate", ports, PortRule(Role.ACTIVATION, I8), SameScale()),))
    with pytest.raises(TargetError, match="column 'relation': found ports of different storage"):
        check_target(bad)
