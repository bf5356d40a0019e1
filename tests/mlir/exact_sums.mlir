// RUN: -p 'fuse,propagate{target=onnxruntime},exact-sums{target=onnxruntime}' --split-input-file

// The sum of a dequantized value is that of its integers, times the scale.
func.func @main(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-8.0, 55.75]> : tensor<2xf32>} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %r = stablehlo.reverse %s, dims = [1] : tensor<2x5xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.multiply %r, %r : tensor<2x5xf32>
  %0 = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
