"""Linear resizes as RESIZE_BILINEAR."""

from __future__ import annotations

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.linear_resizes import resize_matrices
from zeropoint.numerics.litert_resize import placement_of


def linear_resize(kernel: ExportKernel, emit: LitertEmission) -> None:
    """RESIZE_BILINEAR of an image [batch, height, width, channels]."""
    placement = placement_of(list(resize_matrices(kernel.ops, emit.weights).values()))
    before, after = kernel.input_shape, kernel.output_shape
    if placement is None or len(before) != 4 or (before[0], before[3]) != (after[0], after[3]):
        raise ExportError(
            f"found a resize of {list(before)} to {list(after)}, expected one of the two middle dimensions of an image "
            "with channels last; export to .onnx, or leave the kernel float (quantize: false in a recipe)",
            kernel.region,
        )
    fields = {"alignCorners": placement.align_corners, "halfPixelCenters": placement.half_pixel_centers}
    inputs = [emit.operand(kernel.region.inputs[0], kernel.specs[0]), emit.integers(after[1:3], "size")]
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    emit.operator("RESIZE_BILINEAR", inputs, [result], ("ResizeBilinearOptions", fields), 3)
