"""Instruction sets as data: the vector width, and the instruction for each step of a kernel.

Every step has a portable form in plain LLVM. A row of the table names the intrinsic that replaces it, if the machine
has one. Elements of 16 and 8 bits are packed inside 128-bit lanes, as on x86. With a single lane (AArch64), this is the
normal order of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, lanes, vector

SMALL_TILE = 6
"""Pixels of a tile where registers do not matter: MobileNetV2's kernels compile in 60 % of the time."""
DotStep = Callable[[Function, Value, Value, Value], Value]


@dataclass(frozen=True)
class InstructionSet:
    """A row of the table: the `width` of vectors in 32-bit elements, the number of registers, and the instructions."""

    name: str
    triple: str
    cpu: str
    features: str
    width: int
    registers: int
    unsigned: bool
    """Whether the dot product takes activations as u8 (storage integers plus 128), and not as i8."""
    dot: DotStep
    """For each i32 element: acc plus the four products of adjacent 8-bit activations and i8 weights."""
    pack_shorts: str | None
    """Packs two vectors of i32 to one of i16, with saturation, lane by lane."""
    pack_bytes: str | None
    """Packs two vectors of i16 to one of u8 (i8 if activations are signed), with saturation, lane by lane."""
    multiply_high: str | None
    """(a * b + 2^14) >> 15 of i16."""
    multiply_add: str | None
    """Products of adjacent i16, added in pairs to i32."""
    adds_products: bool = False
    """Whether one instruction multiplies i16 and adds pairs to an accumulator."""
    look_up: str | None = None
    """A table lookup in each lane. The low four bits of an index select a byte; the result is 0 if its bit 7 is set."""
    shift_left: str | None = None
    """Shifts each i32 left by an i32; 0 for shifts of 32 or more."""
    fused: bool = True
    """Whether there are instructions for float multiply-add and for rounding to even. Otherwise LLVM calls libm."""
    weight_limit: int = 128
    """The largest |weight| with which the dot product cannot saturate."""

    brief: bool = False
    """Whether code is short: without LLVM's passes, long code takes longer to compile than it saves."""

    tiles: str | None = None
    """The prefix of the intrinsics on tile registers, which multiply u8 and i8 (`tile_registers.py`)."""

    gathers: bool = False
    """Whether one instruction loads from 16 addresses in less time than 16 loads take."""

    most_pixels: int = 14
    """The maximum number of output pixels in a tile of a contraction in vector registers."""

    narrower: InstructionSet | None = None
    """The same instructions on vectors half as wide."""

    doubling_high: str | None = None
    """(2 a b + 2^31) >> 32 of i32, with saturation."""
    rounding_shift: str | None = None
    """Shifts each i32 left by an i32, or right if that is negative, where ties round up."""

    @property
    def unoptimized(self) -> InstructionSet:
        """The same instructions for code that LLVM does not optimize."""
        return replace(self, brief=True)

    @property
    def unallocated(self) -> InstructionSet:
        """The same instructions for code that LLVM compiles in least time, with most values in memory.

        Large tiles are there to keep sums in registers.
        """
        return replace(self, brief=True, most_pixels=SMALL_TILE)

    @property
    def narrowest(self) -> InstructionSet:
        """The same instructions on vectors of 16 bytes."""
        return self if self.narrower is None else self.narrower.narrowest

    def of_bytes(self, count: int) -> InstructionSet | None:
        """The same instructions on vectors of `count` bytes; None if there are none."""
        narrower = None if self.narrower is None else self.narrower.of_bytes(count)
        return self if count == self.bytes else narrower

    @property
    def lanes(self) -> int:
        """Number of 128-bit lanes in a vector."""
        return self.width // 4

    @property
    def bytes(self) -> int:
        """Size of a vector in bytes."""
        return 4 * self.width

    @property
    def offset(self) -> int:
        """The difference between the 8-bit activation that kernels read and the storage integer (i8)."""
        return 128 if self.unsigned else 0

    @property
    def i32(self) -> str:
        """The vector type of accumulators."""
        return vector(self.width, "i32")

    @property
    def i16(self) -> str:
        """The vector type of 16-bit elements."""
        return vector(2 * self.width, "i16")

    @property
    def i8(self) -> str:
        """The vector type of 8-bit elements."""
        return vector(4 * self.width, "i8")

    def shorts(self, f: Function, low: Value, high: Value) -> Value:
        """Pack two vectors of i32 to one of i16, with saturation.

        Lane l has four elements of lane l of low, then four of lane l of high.
        """
        width = lanes(low.type)
        result = vector(2 * width, "i16")
        if self.pack_shorts is not None and width == self.width:
            return f.call(result, self.pack_shorts, low, high)
        # Machines without the x86 instruction use its order, too, so that packed data has one layout.
        joined = f.shuffle(low, high, _lane_order(width, 4))
        return f.cast("trunc", f.clamp(joined, -(1 << 15), (1 << 15) - 1), result)

    def narrow(self, f: Function, low: Value, high: Value) -> Value:
        """Pack two vectors of i16 to 8-bit activations, with saturation.

        Lane l has eight elements of lane l of low, then eight of lane l of high.
        """
        width = lanes(low.type)
        result = vector(2 * width, "i8")
        if self.pack_bytes is not None and width == 2 * self.width:
            return f.call(result, self.pack_bytes, low, high)
        joined = f.shuffle(low, high, _lane_order(width, 8))
        # The saturation is required: kernels clamp to the storage range by packing, and clamp explicitly only to
        # narrower bounds.
        first, last = (0, 255) if self.unsigned else (-128, 127)
        return f.cast("trunc", f.clamp(joined, first, last), result)

    def bounded(self, f: Function, x: Value, low: Value | int, high: Value | int) -> Value:
        """8-bit activations between two bounds."""
        kind = "u" if self.unsigned else "s"
        return f.intrinsic(f"{kind}min", f.intrinsic(f"{kind}max", x, low), high)

    def pairs(self, f: Function, acc: Value, activations: Value, weights: Value) -> Value:
        """For each i32 element: acc plus the two products of adjacent i16, modulo 2^32."""
        # An intrinsic exists for one width only. Other widths (the tail of a row) use plain LLVM.
        if self.multiply_add is not None and lanes(acc.type) == self.width:
            return f.add(acc, f.call(acc.type, self.multiply_add, activations, weights))
        wide = vector(lanes(activations.type), "i32")
        products = f.binary("mul", f.cast("sext", activations, wide), f.cast("sext", weights, wide))
        for tap in range(2):
            # Sums are modulo 2^32, in any order. Lowering has proved that the final sum fits.
            acc = f.add(acc, f.shuffle(products, None, range(tap, lanes(wide), 2)))
        return acc

    def scaled(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b + 2^14) >> 15 on i16."""
        if self.multiply_high is not None and lanes(a.type) == 2 * self.width:
            return f.call(a.type, self.multiply_high, a, b)
        wide = vector(lanes(a.type), "i32")
        product = f.binary("mul", f.cast("sext", a, wide), f.cast("sext", b, wide))
        # (-2^15)^2 would give 2^15, which does not fit i16: PMULHRSW wraps, SQRDMULH saturates. It does not occur,
        # because multipliers are positive.
        rounded = f.binary("ashr", f.add(product, 1 << 14), 15)
        return f.cast("trunc", rounded, a.type)


def _lane_order(width: int, group: int) -> list[int]:
    """Shuffle indices for two vectors of `width`: `group` elements of the first, `group` of the second, and so on."""
    order: list[int] = []
    for start in range(0, width, group):
        order += [*range(start, start + group), *range(width + start, width + start + group)]
    return order


def _intrinsic_dot(name: str) -> DotStep:
    def dot(f: Function, acc: Value, activations: Value, weights: Value) -> Value:
        return f.call(acc.type, name, acc, activations, weights)

    return dot


def _vnni(bits: int) -> DotStep:
    return _intrinsic_dot(f"llvm.x86.avx512.vpdpbusd.{bits}")


def _pairs(bits: int) -> DotStep:
    """VPMADDUBSW, VPMADDWD with ones, VPADDD. Exact if two products of 255 * |w| fit i16."""
    bytes_, shorts = {
        256: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
        128: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    }[bits]

    def dot(f: Function, acc: Value, activations: Value, weights: Value) -> Value:
        type_ = vector(bits // 16, "i16")
        pairs = f.call(type_, bytes_, activations, weights)
        # A product with ones adds adjacent i16 sums to i32.
        return f.add(acc, f.call(acc.type, shorts, pairs, constant(type_, 1)))

    return dot


def portable_dot(unsigned: bool) -> DotStep:
    """The dot product in plain LLVM, for any machine. `unsigned` selects u8 activations."""
    extend = "zext" if unsigned else "sext"

    def dot(f: Function, acc: Value, activations: Value, weights: Value) -> Value:
        count = lanes(acc.type)
        wide = vector(4 * count, "i32")
        products = f.binary("mul", f.cast(extend, activations, wide), f.cast("sext", weights, wide))
        for tap in range(4):
            acc = f.add(acc, f.shuffle(products, None, range(tap, 4 * count, 4)))
        return acc

    return dot


def _x86(
    name: str, cpu: str, width: int, dot: Callable[[int], DotStep], features: str = "", limit: int = 128
) -> InstructionSet:
    """A row with its narrower forms. The pack and multiply instructions depend on the width."""
    narrower = None if width == 4 else _x86(name, cpu, width // 2, dot, features, limit)
    shorts, bytes_, high, add, look_up, left = _X86_NAMES[width]
    return InstructionSet(
        name, _TRIPLE_X86, cpu, features, width, 32 if "avx512" in name else 16, True, dot(32 * width), shorts, bytes_,
        high, add, features == _WHOLE, look_up, left, weight_limit=limit, narrower=narrower,
    )  # fmt: skip


def _arm(name: str, features: str, dot: DotStep, *, unsigned: bool) -> InstructionSet:
    return InstructionSet(
        name, _TRIPLE_ARM, "", features, 4, 32, unsigned, dot, None, None, _HIGH_ARM, None,
        doubling_high=_DOUBLING_ARM, rounding_shift=_ROUNDING_ARM,
    )  # fmt: skip


_WHOLE = "+fast-dpwssd"
"""Keeps LLVM from taking VPDPWSSD apart into a product and a sum: kernels have enough sums side by side."""
_TRIPLE_X86 = "x86_64-unknown-linux-gnu"
_TRIPLE_ARM = "aarch64-unknown-linux-gnu"
_X86_NAMES = {
    16: (
        "llvm.x86.avx512.packssdw.512",
        "llvm.x86.avx512.packuswb.512",
        "llvm.x86.avx512.pmul.hr.sw.512",
        "llvm.x86.avx512.pmaddw.d.512",
        "llvm.x86.avx512.pshuf.b.512",
        "llvm.x86.avx512.psllv.d.512",
    ),
    8: (
        "llvm.x86.avx2.packssdw",
        "llvm.x86.avx2.packuswb",
        "llvm.x86.avx2.pmul.hr.sw",
        "llvm.x86.avx2.pmadd.wd",
        "llvm.x86.avx2.pshuf.b",
        "llvm.x86.avx2.psllv.d.256",
    ),
    4: (
        "llvm.x86.sse2.packssdw.128",
        "llvm.x86.sse2.packuswb.128",
        "llvm.x86.ssse3.pmul.hr.sw.128",
        "llvm.x86.sse2.pmadd.wd",
        "llvm.x86.ssse3.pshuf.b.128",
        "llvm.x86.avx2.psllv.d",
    ),
}
_HIGH_ARM = "llvm.aarch64.neon.sqrdmulh.v8i16"
_DOUBLING_ARM, _ROUNDING_ARM = (f"llvm.aarch64.neon.{name}.v4i32" for name in ("sqrdmulh", "srshl"))
_USDOT, _SDOT = (_intrinsic_dot(f"llvm.aarch64.neon.{name}.v4i32.v16i8") for name in ("usdot", "sdot"))

ROWS = (
    replace(
        _x86("avx512-vnni", "sapphirerapids", 16, _vnni, _WHOLE),
        name="amx-int8",
        features=f"{_WHOLE},+amx-tile,+amx-int8",
        tiles="llvm.x86",
        gathers=True,
    ),
    _x86("avx512-vnni", "cascadelake", 16, _vnni, _WHOLE),
    _x86("avx-vnni", "alderlake", 8, _vnni, _WHOLE),
    # 64, because VPMADDUBSW saturates its sums of two products to i16 (`numerics/dot_forms.py`); greater weights are
    # split.
    _x86("avx2", "haswell", 8, _pairs, limit=64),
    InstructionSet("portable", "", "", "", 4, 16, True, portable_dot(True), None, None, None, None, fused=False),
    _arm("neon-i8mm", "+dotprod,+i8mm", _USDOT, unsigned=True),
    _arm("neon-dotprod", "+dotprod", _SDOT, unsigned=False),
)

INSTRUCTION_SETS = {row.name: row for row in ROWS}
