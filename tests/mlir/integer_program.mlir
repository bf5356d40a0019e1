// RUN: -p 'integer-program{profile=fixed32}'

// Bias and zero-point correction are one constant: 10 - 1 * (1 + 3) and 20 - 1 * (2 + 4).
func.func @main(%x: tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.0>> {
  %w = stablehlo.constant() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>} : () -> tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  %b = stablehlo.constant() {value = dense<[10, 20]> : tensor<2xi32>} : () -> tensor<2x!quant.uniform<i32:f32, 0.25>>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>, tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i32:f32, 0.25>>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2x!quant.uniform<i32:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i32:f32, 0.25>>
  %2 = stablehlo.add %0, %1 : tensor<2x2x!quant.uniform<i32:f32, 0.25>>
  %3 = stablehlo.uniform_quantize %2 : (tensor<2x2x!quant.uniform<i32:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.0>>
  return %3 : tensor<2x2x!quant.uniform<i8:f32, 1.0>>
}
// CHECK:       zeropoint.profile = "fixed32"
// CHECK-LABEL: func.func @main
// CHECK:       %[[X:.*]] = quant.scast %x
// CHECK:       %[[ACC:.*]] = stablehlo.dot_general %[[X]], {{.*}} : (tensor<2x2xi8>, tensor<2x2xi8>) -> tensor<2x2xi32>
// CHECK:       %[[B:.*]] = stablehlo.constant dense<[6, 14]> : tensor<2xi32>
// CHECK:       %[[BB:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [1]
// CHECK:       %[[SUM:.*]] = stablehlo.add %[[ACC]], %[[BB]]
// CHECK-NOT:   stablehlo.add
// CHECK:       %[[Y:.*]] = "fxpmath.requantize"(%[[SUM]], {{.*}}behaviour = "fixed32"
// CHECK:       quant.scast %[[Y]]
