// RUN: -p 'inline-calls' --verify-diagnostics

func.func private @loop(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @loop(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("again")
  return %0 : tensor<4xf32>
}
// expected-error@unknown {{func.call 'again': found functions that call themselves (@loop -> @loop), expected none}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @loop(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
