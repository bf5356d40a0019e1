"""Ops that PyTorch's ONNX exporter lacks or exports wrongly; skipped where PyTorch is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.ir.text import print_program

torch = pytest.importorskip("torch")
functions: Any = torch.nn.functional
X = np.random.default_rng(0).normal(0, 1, (3, 6)).astype(np.float32)
OFFSETS = torch.tensor([0, 2, 2])
INDICES = torch.tensor([0, 1, 2, 1, 0])


PLACES = torch.tensor([[0, 1, 1], [2, 2, 2], [5, 4, 5]])
SPECIAL = torch.tensor([-torch.inf, -0.0, 0.0, 1.0, -2.0, -1.0, 0.5, 3e5, torch.inf, torch.nan])


def with_nan(x: Any) -> Any:
    return torch.where(x > 1, torch.nan, x)


def volumes(x: Any) -> Any:
    return torch.stack([x, x.flip(1), x * 2, x.flip(0), x * x])[None]


def matrix(x: Any, size: int) -> Any:
    return x.reshape(-1)[: size * size].reshape(size, size) + 3 * torch.eye(size)


def images(x: Any) -> Any:
    return torch.stack([x, x.flip(1)])[None]


def windowed_attention(x: Any) -> Any:
    """As in Hiera: batch, heads, windows, rows, features; with masks, and with fewer windows of keys."""
    q = torch.stack([x, x.flip(0), x * 2, x.flip(1), x + 1, x - 1]).reshape(1, 2, 3, 3, 6)
    k, v = q.flip(3), q * q
    mask = (q[:, :, :, :, :3] > -1) | torch.eye(3, dtype=torch.bool)
    attention = functions.scaled_dot_product_attention
    return (
        attention(q, k, v),
        attention(q, k, v, is_causal=True, scale=0.3),
        attention(q, k, v, mask),
        attention(q, k[:, :1], v[:, :, :1], attn_mask=q[0, 0, :, :, :3]),
        attention(q, k[0, 0, 0], v[0, 0, 0]),
    )


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


def dynamically_quantized_tokens(x: Any) -> Any:
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    ops = torch.ops.quantized_decomposed
    scale, zero = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    integers = ops.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
    return ops.dequantize_per_token(integers, scale, zero, -128, 127, torch.int8, torch.float32)


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
    "integers from a real number": lambda x: (
        1.0 - (9 * x).int(),
        0.5 - (x > 0).to(torch.int64),
        torch.rsub((9 * x).int(), 2.5, alpha=3),
        1 - (9 * x).int(),
        1.0 - x,
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
    "medians with NaN": lambda x: (with_nan(x).median(1), with_nan(x).median(0), with_nan(x).median()),
    "medians of numbers": lambda x: (
        with_nan(x).nanmedian(1),
        with_nan(x).nanmedian(0, keepdim=True),
        (x / 0 * 0).nanmedian(1)[0],
        with_nan(x).nanmedian(),
    ),
    "mode": lambda x: (x.round().mode(1), x.round().mode(0, keepdim=True), (2 * x).int().mode()),
    "running maximum": lambda x: (x.cummax(1), x.round().cummax(0), with_nan(x).cummax(1), (2 * x).int().cummax(1)),
    "running minimum": lambda x: (x.cummin(1), x.round().cummin(0), with_nan(x).cummin(1)),
    "gamma function": lambda x: (torch.lgamma(x * 9), torch.lgamma(x * x), torch.lgamma(SPECIAL)),
    "its derivative": lambda x: (torch.digamma(x * 9), torch.digamma(SPECIAL)),
    "inverse error function": lambda x: (x.tanh().erfinv(), torch.erfinv(SPECIAL), (x * 0 + 0.9999).erfinv()),
    "bessel function": lambda x: (
        torch.i0(x * 4),
        torch.i0(x * 40),
        torch.special.i0((9 * x).int()),
        torch.i0(SPECIAL),
    ),
    "derivatives of digamma": lambda x: [
        *(torch.polygamma(order, x.abs() * 5 + 0.01) for order in range(5)),
        torch.polygamma(1, torch.tensor([-3.5, -0.25, -1.7, 0.5, 1e4])),
        torch.polygamma(2, torch.tensor([-3.5, -0.25, 0.0, 1.0, 1e4, torch.inf])),
    ],
    "common divisors": lambda x: (
        torch.gcd((1000 * x).int(), (1000 * x.flip(1)).int()),
        torch.gcd((1000 * x).long(), torch.tensor([0, 6, -12, 1, 35, 64])),
        torch.gcd(torch.tensor([7540113804746346429, -(2**40)]), torch.tensor([4660046610375530309, 2**35])),
        torch.gcd((30 * x).abs().to(torch.uint8), torch.tensor(12, dtype=torch.uint8)),
    ),
    "stacks side by side": lambda x: (
        torch.hstack([x, x + 1]),
        torch.hstack([x[0], x[1, :2]]),
        torch.hstack([x[0, 0], x[0, 1]]),
        torch.vstack([x, x[:1]]),
        torch.vstack([x[0], x[1]]),
        torch.vstack([x[0, 0], x[0, 1]]),
    ),
    "stacks in depth": lambda x: (
        torch.dstack([x, x + 1]),
        torch.dstack([x[0], x[1]]),
        torch.dstack([x[0, 0], x[0, 1]]),
        torch.dstack([x[None], x[None]]),
    ),
    "pseudoinverses": lambda x: (
        torch.linalg.pinv(x),
        torch.linalg.pinv(x.T),
        torch.linalg.pinv(volumes(x)[0]),
        torch.linalg.pinv(x, rtol=0.6),
        torch.linalg.pinv(x, atol=2.0),
    ),
    "pseudoinverses of matrices of lower rank": lambda x: (
        torch.linalg.pinv(torch.stack([x[0], x[1], x[0] + x[1], x[2]]), rtol=1e-4),
        torch.linalg.pinv(x[:, :1] * x[:1, :4], rtol=1e-4),
        torch.linalg.pinv(x * 0),
    ),
    "exponentials of matrices": lambda x: (
        torch.linalg.matrix_exp(x[:, :3]),
        torch.matrix_exp(torch.stack([x[:, :3] * 0, x[:, 3:] * 4, torch.eye(3) * -9])),
        torch.linalg.matrix_exp(x.T @ x),
    ),
    "an inverse with a status": lambda x: torch.linalg.inv_ex(torch.stack([matrix(x, 3), matrix(x, 3).T])),
    "functions of one number": lambda x: [
        each
        for number in (x[0, 0], (9 * x[0, 0]).int())
        for each in (number.mode(), number.median(0), number.kthvalue(1, 0), number.cummax(0), number.median())
    ],
    "nothing that replaces": lambda x: (
        x.masked_scatter(x > 9, torch.zeros(0)),
        x[:0].masked_scatter(x[:0] > 0, x),
    ),
    "sign of another number": lambda x: (
        torch.copysign(x, x.flip(1)),
        torch.copysign(x, -0.0),
        torch.copysign(x[0, :5], SPECIAL[:5]),
        torch.signbit(SPECIAL),
        torch.signbit((9 * x).int()),
    ),
    "cross entropy of probabilities, and of one sample": lambda x: (
        functions.cross_entropy(x, x.softmax(1)),
        functions.cross_entropy(x, x.softmax(1), weight=x[0].abs(), reduction="none"),
        functions.cross_entropy(x[0], torch.tensor(3), weight=x[1].abs()),
        functions.cross_entropy(x[0], torch.tensor(3), weight=x[1].abs(), label_smoothing=0.1),
        functions.cross_entropy(x[0], x[1].softmax(0), reduction="none"),
    ),
    "sign bit": lambda x: torch.signbit(SPECIAL),
    "sign of a number for integers": lambda x: torch.copysign((9 * x).int(), -1.5),
    "gamma functions of integers": lambda x: (
        torch.lgamma((9 * x).int()),
        torch.digamma((9 * x).int().abs() + 1),
        torch.erfinv((x > 0).int()),
    ),
    "sources larger than their indices": lambda x: [
        *(x.scatter_reduce(1, PLACES, x + 1, kind) for kind in ("sum", "mean", "amax")),
        x.scatter_add(1, PLACES, x + 1),
        x.scatter(1, PLACES, x + 1, reduce="add"),
    ],
    "sources larger than their indices, replaced": lambda x: x.scatter(1, PLACES[:, ::2], x + 1),
    "inverses of small and large numbers": lambda x: (
        torch.linalg.inv(matrix(x, 2) * 1e-25) * 1e-25,
        torch.linalg.solve(matrix(x, 2) * 1e25, x[0, :2]) * 1e25,
        torch.linalg.slogdet(matrix(x, 2) * 1e-25),
        torch.logdet(matrix(x, 2) * 1e25),
        torch.linalg.slogdet(x[:2, :2] * 0),
    ),
    "hypotenuse of large numbers": lambda x: (
        torch.hypot(x * 1e30, x.flip(1) * 1e30),
        torch.hypot(x * 1e-30, x.flip(1) * 1e-30),
        torch.hypot(SPECIAL[:, None], SPECIAL[:5]),
    ),
    "adaptive pool of volumes": lambda x: (
        functions.adaptive_max_pool3d(volumes(x), (2, 2, 4)),
        functions.adaptive_max_pool3d(volumes(x), (None, 2, 1), return_indices=True),
    ),
    "inverse matrix": lambda x: [torch.linalg.inv(matrix(x, n)) for n in (1, 2, 3, 4)],
    "determinant": lambda x: [torch.linalg.det(matrix(x, n)) for n in (1, 2, 3, 4)] + [torch.logdet(matrix(x, 3))],
    "linear system": lambda x: (
        torch.linalg.solve(matrix(x, 3), x[:, :2]),
        torch.linalg.solve(matrix(x, 4), x[0, :4]),
        torch.linalg.solve(matrix(x, 3), x[:2, :3], left=False),
    ),
    "scattered means": lambda x: [
        x.scatter_reduce(1, PLACES, x[:, 3:], "mean", include_self=own) for own in (True, False)
    ],
    "scattered products": lambda x: (
        x.scatter(1, PLACES, x[:, 2:], reduce="multiply"),
        x.scatter(1, PLACES, 2.0, reduce="add"),
    ),
    "scatter in order": lambda x: x.masked_scatter(x > 0.3, x.flip(1)),
    "numbers beside NaN": lambda x: (torch.fmax(with_nan(x), x.flip(1)), torch.fmin(x.flip(1), with_nan(x))),
    "leaky relu with a random slope": functions.rrelu,
    "cross entropy": lambda x: [
        functions.cross_entropy(x, classes, weight=weight, reduction=kind, label_smoothing=0.1)
        for classes in (torch.tensor([0, 2, 5]), x.softmax(1))
        for weight in (None, torch.arange(1.0, 7.0))
        for kind in ("none", "sum", "mean")
    ],
    "cross entropy without a class": lambda x: functions.cross_entropy(
        x, torch.tensor([0, 2, 5]), ignore_index=2, label_smoothing=0.2
    ),
    "corners of a scaled image": lambda x: [
        functions.interpolate(images(x), scale_factor=(1.7, 0.6), mode=mode, align_corners=True)
        for mode in ("bilinear", "bicubic")
    ],
    "corners of a scaled line": lambda x: functions.interpolate(
        images(x)[0], scale_factor=1.7, mode="linear", align_corners=True
    ),
    "adaptive means of volumes": lambda x: (
        functions.adaptive_avg_pool3d(volumes(x), (2, 2, 4)),
        functions.adaptive_avg_pool3d(volumes(x), (None, 3, 7)),
    ),
    "attention without heads": lambda x: (
        functions.scaled_dot_product_attention(images(x)[0], images(x)[0], images(x)[0] * 2, is_causal=True),
        functions.scaled_dot_product_attention(images(x)[0], images(x)[0], x[None].expand(2, 3, 6), x[:, :3] > -1),
        functions.scaled_dot_product_attention(images(x)[0], images(x)[0], images(x)[0], images(x)[0, :, :, :3]),
    ),
    "attention of rows alone": lambda x: functions.scaled_dot_product_attention(x, x.flip(0), x * 2, x[:, :3] > -1),
    "attention within windows": windowed_attention,
    "search for a number": lambda x: torch.searchsorted(x[0].sort()[0], 0.5),
    "distances of rows": lambda x: (functions.pdist(x), functions.pdist(x, 1)),
    "running product": lambda x: (x.cumprod(1), x.cumprod(0)),
    "in place": lambda x: (x.clone().cumprod_(1), x.clone().hypot_(x.flip(1))),
    "hypotenuse": lambda x: torch.hypot(x, x.flip(1)),
    "elements where a condition holds": overwritten,
    "product of integers": lambda x: torch._int_mm(
        (x * 20).to(torch.int8).repeat(6, 2)[:, :8], (x * 9).to(torch.int8).repeat(3, 2)[:8, :8]
    ),
    "dynamic quantization": dynamically_quantized,
    "dynamic quantization of tokens": dynamically_quantized_tokens,
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
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_projections_of_an_lstm(bidirectional: bool) -> None:
    torch.manual_seed(0)
    module = torch.nn.LSTM(6, 8, 2, proj_size=5, batch_first=True, bidirectional=bidirectional).eval()
    example = torch.from_numpy(X[None])
    for model in (zp.load(module, example=example), zp.load(torch.export.export(module, (example,)))):
        expected = arrays(module(example))
        for one, other in zip(model(X[None]).values(), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_what_the_exporter_gets_wrong_and_has_no_other_form_is_refused() -> None:
    module = Case(
        lambda x: functions.interpolate(images(x), (2, 4), mode="bilinear", antialias=True, align_corners=True)
    )
    with pytest.raises(zp.Error, match=r"found aten._upsample_bilinear2d_aa in a form that .* wrongly, .*; write that"):
        zp.load(module, example=torch.from_numpy(X))


def test_large_matrices_are_refused() -> None:
    module = Case(lambda x: torch.linalg.inv(x.T @ x))
    with pytest.raises(zp.Error, match=r"aten.linalg_inv.*; inverses and determinants of up to 4 rows are loaded"):
        zp.load(module, example=torch.from_numpy(X))


class Weights(torch.nn.Module):
    """A linear layer with integer weights that have a scale, and maybe a zero point, for each group of columns."""

    def __init__(self, group: int, bounds: tuple[int, int], zeros: bool) -> None:
        super().__init__()
        importlib.import_module("torch.ao.quantization.fx._decomposed")
        torch.manual_seed(0)
        self.group, self.bounds = group, bounds
        self.register_buffer("weight", torch.randint(bounds[0], bounds[1] + 1, (5, 24), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(5, 24 // group) + 0.01)
        found = torch.randint(-2, 3, (5, 24 // group), dtype=torch.int32)
        self.register_buffer("zeros", found if zeros else None)

    def forward(self, x: Any) -> Any:
        dequantize = torch.ops.quantized_decomposed.dequantize_per_channel_group.default
        settings = (*self.bounds, torch.int8, self.group, torch.float32)
        return functions.linear(x, dequantize(self.weight, self.scales, self.zeros, *settings))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("group", "bounds", "kind"), [(8, (-8, 7), "i8<-8:7>"), (8, (-128, 127), "i8"), (24, (-8, 7), "i8<-8:7>")]
)
def test_weights_with_groups_keep_their_integers(group: int, bounds: tuple[int, int], kind: str, zeros: bool) -> None:
    module = Weights(group, bounds, zeros).eval()
    x = torch.from_numpy(X.reshape(1, 18).repeat(2, 0).repeat(2, 1)[:, :24])
    model = zp.load(module, example=x)
    blocks = "0:1, 1:8" if group < 24 else "0"
    assert f"!quant.uniform<{kind}:f32:{{{blocks}}}" in print_program(model.program).replace("f32:0,", "f32:{0},")
    (found,) = model.interpreted()(x.numpy()).values()
    np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("group", [8, 24])
def test_weights_of_torchao_keep_their_integers(group: int) -> None:
    quantization = pytest.importorskip("torchao.quantization", reason="torchao quantizes the weights")
    granularity = importlib.import_module("torchao.quantization.granularity").PerGroup(group)
    module = torch.nn.Sequential(torch.nn.Linear(24, 5)).eval()
    config = quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=granularity)
    quantization.quantize_(module, config)
    x = torch.from_numpy(X.reshape(1, 18).repeat(2, 0).repeat(2, 1)[:, :24])
    for model in (zp.load(module, example=x), zp.load(torch.export.export(module, (x,)))):
        assert "!quant.uniform<i8<-8:7>:f32" in print_program(model.program)
        (found,) = model.interpreted()(x.numpy()).values()
        np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def quantized_and_back(lowest: int, highest: int, dtype: Any) -> Callable[[Any], Any]:
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    ops = torch.ops.quantized_decomposed
    settings = (0.0371, 1, lowest, highest, dtype)
    return lambda x: ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *settings), *settings)


def fake_quantized(lowest: int, highest: int) -> Callable[[Any], Any]:
    return lambda x: torch.fake_quantize_per_tensor_affine(x, 0.0371, 1, lowest, highest)


def fake_quantized_rows(lowest: int, highest: int) -> Callable[[Any], Any]:
    scales, zeros = torch.linspace(0.011, 0.053, 3), torch.ones(3, dtype=torch.int32)
    return lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, lowest, highest)


def fake_quantized_by_tensors(lowest: int, highest: int) -> Callable[[Any], Any]:
    scale, zero = torch.tensor(0.0371), torch.tensor(1, dtype=torch.int32)
    return lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, lowest, highest)


BOUNDS = {
    "reduced range": ((0, 127), "u8<0:127>"),
    "symmetric": ((-127, 127), "i8<-127:127>"),
    "4 bits": ((-8, 7), "i8<-8:7>"),
    "4 bits, unsigned": ((0, 15), "u8<0:15>"),
    "7 bits": ((-64, 63), "i8<-64:63>"),
    "12 bits": ((-2048, 2047), "i16<-2048:2047>"),
    "16 bits": ((-32768, 32767), "i16"),
}


@pytest.mark.parametrize("form", [fake_quantized, fake_quantized_rows, fake_quantized_by_tensors])
@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_fake_quantization(form: Callable[[int, int], Callable[[Any], Any]], name: str) -> None:
    bounds, kind = BOUNDS[name]
    check_bounds(form(*bounds), kind)


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_quantization(name: str) -> None:
    bounds, kind = BOUNDS[name]
    dtype = torch.int16 if "16" in kind else torch.uint8 if kind[0] == "u" else torch.int8
    check_bounds(quantized_and_back(*bounds, dtype), kind)


def check_bounds(function: Callable[[Any], Any], kind: str) -> None:
    """Values beyond the bounds are clamped to them, and the bounds are those of the storage."""

    class Casts(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    x = torch.from_numpy(X * 5)
    model = zp.load(Casts(), example=x)
    assert f"!quant.uniform<{kind}:f32" in print_program(model.program)
    (found,) = model.interpreted()(x.numpy()).values()
    np.testing.assert_allclose(found, function(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ends", [[2, 2, 6], [0, 3, 5], [6, 6, 6]])
def test_each_group_of_rows_is_multiplied_by_its_own_weights(ends: list[int]) -> None:
    # The op that `transformers` registers for mixtures of experts; registered here where it is not installed.
    library = torch.library
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        library.define("transformers::grouped_mm_fallback", "(Tensor input, Tensor weight, Tensor offs) -> Tensor")

        @library.register_fake("transformers::grouped_mm_fallback")
        def _shape(input: Any, weight: Any, offs: Any) -> Any:
            return input.new_empty(input.shape[0], weight.shape[2])

    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 3, 4))

        def forward(self, x: Any, offs: Any) -> Any:
            return torch.ops.transformers.grouped_mm_fallback(x, self.weight, offs)

    torch.manual_seed(0)
    module, rows = Experts(), np.ascontiguousarray(X.T)
    model = zp.load(module, example=(torch.from_numpy(rows), torch.tensor(ends, dtype=torch.int32)))
    (found,) = model(rows, np.array(ends, np.int32)).values()
    weight, expected, start = module.weight.detach().numpy(), np.zeros((6, 4), np.float32), 0
    for group, end in enumerate(ends):
        expected[start:end] = rows[start:end] @ weight[group]
        start = end
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
