// RUN: -p 'fold-counts'

// Windows of 2 with a stride of 2, padded by one on the left: the first has one element of the image, the others two.
func.func @main(%x: tensor<1x5xf32>) -> tensor<1x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<1x5xf32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x3xf32>
  %1 = "stablehlo.reduce_window"(%ones, %zero) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x3xf32>
  %2 = stablehlo.divide %0, %1 : tensor<1x3xf32>
  return %2 : tensor<1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = "stablehlo.reduce_window"(%x
// CHECK:       %[[N:.*]] = stablehlo.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 2.000000e+00]]>
// CHECK-NEXT:  stablehlo.divide %[[S]], %[[N]]
