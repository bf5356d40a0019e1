"""Ops that PyTorch's ONNX exporter lacks or exports wrongly; skipped where PyTorch is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zeropoint as zp

torch = pytest.importorskip("torch")
functions: Any = torch.nn.functional
X = np.random.default_rng(0).normal(0, 1, (3, 6)).astype(np.float32)
OFFSETS = torch.tensor([0, 2, 2])
INDICES = torch.tensor([0, 1, 2, 1, 0])


def images(x: Any) -> Any:
    return torch.stack([x, x.flip(1)])[None]


def overwritten(x: Any) -> Any:
    """Elements, rows, and columns, where a condition holds."""
    result = x.clone()
    result[x > 1] = 9
    result[:, x[1] > 0] = 8
    result[x[:, 0] > 0] = 7
    return result


def dynamically_quantized(x: Any) -> Any:
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the ops of PT2E's graphs
    ops = torch.ops.quantized_decomposed
    bounds = (-128, 127, torch.int8)
    scale, zero = ops.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8)
    integers = ops.quantize_per_tensor.tensor(x, scale, zero, *bounds)
    return ops.dequantize_per_tensor.tensor(integers, scale, zero, *bounds)


CASES: dict[str, Callable[[Any], Any]] = {
    "average pool": lambda x: functions.avg_pool2d(images(x), 2, 1, divisor_override=3),
    "average pool, ceil": lambda x: functions.avg_pool2d(images(x), (2, 3), (2, 2), (1, 1), True, False, 5),
    "average pool, padding counted": lambda x: functions.avg_pool2d(images(x), 3, 2, 1, True, True, 2),
    "average pool of volumes": lambda x: functions.avg_pool3d(images(x)[None], (1, 2, 2), divisor_override=3),
    "adaptive pool": lambda x: functions.adaptive_max_pool2d(images(x), (2, 4)),
    "adaptive pool, equal windows": lambda x: functions.adaptive_max_pool2d(images(x), (3, 2), return_indices=True),
    "adaptive pool of lines": lambda x: functions.adaptive_max_pool1d(x, 4, return_indices=True),
    "embedding bag, sum": lambda x: functions.embedding_bag(
        INDICES, x, OFFSETS, mode="sum", per_sample_weights=x[0, :5], padding_idx=1
    ),
    "embedding bag, mean": lambda x: functions.embedding_bag(INDICES.reshape(1, 5) // 2, x, mode="mean"),
    "embedding bag, maximum": lambda x: functions.embedding_bag(INDICES, x, OFFSETS, mode="max"),
    "embedding bag, last offset": lambda x: functions.embedding_bag(
        INDICES, x, torch.tensor([0, 2, 5]), include_last_offset=True
    ),
    "distances": lambda x: torch.cdist(x, x[:2] * 2),
    "distances, p = 1": lambda x: torch.cdist(x, x[:2] * 2, p=1.0),
    "distances, p = 3": lambda x: torch.cdist(x, x[:2] * 2, p=3.0),
    "median": lambda x: (x.median(1), x.median(0, keepdim=True), x.median()),
    "k-th value": lambda x: x.kthvalue(2, 1),
    "search": lambda x: (torch.searchsorted(x[0].sort()[0], x), torch.searchsorted(x.sort(1)[0], x, right=True)),
    "search for a NaN": lambda x: [
        torch.searchsorted(x[0].sort()[0], (x - x) / (x - x), right=right) for right in (False, True)
    ],
    "running product": lambda x: (x.cumprod(1), x.cumprod(0)),
    "in place": lambda x: (x.clone().cumprod_(1), x.clone().hypot_(x.flip(1))),
    "hypotenuse": lambda x: torch.hypot(x, x.flip(1)),
    "elements where a condition holds": overwritten,
    "product of integers": lambda x: torch._int_mm(
        (x * 20).to(torch.int8).repeat(6, 2)[:, :8], (x * 9).to(torch.int8).repeat(3, 2)[:8, :8]
    ),
    "dynamic quantization": dynamically_quantized,
}


class Case(torch.nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def arrays(found: Any) -> list[np.ndarray]:
    if isinstance(found, tuple | list):
        return [array for part in found for array in arrays(part)]
    return [found.detach().numpy()]


@pytest.mark.parametrize("name", CASES)
def test_the_program_computes_what_pytorch_does(name: str) -> None:
    module = Case(CASES[name]).eval()
    found = zp.load(module, example=torch.from_numpy(X)).interpreted()(X)
    for one, other in zip(found.values(), arrays(module(torch.from_numpy(X))), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_projections_of_an_lstm(bidirectional: bool) -> None:
    torch.manual_seed(0)
    module = torch.nn.LSTM(6, 8, 2, proj_size=5, batch_first=True, bidirectional=bidirectional).eval()
    example = torch.from_numpy(X[None])
    for model in (zp.load(module, example=example), zp.load(torch.export.export(module, (example,)))):
        expected = arrays(module(example))
        for one, other in zip(model(X[None]).values(), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
