// RUN: -p 'fold-broadcasts' --split-input-file

// A bias as JAX spells it, in two broadcasts, is one of rank 1.
func.func @main(%x: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  %b = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x4x4x8xf32>
  %2 = stablehlo.add %x, %1 : tensor<2x4x4x8xf32>
  return %2 : tensor<2x4x4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[B:.*]] = stablehlo.constant dense<[1.000000e+00, {{.*}}]> : tensor<8xf32>
// CHECK-NEXT:  %[[R:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [3] : (tensor<8xf32>) -> tensor<2x4x4x8xf32>
// CHECK-NEXT:  stablehlo.add %{{.*}}, %[[R]]

// -----

// A constant loses the dimensions of size 1 that are repeated.
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %b = stablehlo.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
  %0 = stablehlo.broadcast_in_dim %b, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[B:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:  stablehlo.broadcast_in_dim %[[B]], dims = [1] : (tensor<3xf32>) -> tensor<2x3x4xf32>

// -----

// What is computed is broadcast in one step too, and an inner value that others read stays.
func.func @main(%x: tensor<4xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x3xf32>
  return %1, %0 : tensor<4x3xf32>, tensor<4x1xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4xf32>)
// CHECK-NEXT:  %[[KEPT:.*]] = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:  %[[WHOLE:.*]] = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:  return %[[WHOLE]], %[[KEPT]]

// -----

// The bias of a convolution with one element for each channel is of the result's shape; it becomes one of rank 1.
func.func @main(%x: tensor<1x2x1x1xf32>) -> tensor<1x3x1x1xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<3x2x1x1xf32>
  %b = stablehlo.constant dense<[[[[1.0]], [[2.0]], [[3.0]]]]> : tensor<1x3x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x1x1xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x1x1xf32>
  %1 = stablehlo.add %0, %b : tensor<1x3x1x1xf32>
  return %1 : tensor<1x3x1x1xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[C:.*]] = stablehlo.convolution
// CHECK-NEXT:  %[[V:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:  %[[B:.*]] = stablehlo.broadcast_in_dim %[[V]], dims = [1] : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
// CHECK-NEXT:  stablehlo.add %[[C]], %[[B]]

// -----

// The bias of a convolution with one channel is one of rank 1 too, wherever the 1 stands, and not a number.
func.func @main(%x: tensor<1x2x3x3xf32>) -> tensor<1x1x3x3xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<1x2x1x1xf32>
  %b = stablehlo.constant dense<0.5> : tensor<1x1x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x3x3xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x3x3xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<1x1x3x3xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x1x3x3xf32>
  return %2 : tensor<1x1x3x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[V:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<1xf32>
// CHECK-NEXT:  stablehlo.broadcast_in_dim %[[V]], dims = [1] : (tensor<1xf32>) -> tensor<1x1x3x3xf32>

// -----

// The same where the constant has the result's own shape, all ones.
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x1xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<4x1xf32>
  %b = stablehlo.constant dense<0.5> : tensor<1x1xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32>
  %1 = stablehlo.add %0, %b : tensor<1x1xf32>
  return %1 : tensor<1x1xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[V:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<1xf32>
// CHECK-NEXT:  stablehlo.broadcast_in_dim %[[V]], dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>

// -----

// A broadcast that also transposes: readers of its operand only add dimensions.
func.func @main(%x: tensor<2x3xf32>) -> tensor<4x3x2xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [2, 1] : (tensor<2x3xf32>) -> tensor<4x3x2xf32>
  return %0 : tensor<4x3x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:  stablehlo.broadcast_in_dim %[[T]], dims = [1, 2] : (tensor<3x2xf32>) -> tensor<4x3x2xf32>
