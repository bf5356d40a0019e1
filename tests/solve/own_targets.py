"""Targets of a test's own: a built-in one and some more lines."""

from __future__ import annotations

from pathlib import Path

from zeropoint.targets import Target, target


def table(folder: Path, text: str, base: str = "litert") -> Target:
    path = folder / "mine.toml"
    path.write_text(f'name = "mine"\nextends = "{base}"\n{text}')
    return target(str(path))


def row(**columns: object) -> str:
    found = {"name": "gate", "inputs": ["act i8"], "output": "act i8", "relation": "free", **columns}
    return "[[kernel]]\n" + "\n".join(f"{key} = {value!r}" for key, value in found.items())
