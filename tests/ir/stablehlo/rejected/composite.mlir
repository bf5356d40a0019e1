// comp name
// expected-error {{name must be a valid namespaced op name, i.e. it must match the following regular expression: ^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$ e.g. "my_namespace.my_op"}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>) {
  %r:1 = "stablehlo.composite"(%i0) <{name = "ab", decomposition = @f}> : (tensor<2xf32>) -> (tensor<2xf32>)
  return
}

// -----

// comp name2
// expected-error {{name must be a valid namespaced op name, i.e. it must match the following regular expression: ^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$ e.g. "my_namespace.my_op"}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>) {
  %r:1 = "stablehlo.composite"(%i0) <{name = "1a.b", decomposition = @f}> : (tensor<2xf32>) -> (tensor<2xf32>)
  return
}

// -----

// comp missing
// expected-error {{'g' does not reference a valid function}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>) {
  %r:1 = "stablehlo.composite"(%i0) <{name = "a.b", decomposition = @g}> : (tensor<2xf32>) -> (tensor<2xf32>)
  return
}

// -----

// comp nin
// expected-error {{has 2 operand(s), but decomposition has 1}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>, %i1: tensor<2xf32>) {
  %r:1 = "stablehlo.composite"(%i0, %i1) <{name = "a.b", decomposition = @f}> : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>)
  return
}

// -----

// comp tin
// expected-error {{operand at index 0 has type 'tensor<3xf32>', but decomposition has type 'tensor<2xf32>'}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<3xf32>) {
  %r:1 = "stablehlo.composite"(%i0) <{name = "a.b", decomposition = @f}> : (tensor<3xf32>) -> (tensor<2xf32>)
  return
}

// -----

// comp nout
// expected-error {{has 2 result(s), but decomposition has 1}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>) {
  %r:2 = "stablehlo.composite"(%i0) <{name = "a.b", decomposition = @f}> : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// comp tout
// expected-error {{result at index 0 has type 'tensor<3xf32>', but decomposition has type 'tensor<2xf32>'}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>) {
  %r:1 = "stablehlo.composite"(%i0) <{name = "a.b", decomposition = @f}> : (tensor<2xf32>) -> (tensor<3xf32>)
  return
}

// -----

// comp version64
// expected-error {{attribute 'version' failed to satisfy constraint: 32-bit signless integer attribute}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%i0: tensor<2xf32>) {
  %r:1 = "stablehlo.composite"(%i0) <{name = "a.b", decomposition = @f, version = 1 : i64}> : (tensor<2xf32>) -> (tensor<2xf32>)
  return
}
