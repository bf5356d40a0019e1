"""Who may import whom, by the table of docs/architecture.md, and what else holds of all modules."""

import ast
import functools
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import zeropoint

ROOT = Path(zeropoint.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
ROW = re.compile(r"^\| (`[^|]*`) \|([^|]*)\| ([^|]*) \|$", re.MULTILINE)
EVERYTHING = ("all of the above", "all; only")
FOR_EVERY_PACKAGE = "every package may import it"


def _names(cell: str) -> set[str]:
    """The folders and modules of a cell: `ir` of "`ir/`", `passes` of "`passes.py`"."""
    return {name.strip(" `").rstrip("/").removesuffix(".py") for name in cell.split(",")} - {"–", "nothing"}


def _table() -> dict[str, set[str] | None]:
    """What each folder and module may import by docs/architecture.md; None for those that may import everything."""
    text = (DOCS / "architecture.md").read_text()
    rows = ROW.findall(text)
    for_all = {"numerics"}.union(*(_names(name) for name, what, _ in rows if FOR_EVERY_PACKAGE in what))
    found: dict[str, set[str] | None] = {}
    for name, what, allowed in rows:
        beside = set() if FOR_EVERY_PACKAGE in what else for_all
        found |= dict.fromkeys(_names(name), None if allowed.startswith(EVERYTHING) else _names(allowed) | beside)
    return found


TABLE = _table()


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports_of(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The import statements of a module: at its top, for type checking only, inside functions."""
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom))


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in imports_of(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("zeropoint.")}


@pytest.mark.parametrize("name", sorted(name for name, allowed in TABLE.items() if allowed is not None))
def test_a_folder_or_module_imports_only_what_the_docs_say(name: str) -> None:
    module = ROOT / f"{name}.py"
    for path in [module] if module.exists() else (ROOT / name).rglob("*.py"):
        foreign = imported_packages(path) - (TABLE[name] or set()) - {name}
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def test_only_running_as_a_module_imports_the_command_line() -> None:
    above = {path for path in ROOT.rglob("*.py") if "cli" in imported_packages(path)}
    assert {path for path in above if path.parent != ROOT / "cli"} == {ROOT / "__main__.py"}


def test_every_folder_and_module_has_its_place_in_the_layers() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders | {path.stem for path in ROOT.glob("*.py")} == TABLE.keys() | {"__main__"}


def test_no_module_is_named_after_nothing_in_particular() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert not [path for path in ROOT.rglob("*.py") if path.stem in vague]


def _modules() -> dict[str, Path]:
    found = {
        ".".join(("zeropoint", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


def _imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    names: set[str] = set()
    for node in imports_of(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules else node.module for name in inner}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & modules.keys()


def test_no_import_circles() -> None:
    modules = _modules()
    imports = {name: _imported_modules(path, modules) - {name} for name, path in modules.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' -> '.join(error.args[1])}")


def test_imports_are_absolute() -> None:
    relative = [
        path.relative_to(ROOT)
        for path in ROOT.rglob("*.py")
        for node in imports_of(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_helpers_of_tests_live_in_helper_modules_and_are_imported_by_their_full_name() -> None:
    tests, source = Path(__file__).parent, re.compile(r"^ *from (\.*)([\w.]*) import (\w*)", re.MULTILINE)
    for path in tests.rglob("*.py"):
        for dots, module, name in source.findall(path.read_text()):  # to parse all tests takes seconds
            assert not dots, f"{path.relative_to(tests)} imports relatively"
            named = module.split(".")
            tested = [part for part in (named[-1], name) if part.startswith("test_")]
            assert not tested, f"{path.relative_to(tests)} imports {module}"
            beside = path.parent != tests and len(named) == 1 and (path.parent / f"{named[0]}.py").exists()
            assert not beside, f"{path.relative_to(tests)} imports {module} without its folder"


def test_ops_are_erased_by_the_rewriter() -> None:
    by_hand = [path.relative_to(ROOT) for path in ROOT.rglob("*.py") if ".erase()" in path.read_text()]
    assert not by_hand


def test_the_bounds_of_32_bits_are_written_by_name() -> None:
    written = re.compile(r"1 << 31\b|2 ?\*\* ?31\b|2147483647|0x7fffffff", re.IGNORECASE)
    digits = re.compile(r"31\b|2147483647|7fffffff", re.IGNORECASE)
    for path in ROOT.rglob("*.py"):
        if path != ROOT / "numerics" / "rounding.py" and digits.search(path.read_text().replace("_", "")):
            numbers = [
                ast.unparse(node)
                for node in ast.walk(parsed(path))
                if isinstance(node, ast.BinOp) or (isinstance(node, ast.Constant) and isinstance(node.value, int))
            ]
            assert not [number for number in numbers if written.fullmatch(number)], path.relative_to(ROOT)


def test_the_least_integer_of_a_width_is_computed_in_one_file() -> None:
    # By names of widths of any case, and by the half of unsigned storage.
    spelled = re.compile(r"-\(1 << \(?[A-Za-z]|if [a-z_.]*signed else (1 <<|half_range)")
    found = [path for path in ROOT.rglob("*.py") if path.name != "storage.py" and spelled.search(path.read_text())]
    assert not found, f"use integer_range or middle of numerics/storage.py in {found}"


def _home(path: Path, found: ast.ClassDef | ast.Assign) -> str:
    """The module of a class or a type; the folder of an op or attribute, whose name is one of its dialect."""
    decorators = {ast.unparse(decorator) for decorator in getattr(found, "decorator_list", ())}
    of_dialect = decorators & {"irdl_op_definition", "irdl_attr_definition"}
    return path.parent.name + " dialect" if of_dialect else path.relative_to(ROOT).as_posix()


def _type_name(node: ast.stmt) -> str | None:
    """The name of a class, or of a type given by an assignment; None for private ones, and for values."""
    name = node.name if isinstance(node, ast.ClassDef) else None
    # A call makes a type variable or a dialect.
    if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
        name = ast.unparse(node.targets[0])
    is_type = name is not None and name[0].isupper() and not name.isupper()
    return name if is_type else None


def test_the_name_of_a_class_or_type_has_one_home() -> None:
    homes: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef | ast.Assign) and (name := _type_name(node)):
                homes.setdefault(name, []).append(_home(path, node))
    shared = {
        name: found
        for name, found in homes.items()
        if len(found) > len(set(found)) or (len(found) > 1 and not all(home.endswith(" dialect") for home in found))
    }
    assert not shared, f"rename one of each: {shared}"
