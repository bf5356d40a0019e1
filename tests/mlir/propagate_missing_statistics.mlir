// RUN: -p 'fuse,propagate' --verify-diagnostics

// expected-error {{found no statistics for 'image', expected quant.stats after it}}
func.func @main(%x: tensor<4xf32> loc("image")) -> tensor<4xf32> {
  %0 = stablehlo.logistic %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
