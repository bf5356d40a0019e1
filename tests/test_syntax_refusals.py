"""Messages about files that do not parse: the place, what was found, what was expected, the fix; nothing written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main

PROGRAM = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
FIX = "correct the text here, or write the file again if it was cut"
BROKEN = {
    "an unknown op": ("stablehlo.add", "stablehlo.ad", ":2:8: ", "'stablehlo.ad'"),
    "a cut string": ("return", 'return "', ":3:10: ", "'\"'"),
    "a number that is none": ("4xf32>) ->", "4x:f32>) ->", ":1:30: ", "':'"),
    "a cut text": ("return %0 : tensor<4xf32>\n}", "return %0 : tensor<4x", ":4:1: ", "the end of the text"),
    "a suffix that is none": ("%a, %a", "%a, % ", ":2:26: ", "found "),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", ["run", "quantize", "opt"])
def test_text_that_does_not_parse(name: str, command: str, tmp_path: Path) -> None:
    """The parser's sentence alone said what it does not know, or what it expects, and no fix."""
    old, new, place, found = BROKEN[name]
    path, data, out = tmp_path / "m.mlir", tmp_path / "d.npz", tmp_path / "out.mlir"
    path.write_text(PROGRAM.replace(old, new))
    np.savez(data, a=np.zeros((1, 4), np.float32))
    outputs = tmp_path / "out.npz"
    rest = {"run": ["--input", data, "-o", outputs], "quantize": ["--data", data, "-o", out], "opt": ["-o", out]}
    ran = CliRunner().invoke(main, list(map(str, [command, path, *rest[command]])))
    assert ran.exit_code == 2, ran.output
    (line,) = ran.output.splitlines()[-1:]
    assert f"{path}{place}" in line
    assert found in line
    assert "xpected" in line
    assert line.endswith(FIX)
    assert "{first_char}" not in line
    assert not out.exists()
    assert not outputs.exists()


@pytest.mark.parametrize("text", ["rules:\n- a: b: c\n", "rules:\n- [a\n", "rules: @\n", "rules:\n- op: !x y\n"])
def test_a_recipe_that_is_no_yaml(text: str, tmp_path: Path) -> None:
    model, recipe, out = tmp_path / "m.mlir", tmp_path / "r.yaml", tmp_path / "out.mlir"
    model.write_text(PROGRAM)
    recipe.write_text(text)
    ran = CliRunner().invoke(main, ["quantize", str(model), "--recipe", str(recipe), "-o", str(out)])
    assert ran.exit_code == 2, ran.output
    assert "found no valid YAML" in ran.output
    assert "expected lines 'key: value'" in ran.output
    assert not out.exists()
