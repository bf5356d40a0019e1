// RUN: -p 'fold-positions'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  // CHECK: %[[PLACES:.*]] = stablehlo.iota
  // CHECK: %[[FACTORS:.*]] = stablehlo.constant dense<[0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00]>
  // CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[FACTORS]]
  // CHECK: stablehlo.multiply %x, %[[WIDE]]
  %i = stablehlo.iota dim = 0 : tensor<4xf32>
  %c = stablehlo.constant dense<0.5> : tensor<f32>
  %half = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %f = stablehlo.multiply %i, %half : tensor<4xf32>
  %w = stablehlo.broadcast_in_dim %f, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %0 = stablehlo.multiply %x, %w : tensor<2x4xf32>
  // CHECK: %[[LATE:.*]] = stablehlo.constant dense<[false, false, true, true]>
  // CHECK: %[[MASK:.*]] = stablehlo.broadcast_in_dim %[[LATE]]
  // CHECK: stablehlo.select %[[MASK]], %x
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %late = stablehlo.compare GT, %i, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %m = stablehlo.broadcast_in_dim %late, dims = [1] : (tensor<4xi1>) -> tensor<2x4xi1>
  %1 = stablehlo.select %m, %x, %0 : tensor<2x4xi1>, tensor<2x4xf32>
  // Positions themselves stay.
  // CHECK: %[[WIDEST:.*]] = stablehlo.broadcast_in_dim %[[PLACES]]
  // CHECK: stablehlo.add %x, %[[WIDEST]]
  %p = stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %2 = stablehlo.add %x, %p : tensor<2x4xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
