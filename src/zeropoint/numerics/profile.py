"""Numerics profiles: one named behaviour for each rounding step that runtimes disagree on.

A target names its profile, and a program carries the name. The interpreter, the lowering and native code follow the
profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from zeropoint.errors import OptionError
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.elementwise import AddBehaviour
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour, ratio_of_scales


class KernelBehaviour(StrEnum):
    """The arithmetic of means and of functions of 8-bit values."""

    REAL = "real"
    """The exact result, rounded once: a requantized sum of centred integers, or a table of a rounded function."""
    INTEGER = "integer"
    """The same, with our own integer arithmetic for kernels whose exact result is not integer (`numerics.softmax`)."""
    LITERT = "litert"
    """LiteRT's arithmetic (`numerics.litert`): means of stored integers, with multipliers that include the division by
    the count."""
    XNNPACK = "xnnpack"
    """XNNPACK's arithmetic (`numerics.xnnpack`), and LiteRT's for kernels that the delegate does not support."""
    ONNXRUNTIME = "onnxruntime"
    """The arithmetic of onnxruntime on x64 with AVX2 (`numerics.onnxruntime`). Several kernels compute in floats."""
    OPENVINO = "openvino"
    """The arithmetic of OpenVINO on x64 (`numerics.openvino`), and onnxruntime's for other kernels."""
    OPENVINO_AMX = "openvino-amx"
    """The same on processors with AMX, on which OpenVINO's convolutions read i8, too."""
    TOSA = "tosa"
    """TOSA's operators: AVG_POOL2D multiplies by the reciprocal of the count."""


