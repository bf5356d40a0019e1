"""Convolutions, matrix products and fully connected layers, on activations of 8 or 16 bits or floats (`Arithmetic`).

One micro-kernel computes a tile of R output pixels by n vectors of output channels in registers. A step takes four
adjacent bytes of every pixel (four 8-bit activations, two 16-bit ones or one float), broadcasts them, and multiplies
them by n weight vectors. Steps run over the input channels at every kernel position, which are runs of adjacent bytes
in NHWC rows.

Integer accumulators start at the bias. Float sums are one chain in the order of the steps, and the bias is added at the
end (`zeropoint.numerics.products`).

On processors with tile registers, these compute larger tiles where that is faster (`tile_products.py`). The code for
vectors is in `vector_products.py`, and the loops around both in `contraction_tasks.py`.

The weights of a group of n vectors are stored as [step][half][vector][element], followed by the parameters of the
arithmetic. If these are `apart`, they are in a second block: the steps of an unrolled recurrence read the same weights
with other multipliers. The lowering of quantized contractions (`lower/contraction.py`) defines the results.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.kernels.arithmetic import Arithmetic
from zeropoint.codegen.kernels.contraction_shape import ContractionShape
from zeropoint.codegen.kernels.tile_products import TileProducts
from zeropoint.codegen.kernels.vector_products import VectorProducts
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module


@dataclass(frozen=True)
class Contraction(ContractionShape):
    """The kernel of a contraction."""

    @staticmethod
    def of_rows(
        count: int,
        pixel: int,
        out_pixel: int,
        groups: int,
        vectors: int,
        arithmetic: Arithmetic,
        *,
        apart: bool = False,
    ) -> Contraction:
        """The shape of `count` rows times a matrix."""
        return Contraction(
            1, count, count * pixel, pixel, count * out_pixel, out_pixel, (0,), groups, vectors, arithmetic, apart
        )

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(input, weights, output, begin, end)`: tasks begin to end. A residual comes after the input, and
        parameters that are `apart` after the weights."""
        # The output may use the memory of the residual.
        residual = self.arithmetic.residual
        others = [] if residual is None else ["other"] if residual.channels else ["other", "another"]
        held = ["noalias w", "noalias p"] if self.apart else ["noalias w"]
        rest = [*others, *held, "out" if others else "noalias out"]
        products = TileProducts if self.in_tiles(isa) else VectorProducts
        products(self, isa, module.kernel(name, "noalias in", *rest)).kernel()
