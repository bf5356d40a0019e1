// RUN: -p 'fold-padding' --split-input-file

func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<1.0> : tensor<1x1x3x3xf32>
  %0 = stablehlo.pad %x, %zero, low = [0, 0, 0, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : (tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x5x6xf32>
  %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x5x6xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  return %1 : tensor<1x1x4x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   stablehlo.pad
// CHECK:       stablehlo.convolution(%{{.*}}, %{{.*}}) {{.*}} window = {pad = {{\[}}[1, 1], [1, 1]]}

// -----

// Padding with anything but 0 is not what a convolution pads with.
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %w = stablehlo.constant dense<1.0> : tensor<1x1x3x3xf32>
  %0 = stablehlo.pad %x, %one, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32>
  return %1 : tensor<1x1x2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.pad
// CHECK:       window = {}

// -----

// Negative padding removes elements, and the zeros that the convolution adds do not bring them back.
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<1.0> : tensor<1x1x1x1xf32>
  %0 = stablehlo.pad %x, %zero, low = [0, 0, -1, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x3x4xf32>
  %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x3x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  return %1 : tensor<1x1x4x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.pad
// CHECK:       window = {pad = {{\[}}[1, 0], [0, 0]]}
