// RUN: -p 'litert' --split-input-file

// The general algorithm: ranges, simulated quantization of weights, kernels of LiteRT, quantized ops and constants.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[0.9921875, -0.09921875], [0.0, 0.09921875]]> : tensor<2x2xf32>
  %f = "quant.const_fake_quant_per_axis"(%w) {min = [-0.9921875 : f32, -0.09921875 : f32], max = [0.9921875 : f32, 0.09921875 : f32], axis = 1 : i64, num_bits = 8 : i64, narrow_range = true, is_signed = true} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %0 = stablehlo.dot_general %s, %f, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-128.0, 127.0]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %2 = stablehlo.logistic %1 : tensor<1x2xf32>
  return %2 : tensor<1x2xf32>
}
// CHECK:       zeropoint.profile = "fixed32-double"
// CHECK-SAME:  zeropoint.target = "litert"
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[X:.*]] = quant.qcast %{{.*}} : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:-128>>
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant() <{value = dense<{{\[\[}}127, -127], [0, 127]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {7.812500e-03,{{.*}}}>>
// CHECK-NEXT:  stablehlo.dot_general %[[X]], %[[W]]
// CHECK-NEXT:  stablehlo.uniform_quantize
// CHECK-NOT:   quant.qcast
// CHECK:       stablehlo.logistic
// CHECK-NEXT:  stablehlo.uniform_quantize {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 3.906250e-03:-128>>

// -----

// A kernel that clamps is named by its function: its ops may be others than clamps, here a maximum of x with itself.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %six = stablehlo.constant dense<6.0> : tensor<4xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[-32.0, 31.75]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = stablehlo.maximum %s, %s : tensor<4xf32>
  %1 = stablehlo.clamp %zero, %0, %six : tensor<4xf32>
  %2 = "quant.stats"(%1) {layerStats = dense<[0.0, 31.875]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[X:.*]] = quant.qcast %{{.*}} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK:       %[[S:.*]] = "fxpmath.requantize"(%{{.*}}) <{behaviour = "fixed32-double", storage_max = 127 : i64, storage_min = -128 : i64, zero_point = -128 : i64}>
// CHECK-NEXT:  %[[Y:.*]] = quant.scast %[[S]] : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.250000e-01:-128>>
// CHECK:       dense<-80> : tensor<i8>
// CHECK:       stablehlo.clamp %{{.*}}, %[[Y]], %{{.*}}
