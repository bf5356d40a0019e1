// RUN: -p 'fold-constants' --split-input-file

// A transposed weight is a weight.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{\[}}[1.000000e+00, 3.000000e+00, 5.000000e+00], [2.000000e+00, 4.000000e+00, 6.000000e+00]]> : tensor<2x3xf32>
// CHECK-NOT:   stablehlo.transpose
// CHECK:       stablehlo.dot_general %{{.*}}, %[[W]]

// -----

// Chains fold in one walk; a broadcast stays, it would only make the constant larger.
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = stablehlo.constant dense<[3.0, 5.0]> : tensor<2xf32>
  %s = stablehlo.add %a, %b : tensor<2xf32>
  %n = stablehlo.negate %s : tensor<2xf32>
  %c = stablehlo.broadcast_in_dim %n, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %y = stablehlo.multiply %x, %c : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[C:.*]] = stablehlo.constant dense<[-4.000000e+00, -7.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:  stablehlo.broadcast_in_dim %[[C]], dims = [1]

// -----

// A contraction reads a constant, or a value that varies: what it reads of a broadcast is broadcast here.
func.func @main(%x: tensor<2x2x3xf32>) -> tensor<2x1x3xf32> {
  %c = stablehlo.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %b = stablehlo.broadcast_in_dim %c, dims = [1, 2] : (tensor<1x2xf32>) -> tensor<2x1x2xf32>
  %y = stablehlo.dot_general %b, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x2xf32>, tensor<2x2x3xf32>) -> tensor<2x1x3xf32>
  return %y : tensor<2x1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[B:.*]] = stablehlo.constant dense<{{\[}}{{\[}}[1.000000e+00, 2.000000e+00]], {{\[}}[1.000000e+00, 2.000000e+00]]]> : tensor<2x1x2xf32>
// CHECK-NOT:   broadcast_in_dim
// CHECK:       stablehlo.dot_general %[[B]], %{{.*}}

// -----

// Elements in the opposite order are stored in the same type.
func.func @main(%x: tensor<1x2x3xf32>) -> tensor<1x3x1xf32> {
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32:0, {0.5,0.25}>} dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %r = stablehlo.reverse %w, dims = [2] : tensor<2x1x2xf32>
  %y = stablehlo.dot_general %x, %r, batching_dims = [] x [], contracting_dims = [0, 1] x [1, 0] : (tensor<1x2x3xf32>, tensor<2x1x2xf32>) -> tensor<3x2xf32>
  %z = stablehlo.slice %y [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %a = stablehlo.reshape %z : (tensor<3x1xf32>) -> tensor<1x3x1xf32>
  return %a : tensor<1x3x1xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant {{.*}}zeropoint.pinned = !quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>{{.*}}dense<{{\[}}{{\[}}[2.000000e+00, 1.000000e+00]], {{\[}}[4.000000e+00, 3.000000e+00]]]>
// CHECK-NOT:   stablehlo.reverse

// -----

// A slice of a constant is a smaller constant: the positions of a shorter text.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %table = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %row = stablehlo.slice %table [1:3:2, 0:2] : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %y = stablehlo.add %x, %row : tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[ROW:.*]] = stablehlo.constant dense<{{\[}}[3.000000e+00, 4.000000e+00]]> : tensor<1x2xf32>
// CHECK-NEXT:  stablehlo.add %{{.*}}, %[[ROW]]

// -----

// Functions of constants: the exponential of a state matrix, and a number that is repeated and moved.
func.func @main(%x: tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>) {
  %log = stablehlo.constant dense<[[0.0], [0xFF800000]]> : tensor<2x1xf32>
  %exp = stablehlo.exponential %log : tensor<2x1xf32>
  %y = stablehlo.multiply %x, %exp : tensor<2x1xf32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %moved = stablehlo.reshape %ones : (tensor<2xf32>) -> tensor<2x1xf32>
  %zeros = stablehlo.log %moved : tensor<2x1xf32>
  %z = stablehlo.maximum %x, %zeros : tensor<2x1xf32>
  return %y, %z : tensor<2x1xf32>, tensor<2x1xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[EXP:.*]] = stablehlo.constant dense<{{\[}}[1.000000e+00], [0.000000e+00]]> : tensor<2x1xf32>
// CHECK-NEXT:  stablehlo.multiply %{{.*}}, %[[EXP]]
// CHECK-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:  %[[ZEROS:.*]] = stablehlo.broadcast_in_dim %[[ZERO]], dims = [] : (tensor<f32>) -> tensor<2x1xf32>
// CHECK-NEXT:  stablehlo.maximum %{{.*}}, %[[ZEROS]]

// -----

// Scales of blocks move with the weights: transposed, and reversed along a blocked dimension.
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32:{0:1, 1:2}, {{0.5, 0.25}, {1.0, 2.0}}>} dense<[[0.5, 1.0, 0.25, 0.5], [1.0, 2.0, 2.0, 4.0]]> : tensor<2x4xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  %r = stablehlo.reverse %w, dims = [1] : tensor<2x4xf32>
  %z = stablehlo.dot_general %x, %r, contracting_dims = [1] x [1] : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  return %y, %z : tensor<1x2xf32>, tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant {{.*}}!quant.uniform<i8:f32:{0:2, 1:1}, {{\{\{}}5.000000e-01, 1.000000e+00}, {2.500000e-01, 2.000000e+00}}>
// CHECK-SAME:  tensor<4x2xf32>
// CHECK:       stablehlo.constant {{.*}}!quant.uniform<i8:f32:{0:1, 1:2}, {{\{\{}}2.500000e-01, 5.000000e-01}, {2.000000e+00, 1.000000e+00}}>
// CHECK-SAME:  tensor<2x4xf32>

// -----

// Scales of channels are reversed with them.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32:0, {0.5, 0.25}>} dense<[[0.5, 1.0], [0.25, 0.5]]> : tensor<2x2xf32>
  %r = stablehlo.reverse %w, dims = [0] : tensor<2x2xf32>
  %z = stablehlo.dot_general %x, %r, contracting_dims = [1] x [1] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant {{.*}}!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01}>

// -----

// Joined constants are a constant: the weights of an LSTM's gates in another order.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %a = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[[3.0, 4.0], [5.0, 6.0]]> : tensor<2x2xf32>
  %w = stablehlo.concatenate %b, %a, dim = 1 : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{\[}}[3.000000e+00, 4.000000e+00, 1.000000e+00], [5.000000e+00, 6.000000e+00, 2.000000e+00]]> : tensor<2x3xf32>
// CHECK-NOT:   stablehlo.concatenate
// CHECK:       stablehlo.dot_general %{{.*}}, %[[W]]

// -----

// Constants of other types that the file states stay apart, because the joined one has no type for both.
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32, 0.5>} dense<[1.0]> : tensor<1xf32>
  %b = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32, 0.25>} dense<[3.0]> : tensor<1xf32>
  %w = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %y = stablehlo.add %x, %w : tensor<2xf32>
  return %y : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.concatenate
