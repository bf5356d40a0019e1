"""Who may import whom. The table is the one of docs/architecture.md."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import zeropoint

ROOT = Path(zeropoint.__file__).parent
MAY_IMPORT = {
    "numerics": set(),
    "ir": {"numerics"},
    "quant_passes": {"ir", "numerics"},
    "frontend": {"ir", "numerics", "quant_passes"},
    "interp": {"ir", "numerics"},
    "calibrate": {"ir", "numerics", "interp"},
    "targets": {"ir", "numerics"},
    "fuse": {"ir", "numerics", "targets"},
    "simplify": {"ir", "numerics"},
    "recipe": {"ir", "numerics"},
    "solve": {"ir", "numerics", "targets"},
    "materialize": {"ir", "numerics", "solve", "targets"},
    "ranges": {"ir", "numerics"},
    "lower": {"ir", "numerics", "quant_passes", "targets", "ranges"},
    "standard": {"ir", "numerics", "quant_passes", "expand"},
    "correct": {"ir", "numerics", "interp", "calibrate", "materialize", "solve", "targets", "lower"},
    "report": {"ir", "numerics", "targets", "ranges"},
    "budget": {"ir", "targets", "report"},
    "expand": {"ir"},
    "codegen": {"ir", "expand", "numerics"},
    "export": {"ir", "numerics", "targets", "materialize"},
    "measure": {
        *("ir", "calibrate", "codegen", "engines", "bit_widths", "frontend", "interp", "passes", "pipeline", "recipe"),
        *("quantization", "numerics", "report", "targets"),
    },
    "check_target": {"ir", "targets", "frontend", "interp", "export", "pipeline"},
}
FOR_ALL = {"errors", "limits", "litert_schema", "progress", "version", "workers"}
PACKAGES = sorted(MAY_IMPORT)
TOP = {
    "__init__",
    "__main__",
    "bit_widths",
    "budget_candidates",
    "budget_search",
    "comparison",
    "demands",
    "diagnostics",
    "engines",
    "equalization",
    "errors",
    "limits",
    "litert_schema",
    "model",
    "opt",
    "options",
    "passes",
    "pipeline",
    "progress",
    "quantization",
    "sensitivities",
    "specializations",
    "specialize",
    "split_composites",
    "timing",
    "verification",
    "version",
    "workers",
}


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("zeropoint.")}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_layer_may(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        foreign = imported_packages(path) - MAY_IMPORT[package] - FOR_ALL - {package}
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def test_only_running_as_a_module_imports_the_command_line() -> None:
    above = {path for path in ROOT.rglob("*.py") if "cli" in imported_packages(path)}
    assert {path for path in above if path.parent != ROOT / "cli"} == {ROOT / "__main__.py"}


def test_every_folder_and_module_has_its_place_in_the_layers() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders == {*PACKAGES, "cli"}
    assert {path.stem for path in ROOT.glob("*.py")} == TOP


def test_no_module_is_named_after_nothing_in_particular() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert not [path for path in ROOT.rglob("*.py") if path.stem in vague]


def _modules() -> dict[str, Path]:
    found = {
        ".".join(("zeropoint", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


def _imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    """What a module imports anywhere: at its top, for type checking only, inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
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
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_helpers_of_tests_live_in_helper_modules_and_are_imported_by_their_full_name() -> None:
    tests = Path(__file__).parent
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path.relative_to(tests)} imports relatively"
                named = (node.module or "").split(".")
                assert not named[-1].startswith("test_"), f"{path.relative_to(tests)} imports {node.module}"
                beside = path.parent != tests and len(named) == 1 and (path.parent / f"{named[0]}.py").exists()
                assert not beside, f"{path.relative_to(tests)} imports {node.module} without its folder"
