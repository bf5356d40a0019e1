"""The runtimes that run exported files. A runtime with several sets of kernels has an entry for each."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.origins import ONNXRUNTIME, OPENVINO
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.export.tosa.runtime import TosaFile, tosa_version
from zeropoint.ir.tensors import Array

VNNI = frozenset({"avx512vnni", "avxvnni"})
AMX = "amx-int8"


class File(Protocol):
    """An exported file, ready to run."""

    def __call__(self, inputs: Mapping[str, Array], /) -> dict[str, Array]: ...


def package_version(package: str) -> str:
    """The version of a package in this environment; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class Runtime:
    """A package, the name of its set of kernels, the suffix of its files, and the profile with the same arithmetic.

    `widths` are the activation widths in bits that these kernels support; at other widths the runtime uses its other
    kernels. `find_version` looks up the version of a package that is not in this environment.
    """

    package: str
    kernels: str
    suffix: str
    profile: str
    open: Callable[[Path], File]
    widths: tuple[int, ...] = (8, 16)
    find_version: Callable[[str], str] = package_version

    @property
    def name(self) -> str:
        """`onnxruntime 1.32.0, x64 without VNNI`."""
        return f"{self.package} {self.version}, {self.kernels}"

    @property
    def version(self) -> str:
        """The installed version; empty if there is none."""
        return self.find_version(self.package)


def has_vnni() -> bool:
    """Whether this processor has VNNI, which sums products of u8 x i8 in 32 bits."""
    return not VNNI.isdisjoint(_features())


def openvino_profile() -> str:
    """The profile with the arithmetic of OpenVINO's kernels on this processor."""
    return "openvino-amx" if AMX in _features() else "openvino"


def _features() -> set[str]:
    """The features of an x64 processor, by LLVM's names."""
    from zeropoint.codegen.llvm.machine import architecture, features  # imports LLVM, which is needed only here

    return features("x86_64") if architecture(platform.machine()) == "x86_64" else set()


def _processor() -> str:
    """The name of the kernels that a runtime selects on this processor."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return machine
    return f"x64 {'with' if has_vnni() else 'without'} VNNI"


def runtimes_of(target: str) -> Sequence[Runtime]:
    """The runtimes that run a target's files; empty if there is none."""
    if target in ONNXRUNTIME:
        return [Runtime("onnxruntime", _processor(), ".onnx", "onnxruntime", OnnxFile)]
    if target in OPENVINO:
        return [Runtime("openvino", _processor(), ".onnx", openvino_profile(), OpenVinoFile, (8,))]
    if target in ("litert", "litert-16x8"):
        return [
            Runtime(
                "ai-edge-litert",
                "reference kernels",
                ".tflite",
                "fixed32-double",
                lambda path: LiteRTFile(path, reference=True),
            ),
            Runtime("ai-edge-litert", "XNNPACK", ".tflite", "xnnpack", LiteRTFile, (8,)),
        ]
    if target == "tosa":
        found = Runtime("tosa-tools", "reference model", ".tosa.mlir", "tosa-double", TosaFile, (8,), tosa_version)
        return [found]
    return []
