// RUN: -p 'simplify' --locations

// A pad and a batch norm around a convolution, in a function that is called, with statistics of the values in between.
func.func private @block(%a: tensor<1x1x2x2xf32>) -> tensor<1x2x3x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, 6.0], [7.0, 8.0]]]]> : tensor<2x1x2x2xf32>
  %scale = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[0.5, -1.0]> : tensor<2xf32>
  %mean = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %variance = stablehlo.constant dense<[4.0, 9.0]> : tensor<2xf32>
  %0 = stablehlo.pad %a, %zero, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %2 = stablehlo.convolution(%1, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<2x1x2x2xf32>) -> tensor<1x2x3x3xf32> loc("conv")
  %3 = "stablehlo.batch_norm_inference"(%2, %scale, %offset, %mean, %variance) {epsilon = 0.0 : f32, feature_index = 1 : i64} : (tensor<1x2x3x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x3x3xf32> loc("norm")
  %4 = "quant.stats"(%3) {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>} : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  return %4 : tensor<1x2x3x3xf32>
}
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x3x3xf32> {
  %0 = func.call @block(%x) : (tensor<1x1x2x2xf32>) -> tensor<1x2x3x3xf32> loc("block")
  return %0 : tensor<1x2x3x3xf32>
}
// CHECK-NOT:   @block
// CHECK-LABEL: func.func @main(%x: tensor<1x1x2x2xf32>)
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant {{.*}} : tensor<2x1x2x2xf32>
// CHECK-NEXT:  %[[C:.*]] = stablehlo.convolution(%x, %[[W]]) {{.*}}pad = {{\[\[}}1, 1], [1, 1]]{{.*}} loc(fused["block/conv", "block/norm"])
// CHECK-NEXT:  %[[B:.*]] = stablehlo.constant dense<[-5.000000e-01, -3.000000e+00]> : tensor<2xf32> loc("block/norm")
// CHECK-NEXT:  %[[R:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [1]
// CHECK-NEXT:  %[[S:.*]] = stablehlo.add %[[C]], %[[R]]
// CHECK-NEXT:  %[[T:.*]] = "quant.stats"(%[[S]]) {layerStats = dense<[-8.000000e+00, 8.000000e+00]> : tensor<2xf32>}
// CHECK-NEXT:  return %[[T]]
