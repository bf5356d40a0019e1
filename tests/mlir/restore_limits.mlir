// RUN: -p 'restore-limits' --split-input-file

// No quantized type holds -inf: the exponential of the least number is not 0.
func.func @main(%x: tensor<4xf32>, %shown: tensor<4xi1>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.select %shown, %x, %0 : tensor<4xi1>, tensor<4xf32>
  %2 = stablehlo.exponential %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:         %[[S:.*]] = stablehlo.select %shown, %x
// CHECK-NEXT:    %[[E:.*]] = stablehlo.exponential %[[S]]
// CHECK-NEXT:    %[[Z:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[B:.*]] = stablehlo.broadcast_in_dim %[[Z]]
// CHECK-NEXT:    stablehlo.select %shown, %[[E]], %[[B]]

// -----

// An added mask; the negation gives inf, which tanh makes 1.
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %mask = stablehlo.constant dense<[0.5, 0xFF800000]> : tensor<2xf32>
  %0 = stablehlo.broadcast_in_dim %mask, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.add %x, %0 : tensor<4x2xf32>
  %2 = stablehlo.negate %1 : tensor<4x2xf32>
  %3 = stablehlo.tanh %2 : tensor<4x2xf32>
  return %3 : tensor<4x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG:     stablehlo.constant dense<[false, true]>
// CHECK-DAG:     stablehlo.constant dense<[5.000000e-01, 0.000000e+00]>
// CHECK:         stablehlo.add
// CHECK:         stablehlo.constant dense<0xFF800000>
// CHECK:         stablehlo.select
// CHECK:         stablehlo.negate
// CHECK:         stablehlo.constant dense<0x7F800000>
// CHECK:         stablehlo.select
// CHECK:         stablehlo.tanh
// CHECK:         stablehlo.constant dense<1.000000e+00>
// CHECK:         stablehlo.select

// -----

// The caller reads the difference: nothing is moved. A relu has its bias bounded later.
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %mask = stablehlo.constant dense<[0.0, 0xFF800000]> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %0 = stablehlo.add %x, %mask : tensor<2xf32>
  %1 = stablehlo.negate %0 : tensor<2xf32>
  %2 = stablehlo.maximum %0, %zero : tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:         stablehlo.add
// CHECK-NEXT:    stablehlo.negate
// CHECK-NEXT:    stablehlo.maximum
