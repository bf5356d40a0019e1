// RUN: -p 'fold-batch-norm' --split-input-file

// conv * scale + shift: the scale goes into the weight, the shift becomes the bias.
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = stablehlo.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %scale = stablehlo.constant dense<[10.0, 100.0]> : tensor<2xf32>
  %shift = stablehlo.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<1x2x2x2xf32>
  %3 = stablehlo.broadcast_in_dim %shift, dims = [1] : (tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %4 = stablehlo.add %2, %3 : tensor<1x2x2x2xf32>
  return %4 : tensor<1x2x2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[SHIFT:.*]] = stablehlo.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{.*}}1.000000e+01{{.*}}2.000000e+02{{.*}}> : tensor<2x1x1x1xf32>
// CHECK:       %[[C:.*]] = stablehlo.convolution(%{{.*}}, %[[W]])
// CHECK-NOT:   stablehlo.multiply
// CHECK:       stablehlo.add %[[C]], %{{.*}} : tensor<1x2x2x2xf32>

// -----

// A bias before the scale is scaled with it: (x w + b) s + t = x (w s) + (b s + t).
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %t = stablehlo.constant dense<[5.0, 7.0]> : tensor<2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x2xf32>
  %3 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<1x2xf32>
  %5 = stablehlo.broadcast_in_dim %t, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %6 = stablehlo.subtract %4, %5 : tensor<1x2xf32>
  return %6 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{\[}}[2.000000e+00, 6.000000e+00], [6.000000e+00, 1.200000e+01]]> : tensor<2x2xf32>
// CHECK:       %[[P:.*]] = stablehlo.dot_general %{{.*}}, %[[W]]
// CHECK:       %[[B:.*]] = stablehlo.constant dense<[-3.000000e+00, -1.000000e+00]> : tensor<2xf32>
// CHECK:       %[[BB:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [1]
// CHECK:       stablehlo.add %[[P]], %[[BB]]
// CHECK-NOT:   stablehlo.subtract

// -----

// A convolution that others use as well keeps its weight.
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %s = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<1x2xf32>
  return %0, %2 : tensor<1x2xf32>, tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       dense<{{\[}}[1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]>
// CHECK:       stablehlo.multiply
