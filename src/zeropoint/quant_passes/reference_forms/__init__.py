"""The forms of quantized StableHLO that C++ StableHLO's interpreter evaluates, and the way back.

A program of quantized StableHLO is plainest with the layouts of the model and one op per step. C++ StableHLO verifies
that, but evaluates less. Its interpreter lowers quantized ops to integers by the pass
`stablehlo-legalize-quant-to-math`, which takes some forms only, and rounds twice in others. `to_reference_forms`
writes equal ops that it takes. `from_reference_forms` recognizes them, so that an exported file is imported as the
program that was exported.

| op | form | why |
|---|---|---|
| convolution | channels last, two or three spatial dimensions, no dilated operand | the only layout that it takes |
| reduce; sums in windows | on stored integers, between two `bitcast_convert` | it has no quantized ones |
| products of 32-bit values | on stored integers | it multiplies in f32 |
| add of two scales | dequantize, add, quantize | it rounds each operand to the scale of the result |
| arithmetic of two storage types | dequantize, op, quantize | it has none |
| requantization | without zero points, in a step of its own | it adds the zero point before it rounds |
| dequantization per channel | channels last | its broadcasts take the last dimension only |
| unsigned storage | signed storage | it takes the bits for signed ones |
| `quant.scast`, `quant.dcast` | `bitcast_convert`, `uniform_dequantize` | they are no ops of StableHLO |

Source: StablehloLegalizeQuantToMath.cpp of openxla/stablehlo.
"""

from zeropoint.quant_passes.reference_forms.passes import from_reference_forms, to_reference_forms

__all__ = ["from_reference_forms", "to_reference_forms"]
