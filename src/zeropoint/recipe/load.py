"""Recipes from YAML files and from Python lists.

```yaml
rules:
  - regex: 'encoder\\.layer\\.0\\..*'
    observer: percentile:99.99
  - op: softmax
    quantize: false
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from zeropoint.errors import check_regular, reading
from zeropoint.numerics.arrays import plain
from zeropoint.recipe.nodes import read_nodes
from zeropoint.recipe.rules import OF_STORED_OUTPUTS, SELECTORS, SETTINGS, Key, Pattern, RecipeError, RecipeRules, Rule

EXPECTED = "expected lines 'key: value', with quotes around values that have ': ', '#' or brackets"


def load_recipe(path: Path | str) -> RecipeRules:
    """The recipe in a YAML file.

    Raises RecipeError, which names the file, the line, the rule and the key; OSError if the file cannot be read.
    """
    check_regular(Path(path), RecipeError)
    if not Path(path).is_file():
        found = "a folder" if Path(path).is_dir() else "no such file"
        raise RecipeError(f"{path}: found {found}, expected a recipe in YAML")
    with reading(path, RecipeError):
        return _read_file(Path(path))


def _read_file(path: Path) -> RecipeRules:
    try:
        loader, root = read_nodes(path)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: found bytes that are not text, expected YAML") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise RecipeError(f"{path}{line}: found no valid YAML: {error.problem}, {EXPECTED}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: found no valid YAML: {error}, {EXPECTED}") from error
    if not isinstance(root, yaml.MappingNode) or [key.value for key, _ in root.value] != ["rules"]:
        found = "a list" if isinstance(root, yaml.SequenceNode) else "nothing" if root is None else "other keys"
        raise RecipeError(f"{path}: found {found}, expected one key 'rules' at the top, with a list of rules")
    listed = root.value[0][1]
    if not isinstance(listed, yaml.SequenceNode) or not listed.value:
        raise RecipeError(f"{path}:{root.start_mark.line + 1}: expected a list of rules under 'rules', one or more")
    rules: list[Rule] = []
    for number, node in enumerate(listed.value, start=1):
        where = f"{path}:{node.start_mark.line + 1}: rule {number}"
        rules.append(_rule(where, _entries(where, node, loader)))
    return RecipeRules(str(path), tuple(rules))


def recipe_of(rules: Any, name: str = "recipe") -> RecipeRules:
    """The recipe from Python dicts, one per rule, with the same keys as in a file. Raises RecipeError.

    The path of a YAML file, and a dict with the content of one, `{"rules": [...]}`, are accepted, too.
    """
    if isinstance(rules, str | Path):
        return load_recipe(rules)
    if isinstance(rules, Mapping) and list(cast("Mapping[str, Any]", rules)) == ["rules"]:
        rules = cast("Any", rules["rules"])
    listed = cast("list[Any]", list(rules)) if isinstance(rules, list | tuple) else None  # pyright: ignore[reportUnknownArgumentType] (what the user gave)
    if listed is None or not all(isinstance(rule, Mapping) for rule in listed):
        raise RecipeError(f"{name}: found {type(rules).__name__}, expected a list of rules, each a dict")  # pyright: ignore[reportUnknownArgumentType] (what the user gave)
    if not listed:
        raise RecipeError(f"{name}: found no rules, expected one or more")
    made = (
        _rule(f"{name}: rule {number}", [(key, plain(rule[key])) for key in rule])
        for number, rule in enumerate(listed, start=1)
    )
    return RecipeRules(name, tuple(made))


def _entries(where: str, node: yaml.Node, loader: yaml.SafeLoader) -> list[tuple[str, Any]]:
    """The (key, value) pairs of a rule, with duplicate keys, so that these can be reported."""
    if not isinstance(node, yaml.MappingNode):
        raise RecipeError(f"{where}: expected keys and values, such as 'name: conv1'")
    try:
        # get_single_node does not construct Python objects, because a dict would hide duplicate keys.
        return [(str(_python(loader, key)), _python(loader, value)) for key, value in node.value]
    except yaml.YAMLError as error:
        raise RecipeError(f"{where}: found no valid YAML: {error}, {EXPECTED}") from error


def _python(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    return loader.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType] (yaml has no types)


def _rule(where: str, entries: Iterable[tuple[str, Any]]) -> Rule:
    seen: dict[str, Any] = {}
    for key, value in entries:
        if key in seen:
            raise RecipeError(f"{where}: found key '{key}' twice, expected it once")
        if key not in SELECTORS and key not in SETTINGS:
            raise RecipeError(f"{where}: found key '{key}', expected one of: {', '.join([*SELECTORS, *SETTINGS])}")
        seen[key] = value
    selectors = [key for key in seen if key in SELECTORS]
    if len(selectors) != 1:
        found = " and ".join(f"'{key}'" for key in selectors) or "nothing"
        raise RecipeError(f"{where}: found {found} to select by, expected one of: {', '.join(SELECTORS)}")
    settings = {key: _read(where, key, SETTINGS[key], seen[key]) for key in seen if key in SETTINGS}
    if not settings:
        raise RecipeError(f"{where}: found nothing to set, expected one or more of: {', '.join(SETTINGS)}")
    _check_together(where, settings)
    selector = selectors[0]
    pattern = _read(where, selector, SELECTORS[selector], seen[selector])
    return Rule(where, selector, pattern, cast("dict[str, str]", settings))


def _check_together(where: str, settings: Mapping[str, object]) -> None:
    """Raise RecipeError for settings of one rule that exclude each other, or of which one is missing."""
    if "zero_point" in settings and "scale" not in settings:
        raise RecipeError(f"{where}: found key 'zero_point' without 'scale', expected both")
    if "range" in settings and "scale" in settings:
        raise RecipeError(f"{where}: found keys 'range' and 'scale', expected one of them: each determines the other")
    if settings.get("quantize") == "false" and len(settings) > 1:
        other = next(key for key in settings if key != "quantize")
        raise RecipeError(f"{where}: found 'quantize: false' and key '{other}', which has no effect on float ops")
    other = next((key for key in settings if key in OF_STORED_OUTPUTS), None)
    if settings.get("activations") == "float" and other is not None:
        raise RecipeError(
            f"{where}: found 'activations: float' and key '{other}', which has no effect on float outputs"
        )
    if "observer" in settings and (decides := {"range", "scale"} & settings.keys()):
        other = min(decides)
        raise RecipeError(
            f"{where}: found keys 'observer' and '{other}', expected one of them: {other} replaces the observed range"
        )


def _read(where: str, name: str, key: Key, found: object) -> Pattern:
    value = key.read(found)
    if value is None:
        raise RecipeError(f"{where}: key '{name}': found {repr(found)!s:.200}, expected {key.expected}")
    return value
