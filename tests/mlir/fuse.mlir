// RUN: -p 'fuse' --split-input-file --locations

// A convolution takes its bias and its relu6; weights are ports, bounds move inside.
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<2x1x3x3xf32>
  %b = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %six = stablehlo.constant dense<6.0> : tensor<f32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x4x4xf32> loc("depthwise")
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x2x4x4xf32>
  %3 = stablehlo.clamp %zero, %2, %six : (tensor<f32>, tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  return %3 : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG:   %[[W:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2x1x3x3xf32>
// CHECK-DAG:   %[[B:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK:       quant.region "depthwise_convolution"(%{{.*}} = %{{.*}}, %{{.*}} = %[[W]], %{{.*}} = %[[B]]) -> {{[^ ]*}} {
// CHECK-NEXT:    stablehlo.convolution
// CHECK-NEXT:    stablehlo.broadcast_in_dim
// CHECK-NEXT:    stablehlo.add
// CHECK-NEXT:    stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:    stablehlo.constant dense<6.000000e+00>
// CHECK-NEXT:    stablehlo.clamp
// CHECK-NEXT:    quant.return
// CHECK-NEXT:  } loc("depthwise")
// CHECK-NEXT:  return

// -----

// A residual sum takes its relu; the relu alone would have been a function of one tensor.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = stablehlo.maximum %0, %zero : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "add"
// CHECK:         stablehlo.add
// CHECK:         stablehlo.maximum
// CHECK-NOT:   quant.region

// -----

// All the bounds of a sum, not the last of them alone.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %six = stablehlo.constant dense<6.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = stablehlo.maximum %0, %zero : tensor<4xf32>
  %2 = stablehlo.minimum %1, %six : tensor<4xf32>
  return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "add"
// CHECK:         stablehlo.add
// CHECK:         stablehlo.maximum
// CHECK:         stablehlo.minimum
// CHECK-NOT:   stablehlo.minimum

// -----

// x * clamp(x / 6 + 1/2, 0, 1) is one function of x, however many ops it takes.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %sixth = stablehlo.constant dense<0.16666667> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.multiply %x, %sixth : tensor<4xf32>
  %1 = stablehlo.add %0, %half : tensor<4xf32>
  %2 = stablehlo.clamp %zero, %1, %one : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = stablehlo.multiply %x, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "elementwise_unary"(%{{.*}} = %{{[^,]*}}
// CHECK-NOT:   quant.region

// -----

// x * logistic(y) is not a function of one tensor: a product, and a logistic before it.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.logistic %y : tensor<4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "logistic"
// CHECK:       quant.region "multiply"

// -----

// Softmax is one kernel, not a reduction, a difference, an exponential, ....
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<1xf32>) -> tensor<1x4xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<1x4xf32>
  %3 = stablehlo.exponential %2 : tensor<1x4xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<1xf32>) -> tensor<1x4xf32>
  %6 = stablehlo.divide %3, %5 : tensor<1x4xf32>
  return %6 : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "softmax"
// CHECK-NOT:   quant.region

// -----

// Pools, and a mean with the reshape that puts the reduced dimensions back.
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %four = stablehlo.constant dense<4.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [2, 3] : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2xf32>
  %2 = stablehlo.reshape %1 : (tensor<1x2xf32>) -> tensor<1x2x1x1xf32>
  %3 = stablehlo.broadcast_in_dim %four, dims = [] : (tensor<f32>) -> tensor<1x2x1x1xf32>
  %4 = stablehlo.divide %2, %3 : tensor<1x2x1x1xf32>
  return %4 : tensor<1x2x1x1xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "max_pool"
// CHECK:       quant.region "mean"
// CHECK-NOT:   quant.region

// -----

// A sum that is divided by a negative number, or by anything that is no count, is no mean: the scale of its product
// would be negative, or its reciprocal would be lost in 22 bits.
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1xf32>, tensor<1x3xf32>, tensor<1x3xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %minus = stablehlo.constant dense<-4.0> : tensor<1xf32>
  %counts = stablehlo.constant dense<[[1.0, 2.0, 1.0]]> : tensor<1x3xf32>
  %others = stablehlo.constant dense<[[0.01, 2.0, 1.0]]> : tensor<1x3xf32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
  %1 = stablehlo.divide %0, %minus : tensor<1xf32>
  %2 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x3xf32>
  %3 = stablehlo.divide %2, %counts : tensor<1x3xf32>
  %4 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x3xf32>
  %5 = stablehlo.divide %4, %others : tensor<1x3xf32>
  return %1, %3, %5 : tensor<1xf32>, tensor<1x3xf32>, tensor<1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "sum"
// CHECK:       quant.region "elementwise_unary"
// CHECK:       quant.region "average_pool"
// CHECK:       quant.region "sum"
// CHECK:       stablehlo.divide

// -----

// A matrix by itself: each operand reads its own port, since the kernel wants zero point 0 at the second only.
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x3xf32> {
  %0 = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  return %0 : tensor<2x3x3xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<2x3x4xf32>)
// CHECK-NEXT:  quant.region "batch_matmul"(%[[L:.*]]: tensor<2x3x4xf32> = %x, %[[R:.*]]: tensor<2x3x4xf32> = %x)
// CHECK-NEXT:    stablehlo.dot_general %[[L]], %[[R]],
