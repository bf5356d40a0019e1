// RUN: -p 'check-kernels' --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{logistic: output has !quant.uniform<i8:f32, 5.000000e-01>, expected scale 0.00390625 and zero point -128}}
  %0 = quant.region "logistic"(%1: tensor<4xf32> = %x as !quant.uniform<i8:f32, 5.000000e-01>) -> tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01> {
    %2 = stablehlo.logistic %1 : tensor<4xf32>
    quant.return %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
