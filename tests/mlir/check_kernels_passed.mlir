// RUN: -p 'check-kernels'

// A program that the check accepts is returned as it is.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "logistic"(%1: tensor<4xf32> = %x as !quant.uniform<i8:f32, 5.000000e-01>) -> tensor<4xf32> as !quant.uniform<i8:f32, 3.906250e-03:-128> {
    %2 = stablehlo.logistic %1 : tensor<4xf32>
    quant.return %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[Y:.*]] = quant.region "logistic"(%[[A:.*]]: tensor<4xf32> = %x as !quant.uniform<i8:f32, 5.000000e-01>) -> tensor<4xf32> as !quant.uniform<i8:f32, 3.906250e-03:-128> {
// CHECK-NEXT:    stablehlo.logistic %[[A]]
// CHECK:       return %[[Y]]
