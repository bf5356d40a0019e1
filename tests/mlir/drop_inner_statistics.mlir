// RUN: -p 'fuse,drop-inner-statistics' --split-input-file

// The statistics of the sum are inside of the kernel, those of the maximum are at its result.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<4xf32>
  %3 = "quant.stats"(%2) {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[K:.*]] = quant.region "add"
// CHECK-NEXT:    %[[S:.*]] = stablehlo.add
// CHECK-NOT:     quant.stats
// CHECK:         stablehlo.maximum %[[S]]
// CHECK-NOT:     quant.stats
// CHECK:         quant.return
// CHECK:       "quant.stats"(%[[K]]) {layerStats = dense<[0.000000e+00, 2.000000e+00]>

// -----

// The variances of the rows say whether 8 bits are enough: their statistics stay, and the root reads them.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %four = stablehlo.constant dense<4.0> : tensor<2xf32>
  %epsilon = stablehlo.constant dense<1.0e-5> : tensor<2xf32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %m = stablehlo.divide %s, %four : tensor<2xf32>
  %n = "quant.stats"(%m) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2xf32>) -> tensor<2xf32>
  %b = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %d = stablehlo.subtract %x, %b : tensor<2x4xf32>
  %q = stablehlo.multiply %d, %d : tensor<2x4xf32>
  %t = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %v = stablehlo.divide %t, %four : tensor<2xf32>
  %e = stablehlo.add %v, %epsilon : tensor<2xf32>
  %w = "quant.stats"(%e) {layerStats = dense<[0.5, 3.0]> : tensor<2xf32>} : (tensor<2xf32>) -> tensor<2xf32>
  %r = stablehlo.rsqrt %w : tensor<2xf32>
  %c = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %y = stablehlo.multiply %d, %c : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "layer_norm"
// CHECK-NOT:   dense<[-1.000000e+00, 1.000000e+00]>
// CHECK:       %[[E:.*]] = stablehlo.add
// CHECK-NEXT:  %[[W:.*]] = "quant.stats"(%[[E]]) {layerStats = dense<[5.000000e-01, 3.000000e+00]>
// CHECK-NEXT:  stablehlo.rsqrt %[[W]]
