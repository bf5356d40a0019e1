// RUN: -p 'add-masks'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x3xf32>, %m: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[LOW:.*]] = stablehlo.constant dense<-1.000000e+04>
  // CHECK: %[[FACTOR:.*]] = stablehlo.broadcast_in_dim %[[LOW]]
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %[[FACTOR]], %m
  // CHECK: %[[MASK:.*]] = stablehlo.broadcast_in_dim %[[PRODUCT]]
  // CHECK: %[[FIRST:.*]] = stablehlo.add %x, %[[MASK]]
  %c = stablehlo.constant dense<1.0e4> : tensor<f32>
  %f = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %p = stablehlo.multiply %f, %m : tensor<3xf32>
  %b = stablehlo.broadcast_in_dim %p, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %0 = stablehlo.subtract %x, %b : tensor<2x3xf32>
  // CHECK: %[[CAUSAL:.*]] = stablehlo.constant dense<{{.*}}-1.000000e+10
  // CHECK: %[[SECOND:.*]] = stablehlo.add %x, %[[CAUSAL]]
  %causal = stablehlo.constant dense<[[0.0, 1.0e10, 1.0e10], [0.0, 0.0, 1.0e10]]> : tensor<2x3xf32>
  %1 = stablehlo.subtract %x, %causal : tensor<2x3xf32>
  // Numbers of ordinary size are no mask, and a mask that others read keeps its sign.
  // CHECK: %[[THIRD:.*]] = stablehlo.subtract %x
  %mean = stablehlo.constant dense<[[103.0, 116.0, 124.0], [103.0, 116.0, 124.0]]> : tensor<2x3xf32>
  %2 = stablehlo.subtract %x, %mean : tensor<2x3xf32>
  // CHECK: %[[FOURTH:.*]] = stablehlo.subtract %x
  %g = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %q = stablehlo.multiply %2, %g : tensor<2x3xf32>
  %3 = stablehlo.subtract %x, %q : tensor<2x3xf32>
  %4 = stablehlo.add %3, %q : tensor<2x3xf32>
  return %0, %1, %2, %4 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// One mask for two layers (XLNet).
// CHECK-LABEL: func.func @layers(
func.func @layers(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %m: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[LOW:.*]] = stablehlo.constant dense<-1.000000e+30>
  // CHECK: %[[FACTOR:.*]] = stablehlo.broadcast_in_dim %[[LOW]]
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %m, %[[FACTOR]]
  // CHECK: %[[MASK:.*]] = stablehlo.broadcast_in_dim %[[PRODUCT]]
  // CHECK: stablehlo.add %x, %[[MASK]]
  // CHECK: stablehlo.add %y, %[[MASK]]
  %c = stablehlo.constant dense<1.0e30> : tensor<f32>
  %f = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %p = stablehlo.multiply %m, %f : tensor<3xf32>
  %b = stablehlo.broadcast_in_dim %p, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %0 = stablehlo.subtract %x, %b : tensor<2x3xf32>
  %1 = stablehlo.subtract %y, %b : tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
