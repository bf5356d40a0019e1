"""Inverses and determinants of small matrices, which PyTorch's ONNX exporter lacks: by cofactors."""

from __future__ import annotations

import importlib
from typing import Any

MOST_ROWS = 4
"""Maximum size. Cofactors of larger matrices are many, and not accurate."""


def _torch() -> Any:
    return importlib.import_module("torch")


def _is_small(a: Any) -> bool:
    return a.dim() >= 2 and 1 <= a.shape[-1] <= MOST_ROWS


def inverse(a: Any) -> Any:
    """The inverse."""
    return _inverse(a) if _is_small(a) else NotImplemented


def determinant(a: Any) -> Any:
    """The determinant."""
    return _determinant(a) if _is_small(a) else NotImplemented


def log_determinant(a: Any) -> Any:
    """The logarithm of the determinant, NaN if that is negative."""
    if not _is_small(a):
        return NotImplemented
    scaled, size = _scaled(a)
    return _determinant(scaled).log() + a.shape[-1] * size[..., 0, 0].log()


def sign_and_logarithm(a: Any) -> Any:
    """The sign of the determinant, and the logarithm of its absolute value."""
    if not _is_small(a):
        return NotImplemented
    scaled, size = _scaled(a)
    found = _determinant(scaled)
    return found.sign(), found.abs().log() + a.shape[-1] * size[..., 0, 0].log()


def solution(a: Any, b: Any, *, left: bool = True) -> Any:
    """The x of a x = b, or of x a = b."""
    if not _is_small(a):
        return NotImplemented
    is_vector = b.dim() == 1 or b.shape == a.shape[:-1]
    b = b.unsqueeze(-1 if left else -2) if is_vector else b
    found = _inverse(a) @ b if left else b @ _inverse(a)
    return found.squeeze(-1 if left else -2) if is_vector else found


def _scaled(a: Any) -> tuple[Any, Any]:
    """A matrix divided by its greatest magnitude, so that f32 holds its determinant, and this magnitude."""
    size = a.abs().amax((-2, -1), keepdim=True)
    size = _torch().where(size == 0, 1.0, size)
    return a / size, size


def _inverse(a: Any) -> Any:
    if a.shape[-1] == 1:
        return 1 / a
    scaled, magnitude = _scaled(a)
    return _inverse_of_scaled(scaled) / magnitude


def _inverse_of_scaled(a: Any) -> Any:
    torch, size = _torch(), a.shape[-1]
    rows = [torch.stack([_cofactor(a, j, i) for j in range(size)], -1) for i in range(size)]
    adjugate = torch.stack(rows, -2)
    # The first row of a, times the first column of cofactors.
    found = (a[..., 0, :] * adjugate[..., :, 0]).sum(-1)
    return adjugate / found[..., None, None]


def _determinant(a: Any) -> Any:
    size = a.shape[-1]
    if size == 1:
        return a[..., 0, 0]
    if size == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    return sum((a[..., 0, j] * _cofactor(a, 0, j) for j in range(1, size)), a[..., 0, 0] * _cofactor(a, 0, 0))


def _cofactor(a: Any, row: int, column: int) -> Any:
    """The determinant without a row and a column, with its sign."""
    torch, size = _torch(), a.shape[-1]
    rows, columns = ([i for i in range(size) if i != left_out] for left_out in (row, column))
    minor = torch.stack([torch.stack([a[..., i, j] for j in columns], -1) for i in rows], -2)
    found = _determinant(minor)
    return found if (row + column) % 2 == 0 else -found
