"""Modules of PyTorch's older quantization, `torch.ao.quantization` in eager or FX mode.

| module | loaded as |
|---|---|
| `prepare_qat`, observers disabled | fake quantization with the scales and zero points that it has |
| `prepare_qat`, observers enabled | refused: each call changes the scales |
| `prepare` | refused: it observes, and rounds nothing |
| `convert`, `quantize_dynamic` | refused: PyTorch cannot export packed weights |
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Generator, Iterable
from typing import Any

from zeropoint.frontend.errors import ModelError

_QUANTIZED = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.", "torch.ao.nn.sparse.quantized.")
_FUNCTIONS = ("FloatFunctional", "FXFloatFunctional")
"""The classes among quantized modules that compute in floats."""


@contextlib.contextmanager
def fixed_fake_quantization(module: Any) -> Generator[None]:
    """Make fake quantization a function of its input, as long as the context is open.

    Raises ModelError for modules of `torch.ao.quantization` that cannot be loaded.
    """
    name, inner = type(module).__name__, list(module.modules())
    if packed := [each for each in inner if _home(each).startswith(_QUANTIZED) and _class(each) not in _FUNCTIONS]:
        raise ModelError(
            f"{name}: found {_listed(packed)} of torch.ao.quantization, whose weights PyTorch cannot export; quantize "
            f"the float module with zeropoint, or with prepare_pt2e and convert_pt2e"
        )
    fake = [each for each in inner if _home(each) == "torch.ao.quantization.fake_quantize"]
    parts = {id(part) for each in fake for part in each.modules()}
    observers = [each for each in inner if _home(each) == "torch.ao.quantization.observer" and id(each) not in parts]
    if observers:
        raise ModelError(
            f"{name}: found observers ({_listed(observers)}) of torch.ao.quantization.prepare; load the module from "
            f"before, and zeropoint calibrates it"
        )
    if any(bool(each.observer_enabled[0]) for each in fake):
        raise ModelError(
            f"{name}: found fake quantization whose observers are enabled, so that each call changes its scales; "
            f"disable them: model.apply(torch.ao.quantization.disable_observer)"
        )
    try:
        for each in fake:
            each.forward = _rounding(each)
        yield
    finally:
        for each in fake:
            each.__dict__.pop("forward", None)


def _rounding(module: Any) -> Callable[[Any], Any]:
    """What fake quantization computes with the scales and zero points that it has. Numbers are read before tracing."""
    torch: Any = importlib.import_module("torch")
    bounds = module.quant_min, module.quant_max
    if not module.fake_quant_enabled[0]:
        return lambda x: x
    if module.is_per_channel:
        return lambda x: torch.fake_quantize_per_channel_affine(
            x, module.scale, module.zero_point, module.ch_axis, *bounds
        )
    scale, zero = float(module.scale), int(module.zero_point)
    return lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, *bounds)


def _home(module: Any) -> str:
    return str(type(module).__module__)


def _class(module: Any) -> str:
    return str(type(module).__name__)


def _listed(modules: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(map(_class, modules)))
