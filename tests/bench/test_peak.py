"""The loops of peak.py compute what they claim; what they reach is the machine's business."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

pytest.importorskip("llvmlite", reason="needs the extra 'bench'")

import peak
from zeropoint.codegen.llvm import machine
from zeropoint.codegen.llvm.machine import architecture, features
from zeropoint.measure import peak as measured

X86 = platform.machine() in ("x86_64", "AMD64")
FEATURES = dict.fromkeys(features(architecture(platform.machine())), True)

pytestmark = pytest.mark.skipif(not X86, reason="the forms are those of x86")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "SECONDS", 0.0005)
    monkeypatch.setattr(measured, "REPEATS", 2)


@pytest.mark.parametrize("form", [*measured.FORMS, measured.CLOCK], ids=lambda form: form.name)
def test_sums_of_a_form_are_numpys(form: measured.ProductForm):
    if not all(FEATURES.get(feature, False) for feature in form.features):
        pytest.skip(f"this CPU has no {form.features[0]}")
    assert measured.arithmetic(form) > 0  # raises where the sums differ


def test_a_process_without_tile_registers_measures_the_rest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "request_tiles", lambda: False)
    machine.host.cache_clear()
    try:
        assert measured.arithmetic(measured.CLOCK) > 0
    finally:
        monkeypatch.undo()
        machine.host.cache_clear()


def test_sums_that_differ_are_refused():
    wrong = measured.ProductForm("subtraction", "clock", (), "1 x i64", "subq $3, $0", 1, 1, "flags", "r")
    with pytest.raises(ValueError, match="other sums than NumPy's from subtraction"):
        measured.arithmetic(wrong)


def test_the_widest_form_that_the_cpu_has_is_chosen():
    assert "TDPBUSD" in measured.choose("int8", {"amx-int8": True, "avx512vnni": True}).name
    assert measured.choose("int8", {"avx512vnni": True, "avx512bw": True, "avx2": True}).name == "VPDPBUSD, 512 bits"
    assert "VPMADDUBSW" in measured.choose("int8", {"avx512bw": True, "avx2": True}).name
    assert "256" in measured.choose("f32", {"fma": True}).name


def test_a_cpu_without_any_form_is_refused():
    with pytest.raises(
        ValueError, match="found no way to measure int8 on this CPU, expected one of the features amx-int8,"
    ):
        measured.choose("int8", {})


@pytest.mark.parametrize("write", [False, True])
def test_bandwidth_of_a_small_buffer_is_positive(write: bool):
    assert peak.bandwidth(1 << 14, write) > 0


def test_cache_sizes_are_the_data_caches_of_sysfs(tmp_path: Path):
    for index, (level, kind, size) in enumerate(
        [(1, "Data", "32K"), (1, "Instruction", "64K"), (2, "Unified", "1024K")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{value}\n")
    assert peak.cache_sizes(tmp_path) == {"L1": 32 << 10, "L2": 1 << 20}
    assert peak.cache_sizes(tmp_path / "absent") == {}
