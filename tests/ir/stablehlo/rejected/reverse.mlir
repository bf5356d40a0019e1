// duplicate
// expected-error {{dimensions should be unique. Got: 1, 1}}
func.func @main(%a: tensor<2x3xf32>) {
  %r = "stablehlo.reverse"(%a) <{dimensions = array<i64: 1, 1>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// past the rank
// expected-error {{all dimensions should be between [0, 2). Got dimension: 2.}}
func.func @main(%a: tensor<2x3xf32>) {
  %r = "stablehlo.reverse"(%a) <{dimensions = array<i64: 2>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// negative
// expected-error {{all dimensions should be non-negative. Got dimension: -1.}}
func.func @main(%a: tensor<2x3xf32>) {
  %r = "stablehlo.reverse"(%a) <{dimensions = array<i64: -1>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// shape
// expected-error {{inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<2x2xf32>'}}
func.func @main(%a: tensor<2x3xf32>) {
  %r = "stablehlo.reverse"(%a) <{dimensions = array<i64: 1>}> : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

// element type
// expected-error {{requires the same element type for all operands and results}}
func.func @main(%a: tensor<2x3xf32>) {
  %r = "stablehlo.reverse"(%a) <{dimensions = array<i64: 1>}> : (tensor<2x3xf32>) -> tensor<2x3xf16>
  return
}
