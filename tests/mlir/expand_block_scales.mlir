// RUN: -p 'expand-block-scales' --split-input-file

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %q = stablehlo.constant dense<[[1, -2], [3, -8], [7, 0], [-1, 5]]> : tensor<4x2xi4>
  %s = quant.scast %q : tensor<4x2xi4> to tensor<4x2x!quant.uniform<i4:f32:{0:2, 1:1}, {{0.5, 0.25}, {2.0, 4.0}}>>
  %w = quant.dcast %s : tensor<4x2x!quant.uniform<i4:f32:{0:2, 1:1}, {{0.5, 0.25}, {2.0, 4.0}}>> to tensor<4x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[Q:.*]] = stablehlo.constant dense<{{.*}}> : tensor<4x2xi4>
// CHECK-NEXT:  %[[F:.*]] = stablehlo.convert %[[Q]] : (tensor<4x2xi4>) -> tensor<4x2xf32>
// CHECK-NEXT:  %[[B:.*]] = stablehlo.reshape %[[F]] : (tensor<4x2xf32>) -> tensor<2x2x2xf32>
// CHECK-NEXT:  %[[C:.*]] = stablehlo.constant dense<{{.*}}5.{{0*}}e-01, 2.5{{0*}}e-01], [2.{{0*}}e+00, 4.{{0*}}e+00{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT:  %[[S:.*]] = stablehlo.broadcast_in_dim %[[C]], dims = [0, 2] : (tensor<2x2xf32>) -> tensor<2x2x2xf32>
// CHECK-NEXT:  %[[M:.*]] = stablehlo.multiply %[[B]], %[[S]]
// CHECK-NEXT:  %[[W:.*]] = stablehlo.reshape %[[M]] : (tensor<2x2x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:  stablehlo.dot_general %{{.*}}, %[[W]]

// -----

// Unsigned integers and their zero points become signed.
func.func @main() -> tensor<2x2xf32> {
  %q = stablehlo.constant dense<[[0, 7], [-8, -1]]> : tensor<2x2xi4>
  %s = quant.scast %q : tensor<2x2xi4> to tensor<2x2x!quant.uniform<u4:f32:{0:1, 1:2}, {{0.5:8}, {2.0:15}}>>
  %w = quant.dcast %s : tensor<2x2x!quant.uniform<u4:f32:{0:1, 1:2}, {{0.5:8}, {2.0:15}}>> to tensor<2x2xf32>
  return %w : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant dense<{{\[\[}}-8, -1], [0, 7]]> : tensor<2x2xi4>
// CHECK:       %[[P:.*]] = stablehlo.constant dense<[0, 7]> : tensor<2xi4>
// CHECK-NEXT:  %[[Z:.*]] = stablehlo.convert %[[P]] : (tensor<2xi4>) -> tensor<2xf32>
// CHECK-NEXT:  %[[Y:.*]] = stablehlo.broadcast_in_dim %[[Z]], dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:  stablehlo.subtract %{{.*}}, %[[Y]]

// -----

// A type per channel has few scales, and stays.
func.func @main() -> tensor<2x2xf32> {
  %q = stablehlo.constant dense<[[0, 7], [-8, -1]]> : tensor<2x2xi4>
  %s = quant.scast %q : tensor<2x2xi4> to tensor<2x2x!quant.uniform<i4:f32:1, {0.5, 2.0}>>
  %w = quant.dcast %s : tensor<2x2x!quant.uniform<i4:f32:1, {0.5, 2.0}>> to tensor<2x2xf32>
  return %w : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.dcast
