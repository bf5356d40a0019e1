// RUN: -p 'lower'

// Integers converted to floats and quantized: a look-up of all integers that do not saturate, and of one beyond each end.
func.func @main(%x: tensor<4xi64>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:-3>> {
  %0 = stablehlo.convert %x : (tensor<4xi64>) -> tensor<4xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:-3>>
  return %1 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:-3>>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   f32>
// CHECK-DAG:   %[[TABLE:.*]] = stablehlo.constant dense_resource<{{.*}}> : tensor<131xi8>
// CHECK-DAG:   %[[LOW:.*]] = stablehlo.constant dense<-64> : tensor<i64>
// CHECK-DAG:   %[[HIGH:.*]] = stablehlo.constant dense<66> : tensor<i64>
// CHECK:       %[[IN:.*]] = stablehlo.clamp %[[LOW]], %{{.*}}, %[[HIGH]]
// CHECK:       %[[AT:.*]] = stablehlo.subtract %[[IN]]
// CHECK:       "stablehlo.gather"(%[[TABLE]], %[[AT]])
// CHECK:       quant.scast
