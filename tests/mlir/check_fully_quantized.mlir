// RUN: -p 'fuse,check-fully-quantized' --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{found 2 ports without parameters, expected none: logistic: input has f32; logistic: output has f32}}
  %0 = stablehlo.logistic %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
