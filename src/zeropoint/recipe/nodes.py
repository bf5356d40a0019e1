"""Parses YAML to nodes, within limits: with aliases, a few lines can expand to terabytes or contain themselves.

Only the tags of YAML's safe loader are supported, so a file can only create strings, numbers, lists and dicts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

from zeropoint.recipe.rules import RecipeError

MOST_BYTES = 4 << 20
MOST_DEPTH = 16
MOST_NODES = 200_000
"""Maximum number of nodes, after all aliases are expanded."""


class LimitedLoader(yaml.SafeLoader):
    """The safe loader, limited to `MOST_NODES` nodes, nested at most `MOST_DEPTH` deep."""

    def __init__(self, text: str, path: Path):
        super().__init__(text)
        self._path = path
        self._depth = self._count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node and its children. Raises RecipeError beyond a limit."""
        self._depth += 1
        self._count += 1
        if self._depth > MOST_DEPTH:
            raise RecipeError(f"{self._where}: found lists or keys nested more than {MOST_DEPTH} deep")
        if self._count > MOST_NODES:
            raise RecipeError(f"{self._where}: found more than {MOST_NODES} values, expected a recipe of fewer")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    @property
    def _where(self) -> str:
        event = cast("Any", self.peek_event())  # pyright: ignore[reportUnknownMemberType] (yaml has no types)
        return f"{self._path}:{event.start_mark.line + 1}"


def read_nodes(path: Path) -> tuple[LimitedLoader, yaml.Node | None]:
    """The loader of a file, and the root node of its only document.

    Raises RecipeError beyond a limit, OSError, yaml.YAMLError and UnicodeDecodeError.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise RecipeError(f"{path}: found {size} bytes, expected a recipe of up to {MOST_BYTES}")
    loader = LimitedLoader(path.read_text(encoding="utf-8"), path)
    root = loader.get_single_node()
    if root is not None:
        _count(root, {}, path)
    return loader, root


def _count(node: yaml.Node, counts: dict[int, int | None], path: Path) -> int:
    """The number of nodes in a subtree after all aliases are expanded. Raises RecipeError beyond a limit."""
    if id(node) not in counts:
        counts[id(node)] = None  # None marks a node that is being counted; to meet it again means a cycle
        counts[id(node)] = 1 + sum(_count(child, counts, path) for child in _children(node))
    found = counts[id(node)]
    where = f"{path}:{node.start_mark.line + 1}"
    if found is None:
        raise RecipeError(f"{where}: found an alias inside of its own value, expected a finite value")
    if found > MOST_NODES:
        raise RecipeError(f"{where}: found aliases that expand to {found} values, expected up to {MOST_NODES}")
    return found


def _children(node: yaml.Node) -> list[yaml.Node]:
    held: Any = node.value
    if isinstance(node, yaml.MappingNode):
        return [part for pair in held for part in pair]
    return list(held) if isinstance(node, yaml.SequenceNode) else []
