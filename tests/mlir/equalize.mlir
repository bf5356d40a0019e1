// RUN: -p 'fuse,equalize' --split-input-file

// A channel of a quarter of the greatest range is multiplied by 4 where it is made, and by 1/4 in the weights that read it.
// The weights of a depthwise convolution have a scale per channel, so that the factors are those of the ranges.
func.func @main(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = stablehlo.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %v = stablehlo.constant dense<[[[[8.0]]], [[[16.0]]]]> : tensor<2x1x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>, axisStats = dense<[[-8.0, 4.0], [-1.0, 0.5]]> : tensor<2x2xf32>, axis = 1 : i64} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = stablehlo.convolution(%1, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  return %2 : tensor<1x2x2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{.*}}1.000000e+00{{.*}}2.000000e+00{{.*}}2.400000e+01{{.*}}3.200000e+01{{.*}}> : tensor<2x2x1x1xf32>
// CHECK:       %[[MADE:.*]] = quant.region "convolution"(%{{.*}} = %x, %{{.*}} = %[[W]])
// CHECK:       "quant.stats"(%[[MADE]]) {{.*}}axisStats = dense<{{\[}}[-8.000000e+00, 4.000000e+00], [-8.000000e+00, 4.000000e+00]]>
// CHECK:       %[[V:.*]] = stablehlo.constant dense<{{.*}}8.000000e+00{{.*}}2.000000e+00{{.*}}> : tensor<2x1x1x1xf32>
// CHECK:       quant.region "depthwise_convolution"({{.*}} = %[[V]])

// -----

// A clamp at 6 may cut at twice what was observed, not before: a channel of up to 0.5 is multiplied by 6, not by 12.
func.func @main(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = stablehlo.constant dense<[[[[1.0]]], [[[1.0]]]]> : tensor<2x1x1x1xf32>
  %v = stablehlo.constant dense<[[[[6.0]]], [[[6.0]]]]> : tensor<2x1x1x1xf32>
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<6.0> : tensor<f32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = stablehlo.clamp %low, %0, %high : (tensor<f32>, tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %2 = "quant.stats"(%1) {layerStats = dense<[0.0, 6.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 6.0], [0.0, 0.5]]> : tensor<2x2xf32>, axis = 1 : i64} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = stablehlo.convolution(%2, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  return %3 : tensor<1x2x2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{.*}}1.000000e+00{{.*}}6.000000e+00{{.*}}> : tensor<2x1x1x1xf32>
// CHECK:       quant.region "depthwise_convolution"({{.*}} = %[[W]])
// CHECK:       %[[V:.*]] = stablehlo.constant dense<{{.*}}6.000000e+00{{.*}}1.000000e+00{{.*}}> : tensor<2x1x1x1xf32>

// -----

// Even channels, and a value that the caller reads too, stay as they are.
func.func @main(%x: tensor<1x2x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = stablehlo.constant dense<[[[[1.0]]], [[[7.0]]]]> : tensor<2x1x1x1xf32>
  %v = stablehlo.constant dense<[[[[5.0]]], [[[16.0]]]]> : tensor<2x1x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>, axisStats = dense<[[-8.0, 4.0], [-1.0, 0.5]]> : tensor<2x2xf32>, axis = 1 : i64} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = stablehlo.convolution(%1, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  return %1, %2 : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant dense<{{.*}}1.000000e+00{{.*}}7.000000e+00{{.*}}>
// CHECK:       stablehlo.constant dense<{{.*}}5.000000e+00{{.*}}1.600000e+01{{.*}}>
