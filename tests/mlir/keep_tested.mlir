// RUN: -p 'fuse,keep-tested'

// The second row of scores may be hidden as a whole, where the softmax is NaN, and the model wants 0.
func.func @main(%x: tensor<2x2xf32>, %hide: tensor<2x2xi1>) -> tensor<2x2xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
  %t = stablehlo.tanh %x : tensor<2x2xf32>
  %s = stablehlo.select %hide, %lows, %t : tensor<2x2xi1>, tensor<2x2xf32>
  %max = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %mb = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
  %d = stablehlo.subtract %s, %mb : tensor<2x2xf32>
  %e = stablehlo.exponential %d : tensor<2x2xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %sb = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
  %p = stablehlo.divide %e, %sb : tensor<2x2xf32>
  %nan = stablehlo.compare NE, %p, %p : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %y = stablehlo.select %nan, %zeros, %p : tensor<2x2xi1>, tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[T:.*]] = quant.region "tanh"(%{{.*}} = %x) -> tensor<2x2xf32> {
// CHECK:       %[[S:.*]] = quant.region "select"({{.*}} = %[[T]] as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model tests for NaN or infinite numbers here, and integers are always finite"}
// CHECK:       %[[P:.*]] = quant.region "softmax"({{.*}} = %[[S]] as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model tests for NaN or infinite numbers here, and integers are always finite"}
// CHECK:       quant.region "elementwise_unary"({{.*}} = %[[P]] as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model tests for NaN or infinite numbers here, and integers are always finite"}
