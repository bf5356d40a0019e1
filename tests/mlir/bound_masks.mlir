// RUN: -p 'fuse,bound-masks'

// Scores are in [-4, 5]: a mask of -17 hides them as -inf does, and the sum has a usable scale.
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.constant dense<[[0.0, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[-4.0, 5.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.add %s, %m : tensor<2x2xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-4.0, 5.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %max = stablehlo.reduce(%1 init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %mb = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
  %d = stablehlo.subtract %1, %mb : tensor<2x2xf32>
  %e = stablehlo.exponential %d : tensor<2x2xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %sb = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
  %y = stablehlo.divide %e, %sb : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = "quant.stats"(%x)
// CHECK:       %[[M:.*]] = stablehlo.constant dense<{{\[\[}}0.000000e+00, -1.700000e+01], [0.000000e+00, 0.000000e+00]]>
// CHECK:       quant.region "add"(%{{.*}} = %[[S]], %{{.*}} = %[[M]])
// CHECK:       "quant.stats"(%{{.*}}) {layerStats = dense<[-1.200000e+01, 5.000000e+00]>
// CHECK:       quant.region "softmax"
