"""Quantized programs whose activations are rounded to 8 bits by rows, and what they compute, in NumPy's integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

ATTRIBUTE = 'zeropoint.activation_scales = "per_row"'


@dataclass(frozen=True)
class RowProduct:
    """Activations of shape (*rows, terms) in low..high by a matrix of `channels`, plus a bias, in i8 or i16."""

    rows: tuple[int, ...]
    terms: int
    channels: int
    low: int = -4096
    high: int = 4095
    zero_point: int = 10
    bits: int = 8
    seed: int = 0
    extreme: bool = False
    """Weights of -127 and 127 only; in the first two channels, of one of them."""

    @cached_property
    def weights(self) -> Array:
        random = np.random.default_rng(self.seed)
        shape = (self.terms, self.channels)
        if not self.extreme:
            return random.integers(-127, 128, shape)
        chosen = random.choice([-127, 127], shape)
        chosen[:, :1], chosen[:, 1:2] = 127, -127
        return chosen

    @cached_property
    def bias(self) -> Array:
        return np.random.default_rng(self.seed + 1).integers(-(1 << 20), 1 << 20, self.channels)

    def inputs(self) -> Array:
        """Rows of many sizes: zeros, both ends of the storage, one element, and noise around the zero point."""
        random = np.random.default_rng(self.seed + 2)
        count = int(np.prod(self.rows))
        x = np.empty((count, self.terms), np.int64)
        for number in range(count):
            spread = int(2 ** random.uniform(0, 16))
            x[number] = self.zero_point + random.integers(-spread, spread + 1, self.terms)
        made = (self.zero_point, self.low, self.high)
        for number, value in enumerate(made[:count]):
            x[number] = value
        if count > 3:
            x[3], x[3, -1] = self.zero_point, self.low
        return np.clip(x, self.low, self.high).astype(np.int16).reshape(*self.rows, self.terms)

    def sums(self, x: Array) -> Array:
        """The sums plus the bias, by the definition."""
        v = x.astype(np.int64) - self.zero_point
        middle = (v.min(axis=-1, keepdims=True) + v.max(axis=-1, keepdims=True)) >> 1
        u = v - middle
        greatest = np.maximum(np.abs(u).max(axis=-1, keepdims=True), 1)
        q = np.minimum((u * (2**29 // greatest) + 2**21) >> 22, 127)
        assert q.min() >= -128
        w = self.weights.astype(np.int64)
        most, reach = int(np.abs(w).sum(axis=0).max()), max((self.high - self.low + 1) // 2, 1)
        furthest = max(self.high - self.zero_point, self.zero_point - self.low)
        dropped = next(d for d in range(7) if _fits(most, reach, furthest, d))
        t = ((q @ w + (1 << dropped >> 1)) >> dropped) * greatest
        assert np.abs(t).max() < 2**31
        t = (t + (1 << (7 - dropped) >> 1)) >> (7 - dropped)
        return t + middle * w.sum(axis=0) + self.bias

    def exact(self, x: Array) -> Array:
        """The sums of products of the activations as they are, plus the bias."""
        return (x.astype(np.int64) - self.zero_point) @ self.weights.astype(np.int64) + self.bias

    def text(self, *, products: int = 1) -> str:
        """The program. Several products read the same activations."""
        rows = "x".join(map(str, self.rows))
        given = f"tensor<{rows}x{self.terms}x!quant.uniform<i16<{self.low}:{self.high}>:f32, 0.5:{self.zero_point}>>"
        weights = f"tensor<{self.terms}x{self.channels}x{_by_channel('i16<-127:127>', self.channels, 1, 0.01)}>"
        wide = f"tensor<{rows}x{self.channels}x{_by_channel('i32', self.channels, len(self.rows), 0.005)}>"
        bias = f"tensor<{self.channels}x{_by_channel('i32', self.channels, 0, 0.005)}>"
        spread = 0.005 * 127 * 4096 * self.terms**0.5
        result = f"tensor<{rows}x{self.channels}x!quant.uniform<i{self.bits}:f32, {spread / 2**self.bits}:-5>>"
        last = len(self.rows)
        lines = [
            f"""%w{n} = stablehlo.constant() <{{value = dense<{(self.weights if n == 0 else -self.weights).tolist()}> :
                tensor<{self.terms}x{self.channels}xi16>}}> : () -> {weights}
            %b{n} = stablehlo.constant() <{{value = dense<{self.bias.tolist()}> : tensor<{self.channels}xi32>}}> :
                () -> {bias}
            %s{n} = stablehlo.dot_general %x, %w{n}, contracting_dims = [{last}] x [0] {{{ATTRIBUTE}}} :
                ({given}, {weights}) -> {wide}
            %a{n} = stablehlo.broadcast_in_dim %b{n}, dims = [{last}] : ({bias}) -> {wide}
            %t{n} = stablehlo.add %s{n}, %a{n} : {wide}
            %r{n} = stablehlo.uniform_quantize %t{n} : ({wide}) -> {result}"""
            for n in range(products)
        ]
        names, kinds = ", ".join(f"%r{n}" for n in range(products)), ", ".join([result] * products)
        returned = f"({kinds})" if products > 1 else kinds
        return f"func.func @main(%x: {given}) -> {returned} {{\n" + "\n".join(lines) + f"\nreturn {names} : {kinds}\n}}"

    def program(self, profile: str = "fixed32", *, products: int = 1) -> Program:
        """The program, with the profile of its requantization."""
        return parse_program(
            f'module attributes {{zeropoint.profile = "{profile}"}} {{\n{self.text(products=products)}\n}}'
        )


def _fits(most: int, reach: int, furthest: int, dropped: int) -> bool:
    kept = (most << 7) + (1 << dropped >> 1)
    product = (kept >> dropped) * reach + (1 << (7 - dropped) >> 1)
    return max(kept, product, (product >> (7 - dropped)) + furthest * most) < 2**31


def _by_channel(storage: str, channels: int, axis: int, scale: float) -> str:
    return f"!quant.uniform<{storage}:f32:{axis}, {{{', '.join([f'{scale}:0'] * channels)}}}>"


GELU = {"low": -4096, "high": 4095, "zero_point": -3900}
"""Activations whose zero point is near the least stored integer."""
HOSTILE = [
    RowProduct((1,), 1, 1),
    RowProduct((5,), 1, 3, zero_point=0),
    RowProduct((4,), 3, 2, **GELU),
    RowProduct((7,), 1500, 3, extreme=True),
    RowProduct((7,), 1500, 3, **GELU),
    RowProduct((6,), 37, 20, low=-32768, high=32767, zero_point=0),
    RowProduct((6,), 37, 20, low=-32768, high=32767, zero_point=-32768, bits=16),
    RowProduct((2, 5), 24, 17, zero_point=-3000, bits=16),
    RowProduct((2, 3, 2), 12, 5, zero_point=4095),
    RowProduct((2, 1, 33), 70, 40, bits=16, **GELU),
]
