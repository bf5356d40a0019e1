// RUN: -p 'fold-constants'

// g * v / |v|, as PyTorch's weight normalization exports a weight: |v| over dimension 1.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %v = stablehlo.constant dense<[[3.0, 4.0], [0.0, 2.0], [5.0, 12.0]]> : tensor<3x2xf32>
  %g = stablehlo.constant dense<[[5.0], [1.0], [26.0]]> : tensor<3x1xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %squares = stablehlo.multiply %v, %v : tensor<3x2xf32>
  %sums = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3xf32>
  %column = stablehlo.reshape %sums : (tensor<3xf32>) -> tensor<3x1xf32>
  %norm = stablehlo.sqrt %column : tensor<3x1xf32>
  %ratio = stablehlo.divide %g, %norm : tensor<3x1xf32>
  %wide = stablehlo.broadcast_in_dim %ratio, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x2xf32>
  %w = stablehlo.multiply %v, %wide : tensor<3x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant dense<{{\[\[}}3.000000e+00, 4.000000e+00], [0.000000e+00, 1.000000e+00], [1.000000e+01, 2.400000e+01]]>
// CHECK-NEXT:  stablehlo.dot_general %x, %[[W]]
