// RUN: -p 'fuse,propagate' --verify-diagnostics

func.func @main(%x: tensor<4xf32> loc("image")) -> tensor<4xf32> {
  // expected-error@+1 {{found no statistics for 'image', expected quant.stats after it}}
  %0 = stablehlo.logistic %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
