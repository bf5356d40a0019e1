// RUN: -p 'channels-last{ports=true}'

// Inputs and outputs take the order that is wanted, and say which.
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<4x3x3x3xf32>
  %0 = "quant.region"(%x, %w) ({
  ^bb0(%a: tensor<1x3x8x8xf32>, %b: tensor<4x3x3x3xf32>):
    %1 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    "quant.return"(%1) : (tensor<1x4x6x6xf32>) -> ()
  }) {input_specs = [f32, f32], output_specs = [f32], logical_kernel = "convolution"} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:  tensor<1x8x8x3xf32> {zeropoint.order = array<i64: 0, 2, 3, 1>}
// CHECK-SAME:  tensor<1x6x6x4xf32> {zeropoint.order = array<i64: 0, 2, 3, 1>}
// CHECK-NOT:   transpose
