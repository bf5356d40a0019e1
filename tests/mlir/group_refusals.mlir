// RUN: -p 'group' --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{found no native form of it; run it with the interpreter}}
  %y = chlo.lgamma %x : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
