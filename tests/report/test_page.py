"""The page of a report: one file without a network, with the document in it as data."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint
import zeropoint.report.page
from digits import DIGITS, quantized_digits
from zeropoint.cli import main
from zeropoint.ir.files import save_program
from zeropoint.model import Model
from zeropoint.report.document import Document, Header, ReportParts, document, graph_of
from zeropoint.report.page import page
from zeropoint.report.page.html import LIBRARIES, SCRIPTS

FOLDER = Path(zeropoint.report.page.__file__).parent


def made(name: str = "digits.mlir") -> Document:
    program = quantized_digits().integer
    return document(program, graph_of(program), Header(name, "0", "cpu", "fixed16"), ReportParts())


@functools.cache
def text() -> str:
    return page(made())


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts.append(data)


def test_nothing_is_loaded_from_elsewhere() -> None:
    elements = Elements(text())
    loading = ("src", "href", "data", "action", "poster", "srcset")
    named = [value for _, attributes in elements.found for name, value in attributes.items() if name in loading]
    assert named == ["#detail"]
    style = (FOLDER / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style
    assert "sourceMappingURL" not in text()


def test_the_policy_forbids_every_request() -> None:
    policies = [attributes["content"] for tag, attributes in Elements(text()).found if "http-equiv" in attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"]


def test_our_scripts_name_no_address_and_make_no_markup() -> None:
    for name in SCRIPTS:
        script = (FOLDER / "scripts" / f"{name}.js").read_text()
        for forbidden in ("http:", "https:", "fetch(", "XMLHttpRequest", "innerHTML", "insertAdjacentHTML", "eval("):
            assert forbidden not in script, f"{name}.js: {forbidden}"


def test_every_script_and_library_is_used() -> None:
    assert {path.stem for path in (FOLDER / "scripts").iterdir()} == set(SCRIPTS)
    assert {path.name for path in (FOLDER / "vendor").glob("*.js")} == set(LIBRARIES)


def test_libraries_are_the_published_files_with_their_licences() -> None:
    listed = dict(re.findall(r"\| `(\S+)` \|.*\| `([0-9a-f]{64})` \|", (FOLDER / "vendor" / "README.md").read_text()))
    found = {name: hashlib.sha256((FOLDER / "vendor" / name).read_bytes()).hexdigest() for name in LIBRARIES}
    assert found == listed
    for name in LIBRARIES:
        licence = (FOLDER / "vendor" / f"{name.partition('.')[0]}.LICENSE").read_text()
        assert licence.splitlines()[0] in text()


def test_the_data_is_the_document() -> None:
    found = next(script for script in Elements(text()).scripts if script.startswith("{"))
    assert json.loads(found) == json.loads(made().json())


def test_a_name_with_markup_stays_a_name() -> None:
    name = "</script><script>alert(1)</script>&<b>{{data}}"
    hostile = page(made(name))
    assert "alert(1)</script>" not in hostile
    found = next(script for script in Elements(hostile).scripts if script.startswith("{"))
    assert json.loads(found)["header"]["model"] == name


def test_the_same_program_gives_the_same_page() -> None:
    assert page(made()) == text()


def test_the_command_writes_page_and_data(tmp_path: Path) -> None:
    save_program(quantized_digits().integer, tmp_path / "digits.mlir")
    for name in ("report.html", "report.json"):
        run = CliRunner().invoke(
            main, ["report", str(tmp_path / "digits.mlir"), "-o", str(tmp_path / name), "--no-timing"]
        )
        assert run.exit_code == 0, run.output
        assert run.output.endswith(f"wrote {tmp_path / name}\n")
    record = json.loads((tmp_path / "report.json").read_text())
    assert record["header"]["model"] == "digits.mlir"
    assert "digits.mlir" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "report.txt"], "found suffix '.txt', expected .html or .json"),
        (["-o", "r.html", "--data", "test.npz"], "--data with neither --reference nor --stages"),
        (["-o", "r.html", "--stages", "."], "found no 1-fused.mlir, expected a folder that quantize --save-stages"),
        (["-o", "r.html"], "found a float program, expected an integer program"),
    ],
)
def test_what_cannot_be_reported_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    here = [str(tmp_path / word) if word.startswith(("r.", "report")) else word for word in arguments]
    model = str(DIGITS / "digits.onnx")
    run = CliRunner().invoke(main, ["report", model, *[str(tmp_path) if word == "." else word for word in here]])
    assert run.exit_code == 2
    assert message in run.output
    assert not list(tmp_path.glob("r*"))


def test_a_model_reports_itself(tmp_path: Path) -> None:
    made = quantized_digits()
    path = Model(made.integer, made).report(tmp_path / "digits.json", timing=False)
    record = json.loads(path.read_text())
    assert record["header"]["version"] == zeropoint.__version__
    assert record["header"]["model"] == "digits"
    assert record["weights"]
    assert record["values"]
    assert {note["section"] for note in record["notes"]} == {"outputs", "noise", "times", "worst"}
    path = Model(made.integer, made).report(path, name="Digits, 8 bits", timing=False)
    assert json.loads(path.read_text())["header"]["model"] == "Digits, 8 bits"
    with pytest.raises(ValueError, match=r"expected \.html or \.json"):
        Model(made.integer, made).report(tmp_path / "digits.txt", timing=False)


def test_quantize_compares_its_result_with_the_float_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "calib.npz", image=np.load(DIGITS / "calib.npz")["image"][:6])
    words = f"quantize {DIGITS}/digits.onnx --data {tmp_path}/calib.npz -o {tmp_path}/d.mlir --effort none"
    run = CliRunner().invoke(main, [*words.split(), "--report", f"{tmp_path}/report.json"])
    assert run.exit_code == 0, run.output
    record = json.loads((tmp_path / "report.json").read_text())
    (output,) = record["header"]["outputs"]
    assert 20 < output["sqnr"] < 80
    assert record["header"]["float_bytes"] > 3 * record["integer_bytes"]
