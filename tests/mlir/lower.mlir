// RUN: -p 'lower{profile=fixed32}' --split-input-file

// Padding by the zero point, correction -zero_point * sum(w) = 3 * 3 per channel, bias, requantization by 0.5 * 1 / 2.
func.func @main(%x: tensor<1x1x2x2x!quant.uniform<i8:f32, 5.000000e-01:-3>>) -> tensor<1x1x2x2x!quant.uniform<i8:f32, 2.000000e+00:7>> {
  %w = stablehlo.constant() <{value = dense<[[[[1, 1], [1, 0]]]]> : tensor<1x1x2x2xi8>}> : () -> tensor<1x1x2x2x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00}>>
  %b = stablehlo.constant() <{value = dense<5> : tensor<1xi32>}> : () -> tensor<1x!quant.uniform<i32:f32:0, {5.000000e-01}>>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[0, 1], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x2x2x!quant.uniform<i8:f32, 5.000000e-01:-3>>, tensor<1x1x2x2x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00}>>) -> tensor<1x1x2x2x!quant.uniform<i32:f32:1, {5.000000e-01}>>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<1x!quant.uniform<i32:f32:0, {5.000000e-01}>>) -> tensor<1x1x2x2x!quant.uniform<i32:f32:1, {5.000000e-01}>>
  %2 = stablehlo.add %0, %1 : tensor<1x1x2x2x!quant.uniform<i32:f32:1, {5.000000e-01}>>
  %3 = stablehlo.uniform_quantize %2 : (tensor<1x1x2x2x!quant.uniform<i32:f32:1, {5.000000e-01}>>) -> tensor<1x1x2x2x!quant.uniform<i8:f32, 2.000000e+00:7>>
  return %3 : tensor<1x1x2x2x!quant.uniform<i8:f32, 2.000000e+00:7>>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[X:.*]] = quant.scast %{{.*}} to tensor<1x1x2x2xi8>
// CHECK:       %[[Z:.*]] = stablehlo.constant dense<-3> : tensor<i8>
// CHECK:       %[[P:.*]] = stablehlo.pad %[[X]], %[[Z]], low = [0, 0, 0, 0], high = [0, 0, 1, 1]
// CHECK:       %[[ACC:.*]] = stablehlo.convolution(%[[P]], %{{.*}}) {{.*}} window = {} {{.*}} -> tensor<1x1x2x2xi32>
// CHECK:       stablehlo.constant dense<9> : tensor<1xi32>
// CHECK:       stablehlo.add %[[ACC]]
// CHECK:       stablehlo.add
// CHECK:       %[[M:.*]] = stablehlo.constant dense<1073741824> : tensor<1xi32>
// CHECK:       %[[N:.*]] = stablehlo.constant dense<32> : tensor<1xi32>
// CHECK:       "fxpmath.requantize"(%{{.*}}, %[[M]], %[[N]]) <{axis = 1 : i64, behaviour = "fixed32", storage_max = 127 : i64, storage_min = -128 : i64, zero_point = 7 : i64}>
// CHECK:       quant.scast %{{.*}} : tensor<1x1x2x2xi8> to
// CHECK-NEXT:  return

// -----

// Scales 1 and 2 into 2: the multipliers are in the ratio 1 : 2.
func.func @main(%a: tensor<4x!quant.uniform<i8:f32, 1.000000e+00:1>>, %b: tensor<4x!quant.uniform<i8:f32, 2.000000e+00:2>>) -> tensor<4x!quant.uniform<i8:f32, 2.000000e+00:3>> {
  %0 = stablehlo.add %a, %b : (tensor<4x!quant.uniform<i8:f32, 1.000000e+00:1>>, tensor<4x!quant.uniform<i8:f32, 2.000000e+00:2>>) -> tensor<4x!quant.uniform<i8:f32, 2.000000e+00:3>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 2.000000e+00:3>>
}
// CHECK-LABEL: func.func @main
// CHECK:       "fxpmath.weighted_sum"(%{{.*}}, %{{.*}}) <{multipliers = array<i64: 4194304, 8388608>, shift = 23 : i64, storage_max = 127 : i64, storage_min = -128 : i64, zero_point = 3 : i64, zero_points = array<i64: 1, 2>}>

// -----

// A float function between two casts is a table of 256 entries, and no float op is left.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>> {
  %0 = stablehlo.uniform_dequantize %x : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>) -> tensor<4xf32>
  %1 = stablehlo.logistic %0 : tensor<4xf32>
  %2 = stablehlo.uniform_quantize %1 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  return %2 : tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   stablehlo.logistic
// CHECK-NOT:   uniform_dequantize
// CHECK:       %[[T:.*]] = stablehlo.constant dense_resource<{{.*}}> : tensor<256xi8>
// CHECK:       "fxpmath.table"(%{{.*}}, %[[T]])

// -----

// A product: both zero points off, the product in i32, one requantization by 1/2 * 1/2 / 1 = 2^31 / 2^33... = 1/4.
func.func @main(%a: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:1>>, %b: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e+00>> {
  %0 = stablehlo.multiply %a, %b : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:1>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.convert
// CHECK:       stablehlo.subtract
// CHECK:       stablehlo.convert
// CHECK-NOT:   stablehlo.subtract
// CHECK:       stablehlo.multiply %{{.*}}, %{{.*}} : tensor<4xi32>
// CHECK:       stablehlo.constant dense<1073741824> : tensor<1xi32>
// CHECK:       stablehlo.constant dense<32> : tensor<1xi32>
// CHECK:       fxpmath.requantize

// -----

// A conversion to another float type has no table: the chain stays float, nothing is guessed.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>> {
  %0 = stablehlo.uniform_dequantize %x : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>) -> tensor<4xf32>
  %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xf16>
  %2 = stablehlo.convert %1 : (tensor<4xf16>) -> tensor<4xf32>
  %3 = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  return %3 : tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   fxpmath.table
// CHECK:       stablehlo.convert
// CHECK:       stablehlo.uniform_quantize
