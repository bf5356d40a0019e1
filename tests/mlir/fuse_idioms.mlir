// RUN: -p 'fold-broadcasts,fuse' --split-input-file

// Softmax as JAX lowers it: bounded below by -inf, in two broadcasts.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.maximum %1, %0 : tensor<4xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %5 = stablehlo.subtract %x, %4 : tensor<4x8xf32>
  %6 = stablehlo.exponential %5 : tensor<4x8xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %10 = stablehlo.divide %6, %9 : tensor<4x8xf32>
  return %10 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[ALL:.*]] = quant.region "softmax"(%{{.*}} = %x
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// The logarithm of a softmax.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<4x8xf32>
  %3 = stablehlo.exponential %2 : tensor<4x8xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = stablehlo.log %4 : tensor<4xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %7 = stablehlo.subtract %2, %6 : tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[ALL:.*]] = quant.region "log_softmax"(%{{.*}} = %x
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// Layer normalization by the mean of squared differences, a division by a square root, a scale and a shift.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %eight = stablehlo.constant dense<8.0> : tensor<4x1xf32>
  %epsilon = stablehlo.constant dense<1.0e-5> : tensor<4x1xf32>
  %gamma = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %beta = stablehlo.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<8xf32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.reshape %0 : (tensor<4xf32>) -> tensor<4x1xf32>
  %2 = stablehlo.divide %1, %eight : tensor<4x1xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %4 = stablehlo.subtract %x, %3 : tensor<4x8xf32>
  %5 = stablehlo.multiply %4, %4 : tensor<4x8xf32>
  %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = stablehlo.reshape %6 : (tensor<4xf32>) -> tensor<4x1xf32>
  %8 = stablehlo.divide %7, %eight : tensor<4x1xf32>
  %9 = stablehlo.add %8, %epsilon : tensor<4x1xf32>
  %10 = stablehlo.sqrt %9 : tensor<4x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %12 = stablehlo.divide %4, %11 : tensor<4x8xf32>
  %13 = stablehlo.broadcast_in_dim %gamma, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %14 = stablehlo.multiply %12, %13 : tensor<4x8xf32>
  %15 = stablehlo.broadcast_in_dim %beta, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %16 = stablehlo.add %14, %15 : tensor<4x8xf32>
  return %16 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG:   %[[GAMMA:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, {{.*}}> : tensor<8xf32>
// CHECK-DAG:   %[[BETA:.*]] = stablehlo.constant dense<[0.000000e+00, 1.000000e+00, {{.*}}> : tensor<8xf32>
// CHECK:       %[[ALL:.*]] = quant.region "layer_norm"(%{{.*}} = %x, %{{.*}} = %[[GAMMA]], %{{.*}} = %[[BETA]]
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// Layer normalization as flax lowers it: the mean of squares less the mean squared, the scale beside the inverse root.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %epsilon = stablehlo.constant dense<1.0e-5> : tensor<4x1xf32>
  %gamma = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.divide %0, %eight : tensor<4xf32>
  %2 = stablehlo.multiply %x, %x : tensor<4x8xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = stablehlo.divide %3, %eight : tensor<4xf32>
  %5 = stablehlo.multiply %1, %1 : tensor<4xf32>
  %6 = stablehlo.subtract %4, %5 : tensor<4xf32>
  %7 = stablehlo.maximum %6, %zeros : tensor<4xf32>
  %8 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<4x1xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %10 = stablehlo.subtract %x, %9 : tensor<4x8xf32>
  %11 = stablehlo.reshape %7 : (tensor<4xf32>) -> tensor<4x1xf32>
  %12 = stablehlo.add %11, %epsilon : tensor<4x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<4x1xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %15 = stablehlo.broadcast_in_dim %gamma, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %16 = stablehlo.multiply %14, %15 : tensor<4x8xf32>
  %17 = stablehlo.multiply %10, %16 : tensor<4x8xf32>
  return %17 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[GAMMA:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, {{.*}}> : tensor<8xf32>
// CHECK:       %[[ALL:.*]] = quant.region "layer_norm"(%{{.*}} = %x, %{{.*}} = %[[GAMMA]]
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// RMS normalization as transformers export it: the inverse root is a factor.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %eight = stablehlo.constant dense<8.0> : tensor<4x1xf32>
  %epsilon = stablehlo.constant dense<1.0e-6> : tensor<4x1xf32>
  %gamma = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = stablehlo.multiply %x, %x : tensor<4x8xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<4x1xf32>
  %3 = stablehlo.divide %2, %eight : tensor<4x1xf32>
  %4 = stablehlo.add %3, %epsilon : tensor<4x1xf32>
  %5 = stablehlo.rsqrt %4 : tensor<4x1xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %7 = stablehlo.multiply %x, %6 : tensor<4x8xf32>
  %8 = stablehlo.broadcast_in_dim %gamma, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %9 = stablehlo.multiply %8, %7 : tensor<4x8xf32>
  return %9 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[GAMMA:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, {{.*}}> : tensor<8xf32>
// CHECK:       %[[ALL:.*]] = quant.region "rms_norm"(%{{.*}} = %x, %{{.*}} = %[[GAMMA]]
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// An idiom whose middle somebody else reads is none: its parts are kernels of their own.
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<4x8xf32>
  %3 = stablehlo.exponential %2 : tensor<4x8xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %6 = stablehlo.divide %3, %5 : tensor<4x8xf32>
  return %6, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "reduce_max"
// CHECK:       quant.region "subtract"
// CHECK:       quant.region "elementwise_unary"
// CHECK:       quant.region "sum"
// CHECK:       quant.region "divide"

// -----

// A division by anything but the number of elements makes no mean, and the whole no layer normalization.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %seven = stablehlo.constant dense<7.0> : tensor<4xf32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.divide %0, %seven : tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %3 = stablehlo.subtract %x, %2 : tensor<4x8xf32>
  %4 = stablehlo.multiply %3, %3 : tensor<4x8xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = stablehlo.divide %5, %seven : tensor<4xf32>
  %7 = stablehlo.rsqrt %6 : tensor<4xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %9 = stablehlo.multiply %3, %8 : tensor<4x8xf32>
  return %9 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   layer_norm

// -----

// A convolution of a dilated operand, with its bias.
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x8x8xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<3x2x2x2xf32>
  %b = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>) -> tensor<1x3x8x8xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<1x3x8x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x3x8x8xf32>
  return %2 : tensor<1x3x8x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "transpose_convolution"
// CHECK:         stablehlo.add

// -----

// x * logistic(x) and x / (1 + exp(-x)) are one function, and the region says which.
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.logistic %x : tensor<4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
  %2 = stablehlo.negate %x : tensor<4xf32>
  %3 = stablehlo.exponential %2 : tensor<4xf32>
  %4 = stablehlo.add %3, %one : tensor<4xf32>
  %5 = stablehlo.divide %x, %4 : tensor<4xf32>
  return %1, %5 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "elementwise_unary"{{.*}} attributes {zeropoint.function = "silu"}
// CHECK:       quant.region "elementwise_unary"{{.*}} attributes {zeropoint.function = "silu"}

// -----

// A softmax that stays float takes the mask of its scores with it.
func.func @main(%x: tensor<4x8xf32>, %m: tensor<8xf32>) -> tensor<4x8xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %mask = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.add %x, %mask : tensor<4x8xf32>
  %0 = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.subtract %s, %1 : tensor<4x8xf32>
  %3 = stablehlo.exponential %2 : tensor<4x8xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %6 = stablehlo.divide %3, %5 : tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "broadcast"
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  quant.region "softmax"(%{{.*}} = %x, %{{.*}} = %{{.*}}
// CHECK:         stablehlo.add
