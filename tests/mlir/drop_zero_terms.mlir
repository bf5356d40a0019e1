// RUN: -p 'drop-zero-terms'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x3xf32>, %n: tensor<2xi64>, %w: tensor<3x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %none = stablehlo.constant dense<0> : tensor<2xi64>
  // CHECK: %[[TANH:.*]] = stablehlo.tanh %x
  %0 = stablehlo.tanh %x : tensor<2x3xf32>
  %1 = stablehlo.add %zeros, %0 : tensor<2x3xf32>
  %2 = stablehlo.subtract %1, %zeros : tensor<2x3xf32>
  %3 = stablehlo.add %n, %none : tensor<2xi64>
  // 0 - x is no such difference.
  // CHECK: %[[MINUS:.*]] = stablehlo.subtract %{{.*}}, %x
  %4 = stablehlo.subtract %zeros, %x : tensor<2x3xf32>
  // The bias of a contraction stays.
  // CHECK: stablehlo.dot_general
  // CHECK: %[[BIAS:.*]] = stablehlo.add
  %5 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %channels = stablehlo.constant dense<0.0> : tensor<3xf32>
  %bias = stablehlo.broadcast_in_dim %channels, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %6 = stablehlo.add %5, %bias : tensor<2x3xf32>
  // A mask does not.
  // CHECK-NOT: stablehlo.add
  %7 = stablehlo.add %6, %zeros : tensor<2x3xf32>
  // CHECK: return %[[TANH]], %[[TANH]], %n, %[[MINUS]], %[[BIAS]]
  return %1, %2, %3, %4, %7 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// The first step of a recurrence, whose state is zeros.
func.func @state(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>, %n: tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %state = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %0 = stablehlo.dot_general %state, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %x, %0 : tensor<2x3xf32>
  %2 = stablehlo.multiply %x, %state : tensor<2x3xf32>
  %3 = stablehlo.add %2, %1 : tensor<2x3xf32>
  // Products of integers are exact, and stay.
  %none = stablehlo.constant dense<0> : tensor<2x3xi32>
  %4 = stablehlo.multiply %n, %none : tensor<2x3xi32>
  return %3, %4 : tensor<2x3xf32>, tensor<2x3xi32>
}
// CHECK-LABEL: func.func @state
// CHECK-NOT:   stablehlo.{{dot_general|add}}
// CHECK:       %[[N:.*]] = stablehlo.multiply %n, %none
// CHECK-NEXT:  return %x, %[[N]]

// -----

// A function of a product with zeros is a constant.
func.func @function(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %0 = stablehlo.multiply %x, %zeros : tensor<2x3xf32>
  %1 = stablehlo.logistic %0 : tensor<2x3xf32>
  %2 = stablehlo.add %1, %x : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @function
// CHECK-NOT:   stablehlo.logistic
// CHECK:       stablehlo.add
