// RUN: -p 'group{isa=avx2}' --split-input-file

// A convolution takes its bias and its requantization along; the padding stays a pad, whose place is in the buffer before.
func.func @main(%x: tensor<1x4x4x4xi8>) -> tensor<1x8x3x3xi8> {
  %zp = stablehlo.constant dense<1> : tensor<i8>
  %p = stablehlo.pad %x, %zp, low = [0, 0, 1, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x4x4x4xi8>, tensor<i8>) -> tensor<1x4x5x5xi8>
  %w = stablehlo.constant dense<3> : tensor<8x4x1x1xi8>
  %acc = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x5x5xi8>, tensor<8x4x1x1xi8>) -> tensor<1x8x3x3xi32>
  %b = stablehlo.constant dense<5> : tensor<8xi32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xi32>) -> tensor<1x8x3x3xi32>
  %sum = stablehlo.add %acc, %bb : tensor<1x8x3x3xi32>
  %m = stablehlo.constant dense<16384> : tensor<1xi32>
  %n = stablehlo.constant dense<32> : tensor<1xi32>
  %y = "fxpmath.requantize"(%sum, %m, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<1x8x3x3xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8x3x3xi8>
  return %y : tensor<1x8x3x3xi8>
}
// CHECK:       native.channel_dimension = 1 : i64, native.isa = "avx2"
// CHECK-LABEL: func.func @main
// CHECK:       %[[P:.*]] = stablehlo.pad %x
// CHECK-NEXT:  %[[Y:.*]] = "native.kernel"(%[[P]]) <{kind = "contraction"
// CHECK-NEXT:  ^bb0(%{{.*}}: tensor<1x4x5x5xi8>):
// CHECK:         stablehlo.convolution
// CHECK:         stablehlo.add
// CHECK:         fxpmath.requantize
// CHECK-NEXT:    native.yield
// CHECK:       }) : (tensor<1x4x5x5xi8>) -> tensor<1x8x3x3xi8>
// CHECK-NEXT:  func.return %[[Y]]

// -----

// A result of 32 bits has no such kernel: the padding goes apart, one loop nest computes the rest and says why.
func.func @main(%x: tensor<1x4x4x4xi8>) -> tensor<1x8x5x5xi32> {
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %w = stablehlo.constant dense<3> : tensor<8x4x1x1xi8>
  %acc = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 0], [0, 1]], stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x4xi8>, tensor<8x4x1x1xi8>) -> tensor<1x8x5x5xi32>
  %n = stablehlo.constant dense<40> : tensor<1xi32>
  %y = "fxpmath.requantize"(%acc, %m, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -2147483648 : i64, storage_max = 2147483647 : i64}> : (tensor<1x8x5x5xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8x5x5xi32>
  return %y : tensor<1x8x5x5xi32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[P:.*]] = stablehlo.pad %x, %{{.*}}, low = [0, 0, 1, 0], high = [0, 0, 0, 1]
// CHECK-NEXT:  "native.kernel"(%[[P]]) <{declined = ["requantize: fxpmath.requantize: found a result of i32, expected i8 or i16"], kind = "nest"
// CHECK:         stablehlo.convolution({{.*}}window = {stride = [1, 1]}
// CHECK:         fxpmath.requantize

// -----

// Softmax is rows; what is cheap is computed again by each kernel that needs it.
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %max = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x32xf32>, tensor<f32>) -> tensor<4xf32>
  %mb = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<4xf32>) -> tensor<4x32xf32>
  %d = stablehlo.subtract %x, %mb : tensor<4x32xf32>
  %e = stablehlo.exponential %d : tensor<4x32xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x32xf32>, tensor<f32>) -> tensor<4xf32>
  %sb = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x32xf32>
  %y = stablehlo.divide %e, %sb : tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  "native.kernel"(%x) <{kind = "rows", operandSegmentSizes = array<i32: 1, 0>, row = 1 : i64}>
// CHECK-NOT:   native.kernel
