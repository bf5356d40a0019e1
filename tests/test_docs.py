"""The documents: links lead somewhere, commands have the options that they are printed with, the snippet runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from zeropoint.cli import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^(?:    |`)?(zeropoint [a-z].*)$", re.MULTILINE)


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


def commands() -> list[tuple[str, str]]:
    """Every `zeropoint ...` line in a block of code, with the document it stands in."""
    found: list[tuple[str, str]] = []
    for path in DOCUMENTS:
        for block in re.findall(r"```\w*\n(.*?)```|^((?:    .*\n)+)", path.read_text(), re.DOTALL | re.MULTILINE):
            joined = "".join(block).replace("\\\n", " ")
            found += [(path.name, line.strip()) for line in COMMAND.findall(joined)]
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


def test_the_first_program_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text().partition("## A first program in Python")[2]
    (code,) = re.findall(r"```python\n(import zeropoint.*?)```", text, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    image = 'np.load("examples/digits/test.npz")["image"][:1]'
    exec(compile("import numpy as np\n" + code.replace("image = ...", f"image = {image}"), "README.md", "exec"), {})
    written = {path.name for path in tmp_path.iterdir()} - {"examples"}
    assert written == {"digits.mlir", "digits.safetensors", "digits.h", "libdigits.so"}
