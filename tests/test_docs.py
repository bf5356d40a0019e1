"""The documents: links lead somewhere, commands have the options that they are printed with, the snippet runs."""

from __future__ import annotations

import ast
import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.cli import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```\w*\n(.*?)^```$|^((?:    [^\n]*\n)+)", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:    |`)?(zeropoint [a-z].*)$", re.MULTILINE)

PROGRAM = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> (tensor<1x4xf32> {zeropoint.name = "y"}) {
  %0 = "quant.stats"(%x) {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %1 = stablehlo.add %0, %0 : tensor<1x4xf32>
  %2 = "quant.stats"(%1) {layerStats = dense<[-2.0, 4.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %2 : tensor<1x4xf32>
}
"""
CHECKED = """func.func @main() {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %0, dense<1> : tensor<i32>
  return
}
"""


def headings(path: Path) -> set[str]:
    """The anchors of a document, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading_of_it(path: Path) -> None:
    for target in LINK.findall(path.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), f"{path.name}: {target}"
        assert not anchor or anchor in headings(found), f"{path.name}: {target}"


def test_the_site_lists_every_document() -> None:
    listed = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert set(listed) == {path.name for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("runtime", ["onnxruntime", "LiteRT", "OpenVINO", "NNCF"])
def test_all_documents_state_one_version_of_a_runtime(runtime: str) -> None:
    """bench/README.md is a record of measurements, each of its own version."""
    stated = re.compile(rf"\b{runtime}\s+(\d+\.\d+)(?:\.\d+)?\b(?! /| ms| dB)")
    documents = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    found = {version: path.name for path in documents for version in stated.findall(path.read_text())}
    assert len(found) == 1, found


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
SOURCES = ROOT / "src" / "zeropoint"


def test_every_file_and_folder_that_the_architecture_names_exists() -> None:
    places = [path for folder in ("src", "docs", "tests") for path in [ROOT / folder, *(ROOT / folder).rglob("*")]]
    paths = [f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in places]
    named = set(re.findall(r"`([\w./*-]+(?:\.(?:py|md|toml|mlir)|/))`", ARCHITECTURE))
    assert len(named) > 100
    assert [name for name in sorted(named) if not any(fnmatch(path, f"*/{name}") for path in paths)] == []


def defined(file: str) -> set[str]:
    """The functions and classes of the sources whose paths end in `file`."""
    trees = (ast.parse(path.read_text()) for path in SOURCES.rglob("*.py") if path.as_posix().endswith(f"/{file}"))
    named = ast.FunctionDef | ast.ClassDef
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, named)}


def test_every_function_and_class_of_the_walk_is_in_a_file_of_its_step() -> None:
    walk = ARCHITECTURE.partition("## A walk")[2].partition("\n## ")[0]
    steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
    assert len(steps) == 14
    for step in steps:
        found = {name for file in re.findall(r"`([\w/]+\.py)`", step) for name in defined(file)}
        names = re.findall(r"`(\w+)\(\)`", step)
        names += [name for name in re.findall(r"`([A-Z]\w*[a-z]\w*)`", step) if name not in ("Conv", "Pad", "Clip")]
        assert names
        assert set(names) <= found, step
        for name, file in re.findall(r"`(\w+)(?:\(\))?` \(`([\w/]+\.py)`\)", step):
            assert name in defined(file) or name not in names, (name, file)


def test_the_table_of_the_architecture_has_every_folder_and_module() -> None:
    inside = [path for path in SOURCES.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))]
    expected = {f"{path.name}{'/' * path.is_dir()}" for path in inside} - {"__main__.py"}
    rows = re.findall(r"^\| (`.*?) \|", ARCHITECTURE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == expected


def commands() -> list[tuple[str, str]]:
    """Every `zeropoint ...` line in a block of code, with the document it stands in."""
    found: list[tuple[str, str]] = []
    for path in DOCUMENTS:
        for block in BLOCK.findall(path.read_text()):
            joined = "".join(block).replace("\\\n", " ")
            found += [(path.relative_to(ROOT).as_posix(), line.strip()) for line in COMMAND.findall(joined)]
    return found


def test_commands_are_found() -> None:
    assert len(commands()) > 25


@pytest.mark.parametrize(("document", "line"), commands())
def test_every_command_takes_the_options_that_it_is_printed_with(document: str, line: str) -> None:
    words = shlex.split(line.partition(" #")[0].partition(" > ")[0].partition(" | ")[0])[1:]
    command = main.commands[words[0]]
    whole = click.Context(main, info_name="zeropoint", **main.context_settings)
    context = click.Context(command, parent=whole, info_name=words[0])
    try:
        command.parse_args(context, words[1:])
    except click.UsageError as error:
        pytest.fail(f"{document}: {line}: {error.format_message()}")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README's commands name, of a small network."""
    folder = tmp_path_factory.mktemp("workshop")
    weight = np.random.default_rng(0).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["a"], ["y"], "relu1"),
    ]
    shapes = [onnx.helper.make_tensor_value_info(name, 1, [1, n, 6, 6]) for name, n in (("x", 3), ("y", 4))]
    graph = onnx.helper.make_graph(nodes, "g", shapes[:1], shapes[1:], [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), folder / "model.onnx")
    for name, seed in (("calib", 1), ("test", 2)):
        np.savez(folder / f"{name}.npz", x=np.random.default_rng(seed).normal(size=(8, 3, 6, 6)).astype(np.float32))
    (folder / "program.mlir").write_text(PROGRAM)
    (folder / "tests.mlir").write_text(CHECKED)
    (folder / "recipe.yaml").write_text("rules:\n  - name: conv1\n    observer: minmax\n")
    data = folder / "calib.npz"
    zp.quantize(folder / "model.onnx", data, target="litert", effort="none").export(folder / "theirs.tflite")
    return folder


def test_the_commands_of_the_readme_run(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, except those that start processes or take minutes; these have tests of their own."""
    monkeypatch.chdir(workshop)
    for line in [line for document, line in commands() if document == "README.md"]:
        if "--workers" not in line and "check-target" not in line:
            done = CliRunner().invoke(main, shlex.split(line.partition(" #")[0])[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}"


def test_the_first_program_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text().partition("## A first program in Python")[2]
    (code,) = re.findall(r"```python\n(import zeropoint.*?)```", text, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    image = 'np.load("examples/digits/test.npz")["image"][:1]'
    exec(compile("import numpy as np\n" + code.replace("image = ...", f"image = {image}"), "README.md", "exec"), {})
    written = {path.name for path in tmp_path.iterdir()} - {"examples"}
    assert written == {"digits.mlir", "digits.safetensors", "digits.h", "libdigits.so"}
