// RUN: -p 'fuse{target=cpu-integer},propagate{target=cpu-integer},materialize'

// Scores of 16 bits, scaled, plus a computed mask: one kernel, in integers. The factor 0.5 is in the multiplier, and the
// mask's step of 40 is 2560 steps of the scores (1/64 before the factor).
func.func @main(%x: tensor<4x8xf32>, %m: tensor<8xf32>) -> tensor<4x8xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<4x8xf32>
  %sx = "quant.stats"(%x) {layerStats = dense<[-512.0, 511.984375]> : tensor<2xf32>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sm = "quant.stats"(%m) {layerStats = dense<[-10200.0, 0.0]> : tensor<2xf32>} : (tensor<8xf32>) -> tensor<8xf32>
  %a = stablehlo.multiply %sx, %half : tensor<4x8xf32>
  %b = stablehlo.broadcast_in_dim %sm, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.add %a, %b : tensor<4x8xf32>
  %most = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %c = stablehlo.broadcast_in_dim %most, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %d = stablehlo.subtract %s, %c : tensor<4x8xf32>
  %e = stablehlo.exponential %d : tensor<4x8xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %t = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %p = stablehlo.divide %e, %t : tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG:   %[[X:.*]] = stablehlo.uniform_quantize %{{.*}} -> tensor<4x8x!quant.uniform<i16:f32, 1.562500e-02>>
// CHECK-DAG:   %[[M:.*]] = stablehlo.uniform_quantize %{{.*}} -> tensor<8x!quant.uniform<i8:f32, 4.000000e+01:127>>
// CHECK:       %[[SX:.*]] = quant.scast %[[X]]
// CHECK:       %[[WX:.*]] = stablehlo.convert %[[SX]] : (tensor<4x8xi16>) -> tensor<4x8xi32>
// CHECK:       %[[SM:.*]] = quant.scast %[[M]]
// CHECK:       %[[SCALED:.*]] = "fxpmath.requantize"({{.*}}behaviour = "fixed32"{{.*}} -> tensor<8xi32>
// CHECK:       stablehlo.broadcast_in_dim %[[SCALED]], dims = [1]
// CHECK:       %[[T:.*]] = stablehlo.add %[[WX]]
// CHECK:       stablehlo.reduce(%[[T]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [1]
// CHECK-NOT:   stablehlo.exponential
// CHECK:       stablehlo.divide %{{.*}} : tensor<4xi32>
// CHECK:       quant.scast %{{.*}} : tensor<4x8xi8> to tensor<4x8x!quant.uniform<i8:f32, 3.906250e-03:-128>>
// CHECK-NEXT:  stablehlo.uniform_dequantize
