"""Functions of matrices that PyTorch's ONNX exporter lacks: inverses and determinants of small ones by cofactors,
pseudoinverses by rotations, exponentials by products.
"""

from __future__ import annotations

import importlib
from typing import Any

MOST_ROWS = 4
"""Maximum size. Cofactors of larger matrices are many, and not accurate."""
SWEEPS = 6
"""How often each pair of columns is rotated. Convergence is quadratic."""
TAYLOR = 10
"""The degree of the series of an exponential, for matrices of norm 1/2."""
SQUARINGS = 16


def _torch() -> Any:
    return importlib.import_module("torch")


def _is_small(a: Any) -> bool:
    return a.dim() >= 2 and 1 <= a.shape[-1] <= MOST_ROWS


def inverse(a: Any) -> Any:
    """The inverse."""
    return _inverse(a) if _is_small(a) else NotImplemented


def inverse_and_status(a: Any, *, check_errors: bool = False) -> Any:
    """The inverse, and 0, or the number of rows if the determinant is 0, as LAPACK has for the last pivot."""
    if not _is_small(a) or check_errors:
        return NotImplemented
    torch = _torch()
    rows = torch.where(_determinant(_scaled(a)[0]) == 0, a.shape[-1], 0)
    return _inverse(a), rows.to(torch.int32)


def exponential(a: Any) -> Any:
    """e to the power of a matrix: Taylor's series of a / 2^s, squared s times (Golub and Van Loan, 9.3)."""
    torch, rows = _torch(), a.shape[-1]
    size = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    steps = (size.clamp(min=1e-30).log2() + 1).ceil().clamp(0, SQUARINGS)
    scaled = a / 2.0**steps
    one = torch.eye(rows, dtype=a.dtype)
    found = one + scaled / TAYLOR
    for divisor in range(TAYLOR - 1, 0, -1):
        found = one + scaled @ found / divisor
    for step in range(SQUARINGS):
        found = torch.where(steps > step, found @ found, found)
    return found


def pseudo_inverse(a: Any, rcond: Any = None, hermitian: bool = False) -> Any:
    """`pinverse` of PyTorch, and `linalg.pinv` with a relative tolerance."""
    return _pseudo_inverse(a, None, rcond)


def pseudo_inverse_of_tolerances(a: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """`linalg.pinv`: singular values up to the greater tolerance count as 0."""
    return _pseudo_inverse(a, atol, rtol)


def _pseudo_inverse(a: Any, absolute: Any, relative: Any) -> Any:
    """By rotations of pairs of columns until all are orthogonal (Hestenes, one-sided Jacobi)."""
    if a.dim() < 2 or not 1 <= min(a.shape[-2:]) <= MOST_ROWS:
        return NotImplemented
    if a.shape[-2] < a.shape[-1]:
        return _pseudo_inverse(a.mT, absolute, relative).mT
    torch, columns = _torch(), a.shape[-1]
    scaled, magnitude = _scaled(a)
    moved = [scaled[..., i] for i in range(columns)]
    turned = [torch.eye(columns, dtype=a.dtype)[:, i].expand(*a.shape[:-2], columns) for i in range(columns)]
    for _ in range(SWEEPS if columns > 1 else 0):
        for first in range(columns):
            for second in range(first + 1, columns):
                cosine, sine = _rotation(moved[first], moved[second])
                for pair in (moved, turned):
                    one, other = pair[first], pair[second]
                    pair[first], pair[second] = cosine * one - sine * other, sine * one + cosine * other
    orthogonal, vectors = torch.stack(moved, -1), torch.stack(turned, -1)
    squares = (orthogonal * orthogonal).sum(-2)
    values = squares.sqrt()
    if relative is None:
        relative = max(a.shape[-2:]) * torch.finfo(a.dtype).eps if absolute is None else 0.0
    least = values.amax(-1, keepdim=True) * (relative[..., None] if isinstance(relative, torch.Tensor) else relative)
    if absolute is not None:
        bound = (absolute[..., None] if isinstance(absolute, torch.Tensor) else absolute) / magnitude[..., 0]
        least = torch.maximum(least, bound)
    shares = torch.where(values > least, 1 / squares, 0.0)
    return (vectors * shares[..., None, :]) @ orthogonal.mT / magnitude


def _rotation(one: Any, other: Any) -> tuple[Any, Any]:
    """Cosine and sine of the angle that makes two columns orthogonal."""
    torch = _torch()
    product = (one * other).sum(-1, keepdim=True)
    apart = (other * other).sum(-1, keepdim=True) - (one * one).sum(-1, keepdim=True)
    is_done = product == 0
    ratio = apart / torch.where(is_done, 1.0, 2 * product)
    tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + (1 + ratio * ratio).sqrt())
    tangent = torch.where(is_done, 0.0, tangent)
    cosine = 1 / (1 + tangent * tangent).sqrt()
    return cosine, cosine * tangent


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
