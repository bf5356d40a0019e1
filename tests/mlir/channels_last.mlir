// RUN: -p 'channels-last' --split-input-file

// A convolution, its bias and a relu behind it: one transpose in front, one at the output.
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<4x3x3x3xf32>
  %0 = "quant.region"(%x, %w) ({
  ^bb0(%a: tensor<1x3x8x8xf32>, %b: tensor<4x3x3x3xf32>):
    %1 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    "quant.return"(%1) : (tensor<1x4x6x6xf32>) -> ()
  }) {input_specs = [f32, f32], output_specs = [f32], logical_kernel = "convolution"} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %z = stablehlo.constant dense<0.0> : tensor<1x4x6x6xf32>
  %2 = stablehlo.maximum %0, %z : tensor<1x4x6x6xf32>
  return %2 : tensor<1x4x6x6xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:[a-z0-9]*]]: tensor<1x3x8x8xf32>
// CHECK:       %[[T:.*]] = quant.region "{{.*}}"(%{{.*}} = %[[X]]
// CHECK:       stablehlo.transpose %{{.*}}, dims = [0, 2, 3, 1]
// CHECK:       %[[C:.*]] = quant.region "{{.*}}"(%{{.*}} = %[[T]]
// CHECK:       dim_numbers = [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]
// CHECK:       %[[R:.*]] = stablehlo.maximum %[[C]], %{{.*}} : tensor<1x6x6x4xf32>
// CHECK-NEXT:  %[[B:.*]] = stablehlo.transpose %[[R]], dims = [0, 3, 1, 2]
// CHECK-NEXT:  return %[[B]]

// -----

// A transpose of the model meets the order that it asks for, and goes.
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %t = stablehlo.transpose %x, dims = [0, 3, 1, 2] : (tensor<1x4x4x2xf32>) -> tensor<1x2x4x4xf32>
  %w = stablehlo.constant dense<1.0> : tensor<2x2x1x1xf32>
  %0 = "quant.region"(%t, %w) ({
  ^bb0(%a: tensor<1x2x4x4xf32>, %b: tensor<2x2x1x1xf32>):
    %1 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    "quant.return"(%1) : (tensor<1x2x4x4xf32>) -> ()
  }) {input_specs = [f32, f32], output_specs = [f32], logical_kernel = "convolution"} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = stablehlo.transpose %0, dims = [0, 2, 3, 1] : (tensor<1x2x4x4xf32>) -> tensor<1x4x4x2xf32>
  return %2 : tensor<1x4x4x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:[a-z0-9]*]]: tensor<1x4x4x2xf32>
// CHECK-NOT:   transpose
// CHECK:       return

// -----

// A reshape that mixes dimensions has no form in the other order: the value goes back in front of it.
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x16xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<2x2x3x3xf32>
  %0 = "quant.region"(%x, %w) ({
  ^bb0(%a: tensor<1x2x4x4xf32>, %b: tensor<2x2x3x3xf32>):
    %1 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x2x2xf32>
    "quant.return"(%1) : (tensor<1x2x2x2xf32>) -> ()
  }) {input_specs = [f32, f32], output_specs = [f32], logical_kernel = "convolution"} : (tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x2x2xf32>
  %2 = stablehlo.concatenate %0, %0, dim = 1 : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x4x2x2xf32>
  %3 = stablehlo.reshape %2 : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>
  return %3 : tensor<1x16xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[C:.*]] = stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 3
// CHECK-NEXT:  %[[B:.*]] = stablehlo.transpose %[[C]], dims = [0, 3, 1, 2]
// CHECK-NEXT:  stablehlo.reshape %[[B]]
