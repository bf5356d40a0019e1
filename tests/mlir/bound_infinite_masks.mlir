// RUN: -p 'bound-infinite-masks'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x3xf32>, %keep: tensor<3xf32>, %other: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>) {
  // CHECK: %[[LOG:.*]] = stablehlo.log %keep
  // CHECK: %[[LEAST:.*]] = stablehlo.constant dense<-3.40282347E+38>
  // CHECK: %[[EVERY:.*]] = stablehlo.broadcast_in_dim %[[LEAST]]
  // CHECK: %[[MASK:.*]] = stablehlo.maximum %[[LOG]], %[[EVERY]]
  // CHECK: %[[SPREAD:.*]] = stablehlo.broadcast_in_dim %[[MASK]]
  // CHECK: stablehlo.add %x, %[[SPREAD]]
  %log = stablehlo.log %keep : tensor<3xf32>
  %mask = stablehlo.broadcast_in_dim %log, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %scores = stablehlo.add %x, %mask : tensor<2x3xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %top = stablehlo.reduce(%scores init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %tops = stablehlo.broadcast_in_dim %top, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %moved = stablehlo.subtract %scores, %tops : tensor<2x3xf32>
  %result = stablehlo.exponential %moved : tensor<2x3xf32>
  // A logarithm that is no mask stays as it is.
  // CHECK: %[[OTHER:.*]] = stablehlo.log %other
  // CHECK-NOT: stablehlo.maximum %[[OTHER]]
  %second = stablehlo.log %other : tensor<3xf32>
  return %result, %second : tensor<2x3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @selected(
func.func @selected(%x: tensor<2x3xf32>, %keep: tensor<2x3xi1>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[LEAST:.*]] = stablehlo.constant dense<-3.40282347E+38>
  // CHECK: %[[EVERY:.*]] = stablehlo.broadcast_in_dim %[[LEAST]]
  // CHECK: stablehlo.select %keep, %zero, %[[EVERY]]
  %zero = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %hidden = stablehlo.constant dense<0xFF800000> : tensor<2x3xf32>
  %mask = stablehlo.select %keep, %zero, %hidden : tensor<2x3xi1>, tensor<2x3xf32>
  %scores = stablehlo.add %x, %mask : tensor<2x3xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %top = stablehlo.reduce(%scores init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %tops = stablehlo.broadcast_in_dim %top, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %moved = stablehlo.subtract %scores, %tops : tensor<2x3xf32>
  %result = stablehlo.exponential %moved : tensor<2x3xf32>
  // A selection that is no mask stays as it is.
  // CHECK: stablehlo.select %keep, %x, %hidden
  %second = stablehlo.select %keep, %x, %hidden : tensor<2x3xi1>, tensor<2x3xf32>
  return %result, %second : tensor<2x3xf32>, tensor<2x3xf32>
}

// The model asks for NaN: a row that is hidden as a whole must be one.
// CHECK-LABEL: func.func @tested(
func.func @tested(%x: tensor<2x3xf32>, %keep: tensor<2x3xi1>) -> tensor<2x3xi1> {
  // CHECK: stablehlo.select %keep, %zero, %hidden
  %zero = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %hidden = stablehlo.constant dense<0xFF800000> : tensor<2x3xf32>
  %mask = stablehlo.select %keep, %zero, %hidden : tensor<2x3xi1>, tensor<2x3xf32>
  %scores = stablehlo.add %x, %mask : tensor<2x3xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %top = stablehlo.reduce(%scores init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %tops = stablehlo.broadcast_in_dim %top, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %moved = stablehlo.subtract %scores, %tops : tensor<2x3xf32>
  %result = stablehlo.exponential %moved : tensor<2x3xf32>
  %nan = stablehlo.compare NE, %result, %result : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  return %nan : tensor<2x3xi1>
}