@dataclass(frozen=True)
class Profile:
    """The behaviour of each step: quantize, requantize to 8 bits or to more, add operands of different scales.

    `kernels` is for kernels with intermediate roundings. `divides_in_f32` is for runtimes that compute s_in * s_w /
    s_out in f32. `scales_product_in_f32` is for kernels that compute s_in * s_w in f32 and the quotient in f64.
    `wide_accumulator` is the accumulator width for requantization to 16-bit storage. 64 selects LiteRT's
    16x8 form (`numerics.multiplier.wide_multiplier`), even if the accumulator is known to fit 32 bits.
    """

    name: str
    quantize: QuantizeBehaviour
    requantize_8bit: RequantizeBehaviour
    requantize_wide: RequantizeBehaviour
    add: AddBehaviour
    wide_accumulator: int = 32
    kernels: KernelBehaviour = KernelBehaviour.REAL
    divides_in_f32: bool = False
    scales_product_in_f32: bool = False

    def product_of_scales(self, one: npt.ArrayLike, other: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The scale of the accumulator of a contraction from those of its operands."""
        dtype = np.float32 if self.scales_product_in_f32 else np.float64
        return np.asarray(np.asarray(one, dtype) * np.asarray(other, dtype), np.float64)

    def ratio(self, given: npt.ArrayLike, wanted: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The real multiplier from the scale of an accumulator to that of the result (`ratio_of_scales`)."""
        return ratio_of_scales(given, wanted, in_f32=self.divides_in_f32)

    @property
    def multiplies_in_f32(self) -> bool:
        """Whether the multiplier of a product of two activations is computed in f32.

        LiteRT's kernel of MUL does so, but not its contractions (of BATCH_MATMUL, only the product of the two scales).
        """
        return self.divides_in_f32 or self.kernels is KernelBehaviour.LITERT

    @property
    def integer_kernels(self) -> bool:
        """Whether quotients, comparisons (`numerics.division`) and functions of 16-bit values are integer kernels."""
        return self.kernels is KernelBehaviour.INTEGER

    @property
    def rescales_biases(self) -> bool:
        """Whether a 32-bit bias with another scale than the sums is requantized to their scale before it is added.

        False in profiles that define a sum by real values, such as StableHLO's own. Runtimes only have biases at the
        scale of the sums. This makes such a bias with the runtime's own requantization.
        """
        return self.kernels is not KernelBehaviour.REAL

    def requantize(self, storage_width: int) -> RequantizeBehaviour:
        """The requantize behaviour for storage of `storage_width` bits."""
        return self.requantize_8bit if storage_width <= 8 else self.requantize_wide

    def accumulator_width(self, stored_width: int, storage_width: int) -> int:
        """The accumulator width, 32 or 64, for values of `stored_width` bits that are requantized to `storage_width`
        bits.

        `wide_accumulator` applies to accumulators, which are stored in 32 bits. For narrower values, the width is 32.
        """
        return self.wide_accumulator if stored_width == 32 and 8 < storage_width <= 16 else 32

    def multiplier(self, real_multiplier: npt.ArrayLike, storage_width: int, accumulator_width: int = 32) -> Multiplier:
        """The real multiplier resolved for this profile's requantize behaviour (`Multiplier.of`)."""
        behaviour = self.requantize(storage_width)
        return Multiplier.of(real_multiplier, behaviour, storage_width, accumulator_width)


def _profile(
    name: str,
    quantize: QuantizeBehaviour,
    requantize_8bit: RequantizeBehaviour,
    requantize_wide: RequantizeBehaviour,
    add: AddBehaviour,
    wide_accumulator: int = 32,
    kernels: KernelBehaviour = KernelBehaviour.REAL,
    divides_in_f32: bool = False,
    scales_product_in_f32: bool = False,
) -> tuple[str, Profile]:
    flags = divides_in_f32, scales_product_in_f32
    found = Profile(name, quantize, requantize_8bit, requantize_wide, add, wide_accumulator, kernels, *flags)
    return name, found


_Q, _R, _A, _K = QuantizeBehaviour, RequantizeBehaviour, AddBehaviour, KernelBehaviour

PROFILES: dict[str, Profile] = dict(
    [
        # Ours, integer only: the default of target cpu, and the same without 16-bit multiplications.
        _profile("fixed16", _Q.RNE_AFTER_ZERO_POINT, _R.FIXED16, _R.FIXED32, _A.COMMON_SCALE_16, kernels=_K.INTEGER),
        _profile("fixed32", _Q.RNE_AFTER_ZERO_POINT, _R.FIXED32, _R.FIXED32, _A.COMMON_SCALE, kernels=_K.INTEGER),
        # LiteRT's reference kernels.
        _profile(
            "fixed32-double",
            _Q.HALF_AWAY_BEFORE_ZERO_POINT,
            _R.FIXED32_DOUBLE,
            _R.FIXED32_DOUBLE,
            _A.LITERT,
            64,
            _K.LITERT,
        ),
        # LiteRT's BATCH_MATMUL. The row of this kernel names the profile.
        _profile(
            "fixed32-double-products",
            _Q.HALF_AWAY_BEFORE_ZERO_POINT,
            _R.FIXED32_DOUBLE,
            _R.FIXED32_DOUBLE,
            _A.LITERT,
            64,
            _K.LITERT,
            scales_product_in_f32=True,
        ),
        # LiteRT's reference kernel of fully connected layers. The row of this kernel names the profile.
        _profile(
            "float64-away",
            _Q.HALF_AWAY_BEFORE_ZERO_POINT,
            _R.FLOAT64_AWAY,
            _R.FLOAT64_AWAY,
            _A.LITERT,
            kernels=_K.LITERT,
        ),
        # LiteRT with XNNPACK, which is its default on CPUs. The delegate has 8-bit kernels; the 16x8 kernels are
        # LiteRT's.
        _profile(
            "xnnpack",
            _Q.RNE_RECIPROCAL,
            _R.FLOAT32_RNE,
            _R.FIXED32_DOUBLE,
            _A.XNNPACK,
            64,
            _K.XNNPACK,
            divides_in_f32=True,
        ),
        # TOSA: rescale with DOUBLE_ROUND on both sides of an add. It has no float division.
        _profile("tosa-double", _Q.RNE_RECIPROCAL, _R.TOSA_DOUBLE, _R.TOSA_DOUBLE, _A.TOSA, kernels=_K.TOSA),
        # StableHLO's semantics, for programs without a profile: NaN is stored as the integer 0. Under every other
        # profile, NaN becomes the zero point, which is the real number 0.
        _profile("stablehlo", _Q.RNE_NAN_IS_STORED_ZERO, _R.FLOAT32_RNE, _R.FLOAT32_RNE, _A.FLOAT32),
        # Dequantize, compute in f32, quantize.
        _profile("float32-rne", _Q.RNE_AFTER_ZERO_POINT, _R.FLOAT32_RNE, _R.FLOAT32_RNE, _A.FLOAT32),
        # onnxruntime's CPU kernels for x64.
        _profile(
            "onnxruntime",
            _Q.RNE_BEFORE_ZERO_POINT,
            _R.FLOAT32_RNE,
            _R.FLOAT32_RNE,
            _A.FLOAT32,
            kernels=_K.ONNXRUNTIME,
            divides_in_f32=True,
        ),
        # OpenVINO's CPU plugin for x64, without and with AMX.
        *(
            _profile(
                kernels.value,
                _Q.RNE_BY_RANGE,
                _R.FLOAT32_RNE,
                _R.FLOAT32_RNE,
                _A.FLOAT32,
                kernels=kernels,
                divides_in_f32=True,
            )
            for kernels in (_K.OPENVINO, _K.OPENVINO_AMX)
        ),
        # The reference for measuring rounding errors.
        _profile("exact", _Q.RNE_AFTER_ZERO_POINT, _R.EXACT, _R.EXACT, _A.FLOAT64),
        # The quantize steps of upstream MLIR's lower-quant-ops.
        _profile("upstream", _Q.TRUNCATE_NO_CLAMP, _R.FLOAT32_RNE, _R.FLOAT32_RNE, _A.FLOAT32),
    ]
)


DEFAULT_PROFILE = "stablehlo"
"""The profile of a program that does not name one: StableHLO's semantics."""
CAST_PROFILE = "float32-rne"
"""The profile of `quant.qcast` in such a program. NaN becomes the zero point, because StableHLO does not define its
result."""


def profile(name: str) -> Profile:
    """The profile of this name. Raises OptionError, listing the names, if there is none."""
    found = PROFILES.get(name)
    if found is None:
        raise OptionError(f"found the numerics profile '{name}'; expected one of {', '.join(PROFILES)}")
    return found
