// RUN: -p 'drop-repeated-shifts'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[ONCE:.*]] = stablehlo.subtract %x
  // CHECK-NEXT: %[[POWER:.*]] = stablehlo.exponential %[[ONCE]]
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %g = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %k = stablehlo.reshape %g : (tensor<2xf32>) -> tensor<2x1xf32>
  %b = stablehlo.broadcast_in_dim %k, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %0 = stablehlo.subtract %x, %b : tensor<2x3xf32>
  %h = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %c = stablehlo.broadcast_in_dim %h, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.subtract %0, %c : tensor<2x3xf32>
  %2 = stablehlo.exponential %1 : tensor<2x3xf32>
  // The maximum over columns is not that over rows.
  // CHECK: %[[FIRST:.*]] = stablehlo.subtract %x
  // CHECK: %[[SECOND:.*]] = stablehlo.subtract %[[FIRST]]
  // CHECK: stablehlo.exponential %[[SECOND]]
  %d = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  %e = stablehlo.broadcast_in_dim %d, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.subtract %x, %e : tensor<2x3xf32>
  %f = stablehlo.reduce(%3 init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %i = stablehlo.broadcast_in_dim %f, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.subtract %3, %i : tensor<2x3xf32>
  %5 = stablehlo.exponential %4 : tensor<2x3xf32>
  return %2, %5 : tensor<2x3xf32>, tensor<2x3xf32>
}
