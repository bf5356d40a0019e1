// RUN: -p 'lower'

// Rows of 13 bits are rounded to 8 bits, each in its own range. The sums of at most 2 * 127 * 128 fit i32 beside a factor
// of at most 4096, so no bit is dropped before they are multiplied.
func.func @main(%x: tensor<4x2x!quant.uniform<i16<-4096:4095>:f32, 0.5:10>>) -> tensor<4x3x!quant.uniform<i32:f32, 0.25>> {
  %w = stablehlo.constant() <{value = dense<127> : tensor<2x3xi16>}> : () -> tensor<2x3x!quant.uniform<i16<-127:127>:f32, 0.5>>
  %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {zeropoint.activation_scales = "per_row"}
    : (tensor<4x2x!quant.uniform<i16<-4096:4095>:f32, 0.5:10>>, tensor<2x3x!quant.uniform<i16<-127:127>:f32, 0.5>>) -> tensor<4x3x!quant.uniform<i32:f32, 0.25>>
  return %r : tensor<4x3x!quant.uniform<i32:f32, 0.25>>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[V:.*]] = stablehlo.subtract %{{.*}} : tensor<4x2xi32>
// CHECK:       %[[LOW:.*]] = stablehlo.reduce(%[[V]] init: %{{.*}}) applies stablehlo.minimum across dimensions = [1]
// CHECK:       %[[HIGH:.*]] = stablehlo.reduce(%[[V]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [1]
// CHECK:       stablehlo.add %[[LOW]], %[[HIGH]]
// CHECK:       %[[M:.*]] = stablehlo.shift_right_arithmetic %{{.*}} : tensor<4xi32>
// CHECK:       %[[MS:.*]] = stablehlo.broadcast_in_dim %[[M]], dims = [0]
// CHECK:       %[[U:.*]] = stablehlo.subtract %[[V]], %[[MS]]
// CHECK:       %[[REACH:.*]] = stablehlo.subtract %[[HIGH]], %[[M]]
// CHECK:       %[[A:.*]] = stablehlo.maximum %[[REACH]]
// CHECK:       stablehlo.constant dense<536870912>
// CHECK:       %[[R:.*]] = stablehlo.divide %{{.*}}, %[[A]] : tensor<4xi32>
// CHECK:       %[[RS:.*]] = stablehlo.broadcast_in_dim %[[R]], dims = [0]
// CHECK:       stablehlo.multiply %[[U]], %[[RS]] : tensor<4x2xi32>
// CHECK:       stablehlo.constant dense<22>
// CHECK:       %[[Q:.*]] = stablehlo.convert %{{.*}} : (tensor<4x2xi32>) -> tensor<4x2xi8>
// CHECK:       %[[S:.*]] = stablehlo.dot_general %[[Q]], %{{.*}} : (tensor<4x2xi8>, tensor<2x3xi8>) -> tensor<4x3xi32>
// CHECK:       %[[AS:.*]] = stablehlo.broadcast_in_dim %[[A]], dims = [0]
// CHECK:       %[[AL:.*]] = stablehlo.minimum %[[AS]]
// CHECK:       stablehlo.multiply %[[S]], %[[AL]] : tensor<4x3xi32>
// CHECK:       stablehlo.constant dense<7>
// CHECK:       %[[T:.*]] = stablehlo.shift_right_arithmetic
// CHECK:       stablehlo.broadcast_in_dim %[[M]], dims = [0]
// CHECK:       %[[ML:.*]] = stablehlo.clamp
// CHECK:       %[[MW:.*]] = stablehlo.multiply %[[ML]], %{{.*}} : tensor<4x3xi32>
// CHECK:       stablehlo.add %[[T]], %[[MW]]
