// RUN: -p 'bound-infinities' --split-input-file

// Both functions give the same results at -1e9 and at -inf.
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>) {
  %mask = stablehlo.constant dense<[0.0, 0xFF800000]> : tensor<2xf32>
  %0 = stablehlo.broadcast_in_dim %mask, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.add %x, %0 : tensor<4x2xf32>
  %2 = stablehlo.logistic %1 : tensor<4x2xf32>
  %3 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %4 = stablehlo.tanh %3 : tensor<2x4xf32>
  return %2, %4 : tensor<4x2xf32>, tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:         %[[M:.*]] = stablehlo.constant dense<[0.000000e+00, -1.000000e+09]>
// CHECK-NEXT:    %[[B:.*]] = stablehlo.broadcast_in_dim %[[M]], dims = [1]
// CHECK-NEXT:    stablehlo.add %x, %[[B]]

// -----

// A negation tells -1e9 from -inf.
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %mask = stablehlo.constant dense<[0.0, 0xFF800000]> : tensor<2xf32>
  %0 = stablehlo.add %x, %mask : tensor<2xf32>
  %1 = stablehlo.negate %0 : tensor<2xf32>
  %2 = stablehlo.logistic %0 : tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:         stablehlo.constant dense<[0.000000e+00, 0xFF800000]>
