// RUN: -p 'transform'

// A transpose moves storage integers; what computes stays float between casts.
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01>>
  %2 = stablehlo.uniform_dequantize %1 : (tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<3x2xf32>
  %3 = stablehlo.tanh %2 : tensor<3x2xf32>
  return %3 : tensor<3x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[Q:.*]] = quant.qcast %x
// CHECK-NEXT:  %[[S:.*]] = quant.scast %[[Q]] : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<2x3xi8>
// CHECK-NEXT:  %[[T:.*]] = stablehlo.transpose %[[S]], dims = [1, 0] : (tensor<2x3xi8>) -> tensor<3x2xi8>
// CHECK-NEXT:  %[[B:.*]] = quant.scast %[[T]]
// CHECK-NEXT:  %[[D:.*]] = quant.dcast %[[B]]
// CHECK-NEXT:  stablehlo.tanh %[[D]] : tensor<3x2xf32>
