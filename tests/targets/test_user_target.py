"""A target of the user's own, from the command line: a kernel changed, a relation as a Python function."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from networks import Network
from zeropoint.cli import main
from zeropoint.export import export_program
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.stablehlo import AddOp, LogisticOp
from zeropoint.pipeline import Options, quantize
from zeropoint.targets import TargetError, target

TABLE = """
name = "mine"
extends = "cpu"

[[kernel]]
name = "add"
inputs = ["const i8"]
output = "act i8"
relation = "python:mine.py:doubled"
"""
FUNCTION = """
from zeropoint.ir.quant import UniformQuantizedType


def doubled(inputs, outputs):
    if not isinstance(inputs[0], UniformQuantizedType) or isinstance(outputs[0], UniformQuantizedType):
        return [], []
    outputs[0] = UniformQuantizedType.per_layer(inputs[0].storage, 2 * inputs[0].scale, inputs[0].zero_point)
    return [], [0]
"""


def test_quantize_for_a_target_file_with_a_function(tmp_path: Path) -> None:
    net = Network([(1, 4), (1, 4)])
    program = net.finish([net.insert(LogisticOp(net.insert(AddOp(*net.values))))])
    save_program(program, tmp_path / "model.mlir", inline_weights=True)
    data = np.random.default_rng(0).uniform(-1, 1, (8, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x0=data, x1=data[::-1])
    (tmp_path / "mine.toml").write_text(TABLE)
    (tmp_path / "mine.py").write_text(FUNCTION)
    arguments = ["quantize", "model.mlir", "--data", "data.npz", "--target", "mine.toml", "--emit", "stablehlo"]
    arguments = [str(tmp_path / a) if a.endswith((".mlir", ".npz", ".toml")) else a for a in arguments]
    result = CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "out.mlir")])
    assert result.exit_code == 0, result.output
    quantized = load_program(tmp_path / "out.mlir")
    (total,) = [op for op in quantized.entry.ops if isinstance(op, AddOp)]
    given, made = total.lhs.type.element_type, total.result.type.element_type
    assert made.scale == 2 * given.scale
    assert quantized.module.attributes["zeropoint.target"].data == "mine"


@pytest.mark.parametrize("relation", ["../mine.py", "{folder}/mine.py", "link.py"])
def test_a_table_runs_no_python_from_elsewhere(tmp_path: Path, relation: str) -> None:
    table = tmp_path / "tables" / "mine.toml"
    table.parent.mkdir()
    (table.parent / "link.py").symlink_to(tmp_path / "mine.py")
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{FUNCTION}")
    table.write_text(TABLE.replace("mine.py", relation.format(folder=tmp_path)))
    with pytest.raises(TargetError, match=r"found file '.*', expected one in the folder of mine\.toml"):
        target(str(table))
    (tmp_path / "whole.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    table.write_text('name = "mine"\nextends = "../whole.py"\n')
    with pytest.raises(TargetError, match=r"extends: found file '\.\./whole\.py', expected one in the folder"):
        target(str(table))
    assert not (tmp_path / "ran").exists()


def test_a_table_extends_one_beside_it_wherever_it_is_read_from(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('name = "base"\nextends = "cpu"\nleast_sqnr = 3\n')
    (tmp_path / "mine.toml").write_text('name = "mine"\nextends = "base.toml"\n')
    assert target(str(tmp_path / "mine.toml")).least_sqnr == 3
    (tmp_path / "base.toml").write_text('name = "base"\nextends = "mine.toml"\n')
    with pytest.raises(TargetError, match="nested too deeply"):
        target(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("command", ["explain", "run", "compile", "export", "opt", "report"])
def test_the_target_that_a_program_names_is_not_loaded(tmp_path: Path, command: str) -> None:
    evil, model = tmp_path / "evil.py", tmp_path / "model.mlir"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    model.write_text(
        f'module attributes {{zeropoint.target = "{evil}", zeropoint.profile = "fixed32"}} {{\n'
        "  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n    return %x : tensor<2xf32>\n  }\n}\n"
    )
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 2), np.float32))
    (tmp_path / "float.mlir").write_text(model.read_text().partition("\n")[2].removesuffix("}\n"))
    outputs = {"run": "o.npz", "compile": "o.o", "export": "o.onnx", "report": "o.html"}
    arguments = ["-o", str(tmp_path / outputs[command])] if command in outputs else []
    arguments += ["--input", str(tmp_path / "data.npz")] if command == "run" else []
    arguments += ["-p", "materialize"] if command == "opt" else []
    arguments += ["--reference", str(tmp_path / "float.mlir")] if command == "report" else []
    result = CliRunner().invoke(main, [command, str(model), *arguments])
    assert result.exit_code in (0, 2), result.output
    assert not (tmp_path / "ran").exists()


def test_a_report_of_a_saved_program_takes_the_table_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nextends = "cpu"\n')
    (tmp_path / "other.toml").write_text('name = "other"\nextends = "cpu"\n')
    net = Network([(1, 4)])
    program = net.finish([net.insert(AddOp(net.values[0], net.values[0]))])
    sample = {"x0": np.ones((1, 4), np.float32)}
    made = quantize(program, [sample], Options(target=str(tmp_path / "mine.toml"), effort="none"))
    save_program(made.integer, tmp_path / "model.mlir")
    save_program(program, tmp_path / "float.mlir")
    command = ["report", str(tmp_path / "model.mlir"), "-o", str(tmp_path / "o.json"), "--no-timing"]
    command += ["--reference", str(tmp_path / "float.mlir")]
    said = {
        name: CliRunner().invoke(main, [*command, *(["--target", str(tmp_path / name)] if name else [])])
        for name in ("", "other.toml", "mine.toml")
    }
    assert "found target 'mine' in a file, expected one of: cpu, " in said[""].stderr
    assert (
        "other.toml: found target 'other', expected 'mine', which the program was made for" in said["other.toml"].stderr
    )
    assert said["mine.toml"].exit_code == 0, said["mine.toml"].output


def test_the_target_that_an_exported_file_names_is_not_loaded(tmp_path: Path) -> None:
    net = Network([(1, 4)])
    options = Options(target="onnxruntime", effort="none")
    made = quantize(net.finish([net.insert(LogisticOp(net.values[0]))]), [{"x0": np.ones((1, 4), np.float32)}], options)
    export_program(made.propagated, tmp_path / "model.onnx")
    evil, model = tmp_path / "evil.py", onnx.load(tmp_path / "model.onnx")
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (found,) = model.metadata_props
    found.value = json.dumps({**json.loads(found.value), "target": str(evil)})
    onnx.save(model, tmp_path / "model.onnx")
    result = CliRunner().invoke(main, ["report", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "o.html")])
    assert (result.exit_code, "evil.py' in a file, expected one of: cpu, " in result.stderr) == (2, True), result.output
    assert not (tmp_path / "ran").exists()


def test_an_option_of_a_pass_is_given_by_the_user_and_a_rule_of_a_recipe_names_no_target(tmp_path: Path) -> None:
    """Recipes and models may come from others, a command line does not."""
    net = Network([(1, 4)])
    save_program(net.finish([net.insert(LogisticOp(net.values[0]))]), tmp_path / "model.mlir")
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise ValueError('mine')")
    (tmp_path / "r.yaml").write_text(f"- name: '*'\n  target: {tmp_path / 'mine.py'}\n")
    given = ["quantize", str(tmp_path / "model.mlir"), "--recipe", str(tmp_path / "r.yaml"), "-o", "q.mlir"]
    result = CliRunner().invoke(main, given)
    assert (result.exit_code, (tmp_path / "ran").exists()) == (2, False), result.output
    given = ["opt", str(tmp_path / "model.mlir"), "-p", f"fuse{{target={tmp_path / 'mine.py'}}}"]
    result = CliRunner().invoke(main, given)
    assert (result.exit_code, (tmp_path / "ran").exists()) == (2, True), result.output


def test_a_bad_target_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(TABLE.replace("act i8", "act i8 zp=500"))
    result = CliRunner().invoke(main, ["targets", str(tmp_path / "bad.toml")])
    assert result.exit_code == 2
    assert "row 1 (kernel 'add'), column 'output': found zero point 500" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("class Other(BaseException): pass\nraise Other('x')", "Other: x"),
        ("class Mute(Exception):\n  def __str__(self): return 1\nraise Mute", "Mute: no text (TypeError)"),
        ("open('nothing')", "FileNotFoundError: [Errno 2] No such file or directory: 'nothing'"),
    ],
    ids=["exit", "no exception", "no text", "a file"],
)
def test_python_of_a_target_ends_no_command(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    result = CliRunner().invoke(main, ["targets", str(tmp_path / "mine.py")])
    assert (result.exit_code, f"mine.py: found Python that fails: {said}" in result.stderr) == (2, True), result.output


def test_a_key_of_very_many_parts_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    for key in (".".join("a" * 20_000), ". ".join(["'a'", '"b"'] * 10_000), "x = {" + ".".join(["a"] * 20_000)):
        (tmp_path / "mine.toml").write_text(f'name = "m"\n{key} = 1\n')
        with pytest.raises(TargetError, match=r"mine.toml:2: found a key of more than 16 parts"):
            target(str(tmp_path / "mine.toml"))


def test_a_table_says_what_a_function_has_to_keep_and_hands_on_what_it_extends(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    (tmp_path / "mine.py").write_text(FUNCTION)
    path.write_text(TABLE)
    assert target(str(path)).least_sqnr == target("cpu").least_sqnr == 20
    path.write_text(TABLE.replace('name = "mine"', 'name = "mine"\nleast_sqnr = 0', 1))
    assert target(str(path)).least_sqnr == 0
    path.write_text(TABLE.replace('name = "mine"', 'name = "mine"\nleast_sqnr = "high"', 1))
    with pytest.raises(TargetError, match="found least_sqnr = 'high', expected a number of dB"):
        target(str(path))
    path.write_text(TABLE.replace('name = "mine"', 'name = "mine"\nleast_sqnr = -3', 1))
    with pytest.raises(TargetError, match="found least_sqnr -3 dB, expected 0 or more and less than 100"):
        target(str(path))


def test_a_table_says_which_contractions_may_return_floats(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    (tmp_path / "mine.py").write_text(FUNCTION)
    path.write_text(TABLE.replace('name = "mine"', 'name = "mine"\nunrounded_results = ["fully_connected"]', 1))
    assert target(str(path)).unrounded_results == {"fully_connected"}
    assert target("openvino-vnni").unrounded_results == target("onnxruntime").unrounded_results == {"fully_connected"}
    path.write_text(TABLE.replace('name = "mine"', 'name = "mine"\nunrounded_results = ["add"]', 1))
    with pytest.raises(TargetError, match=r"found unrounded_results = \['add'\], expected a list of: batch_matmul"):
        target(str(path))


def test_a_table_restricts_and_credits_the_rows_that_it_appends(tmp_path: Path) -> None:
    path, base = tmp_path / "mine.toml", target("onnxruntime")
    path.write_text('name = "mine"\nextends = "onnxruntime"\nbits = [16]\nchecked = "mine 1.0: test.py"\n')
    found = target(str(path))
    assert {row.checked for row in found.rows} == {"mine 1.0: test.py"}
    assert {row.kernel for row in found.rows} > {"reshape", "gather", "convolution"}
    assert "softmax" not in found.by_kernel, "its row is for 8 bits"
    assert {rule.widths for row in found.rows for rule in row.inputs if rule.wildcard} == {(16,)}
    assert [row for row in found.rows if row.kernel == "convolution"] == [
        replace(row, checked="mine 1.0: test.py") for row in base.rows if row.kernel == "convolution"
    ]
    for bits in ("8", "[]", "[7]", '["8"]', "[true]", "[[8]]"):
        path.write_text(f'name = "mine"\nextends = "onnxruntime"\nbits = {bits}\n')
        with pytest.raises(TargetError, match=r"found bits = .*, expected a list of 8, 16 or 32"):
            target(str(path))
    path.write_text('name = "mine"\nextends = "onnxruntime"\nchecked = 3\n')
    with pytest.raises(TargetError, match="found checked = 3, expected a string"):
        target(str(path))


def test_a_table_leaves_out_rows_of_the_target_that_it_extends(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nextends = "onnxruntime"\nwithout = ["softmax", "add"]\n')
    kernels = {row.kernel for row in target("onnxruntime").rows}
    assert {row.kernel for row in target(str(path)).rows} == kernels - {"softmax", "add"}
    for found in ('"softmax"', '["no_kernel"]', "[1]"):
        path.write_text(f'name = "mine"\nextends = "onnxruntime"\nwithout = {found}\n')
        with pytest.raises(TargetError, match=r"found without = .*, expected a list of kernels of the target 'onnx"):
            target(str(path))


def test_a_row_may_have_a_kernel_of_its_own_whose_composites_an_inherited_row_names(tmp_path: Path) -> None:
    row = '[[kernel]]\nname = "gate"\ninputs = ["act {0}"]\noutput = "act {0}"\nrelation = "free"\n'
    (tmp_path / "base.toml").write_text(
        'name = "base"\nextends = "cpu"\n' + row.format("i8") + 'composites = ["my.gate"]\n'
    )
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\nextends = "base.toml"\n' + row.format("i16"))
    found = target(str(mine))
    assert found.composites == {"my.gate": "gate"}
    assert [str(each.output.storage) for each in found.by_kernel["gate"]] == ["i16", "i8"]
