// RUN: -p 'lower{profile=fixed32},integer-io' --split-input-file

func.func @main(%x: tensor<4xf32> {zeropoint.name = "image"}) -> (tensor<4xf32> {zeropoint.name = "scores"}) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:2>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:2>>) -> tensor<4xf32>
  %2 = stablehlo.tanh %1 : tensor<4xf32>
  %3 = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>
  %4 = stablehlo.uniform_dequantize %3 : (tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}
// CHECK:       func.func @main(%[[X:.*]]: tensor<4xi8> {zeropoint.expressed = !quant.uniform<i8:f32, 1.000000e-01:2>, zeropoint.name = "image"}) -> (tensor<4xi8> {zeropoint.expressed = !quant.uniform<i8:f32, 7.812500e-03>, zeropoint.name = "scores"})
// CHECK-NOT:   uniform_quantize
// CHECK:       %[[Y:.*]] = "fxpmath.table"(%[[X]], %{{.*}})
// CHECK-NOT:   uniform_dequantize
// CHECK:       return %[[Y]] : tensor<4xi8>

// -----

// Positions and token ids stay as they are.
func.func @main(%x: tensor<4xf32> {zeropoint.name = "image"}, %i: tensor<2xi64> {zeropoint.name = "ids"}) -> (tensor<4xf32> {zeropoint.name = "scores"}, tensor<2xi64> {zeropoint.name = "next"}) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:2>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:2>>) -> tensor<4xf32>
  %2 = stablehlo.tanh %1 : tensor<4xf32>
  %3 = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>
  %4 = stablehlo.uniform_dequantize %3 : (tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>) -> tensor<4xf32>
  %5 = stablehlo.add %i, %i : tensor<2xi64>
  return %4, %5 : tensor<4xf32>, tensor<2xi64>
}
// CHECK:       func.func @main(%[[X:.*]]: tensor<4xi8> {zeropoint.expressed = !quant.uniform<i8:f32, 1.000000e-01:2>, zeropoint.name = "image"}, %[[I:.*]]: tensor<2xi64> {zeropoint.name = "ids"}) -> (tensor<4xi8> {zeropoint.expressed = !quant.uniform<i8:f32, 7.812500e-03>, zeropoint.name = "scores"}, tensor<2xi64> {zeropoint.name = "next"})
// CHECK-DAG:   %[[Y:.*]] = "fxpmath.table"(%[[X]], %{{.*}})
// CHECK-DAG:   %[[Z:.*]] = stablehlo.add %[[I]], %[[I]]
// CHECK:       return %[[Y]], %[[Z]] : tensor<4xi8>, tensor<2xi64>
