// RUN: -p 'fuse,bound-terms' --split-input-file

// |x * w| is at most 6, so -6 hides it from the relu; the margin is 1/16 of the range of the product.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, -1.0], [2.0, 2.0]]> : tensor<2x2xf32>
  %b = stablehlo.constant dense<[0.5, -1.0e9]> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %i = "quant.stats"(%x) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %p = stablehlo.dot_general %i, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %s = stablehlo.add %p, %c : tensor<1x2xf32>
  %z = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1x2xf32>
  %y = stablehlo.maximum %s, %z : tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant dense<[5.000000e-01, -6.750000e+00]> : tensor<2xf32>
// CHECK-NOT:   e+09

// -----

// Without a relu, -1e9 is a result.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, -1.0], [2.0, 2.0]]> : tensor<2x2xf32>
  %b = stablehlo.constant dense<[0.5, -1.0e9]> : tensor<2xf32>
  %i = "quant.stats"(%x) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %p = stablehlo.dot_general %i, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %s = stablehlo.add %p, %c : tensor<1x2xf32>
  return %s : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant dense<[5.000000e-01, -1.000000e+09]> : tensor<2xf32>
