// if takes a scalar
// expected-error {{operand should be rank 0 tensor but got rank 1}}
func.func @main(%p: tensor<2xi1>) {
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %p : tensor<2xi1>
  }, {
    stablehlo.return %p : tensor<2xi1>
  }) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// if takes a predicate
// expected-error {{operand #0 must be ranked tensor of bool values, but got 'tensor<i32>'}}
func.func @main(%p: tensor<i32>) {
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %p : tensor<i32>
  }, {
    stablehlo.return %p : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return
}

// -----

// if branches without arguments
// expected-error {{branch 0 must have 0 arguments, but found 1}}
func.func @main(%p: tensor<i1>) {
  %0 = "stablehlo.if"(%p) ({
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p : tensor<i1>
  }, {
    stablehlo.return %p : tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>
  return
}

// -----

// if branches of one type
// expected-error {{branch 0 and branch 1 have mismatched return types: 'tensor<f32>' vs 'tensor<i1>'}}
func.func @main(%p: tensor<i1>, %q: tensor<f32>) {
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %q : tensor<f32>
  }, {
    stablehlo.return %p : tensor<i1>
  }) : (tensor<i1>) -> tensor<f32>
  return
}

// -----

// if result type
// expected-error {{inferred type(s) 'tensor<f32>' are incompatible with return type(s) of operation 'tensor<i32>'}}
func.func @main(%p: tensor<i1>, %q: tensor<f32>) {
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %q : tensor<f32>
  }, {
    stablehlo.return %q : tensor<f32>
  }) : (tensor<i1>) -> tensor<i32>
  return
}

// -----

// case takes 32 bits
// expected-error {{operand #0 must be ranked tensor of 32-bit signless integer values, but got 'tensor<i64>'}}
func.func @main(%p: tensor<i64>) {
  %0 = "stablehlo.case"(%p) ({
    stablehlo.return %p : tensor<i64>
  }) : (tensor<i64>) -> tensor<i64>
  return
}

// -----

// case takes a scalar
// expected-error {{operand should be rank 0 tensor but got rank 1}}
func.func @main(%p: tensor<1xi32>) {
  %0 = "stablehlo.case"(%p) ({
    stablehlo.return %p : tensor<1xi32>
  }) : (tensor<1xi32>) -> tensor<1xi32>
  return
}

// -----

// case has a branch
// expected-error {{expect at least one branch}}
func.func @main(%p: tensor<i32>) {
  "stablehlo.case"(%p) : (tensor<i32>) -> ()
  return
}

// -----

// case branches of one type
// expected-error {{branch 0 and branch 2 have mismatched return types: 'tensor<i32>' vs}}
func.func @main(%p: tensor<i32>) {
  %0 = "stablehlo.case"(%p) ({
    stablehlo.return %p : tensor<i32>
  }, {
    stablehlo.return %p : tensor<i32>
  }, {
    stablehlo.return
  }) : (tensor<i32>) -> tensor<i32>
  return
}

// -----

// while condition arguments
// expected-error {{expect operands to be compatible with condition block arguments but got 'tensor<i1>' vs 'tensor<2xi1>'}}
func.func @main(%p: tensor<i1>) {
  %0 = "stablehlo.while"(%p) ({
  ^bb0(%a: tensor<2xi1>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<i1>):
    stablehlo.return %a : tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>
  return
}

// -----

// while body arguments
// expected-error {{expect operands to be compatible with body block arguments but got 'tensor<i1>' vs 'tensor<2xi1>'}}
func.func @main(%p: tensor<i1>) {
  %0 = "stablehlo.while"(%p) ({
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<2xi1>):
    stablehlo.return %p : tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>
  return
}

// -----

// while body results
// expected-error {{expect operands to be compatible with body block return types but got 'tensor<i1>' vs 'tensor<i1>', 'tensor<i1>'}}
func.func @main(%p: tensor<i1>) {
  %0 = "stablehlo.while"(%p) ({
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p, %p : tensor<i1>, tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>
  return
}

// -----

// while condition of one value
// expected-error {{expect condition body returns a single value but got 2}}
func.func @main(%p: tensor<i1>) {
  %0 = "stablehlo.while"(%p) ({
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p, %p : tensor<i1>, tensor<i1>
  }, {
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p : tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>
  return
}

// -----

// while condition is a predicate
// expected-error {{expect condition block return a zero-ranked tensor of i1 but got 'tensor<i32>'}}
func.func @main(%p: tensor<i32>) {
  %0 = "stablehlo.while"(%p) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %p : tensor<i32>
  }, {
  ^bb0(%a: tensor<i32>):
    stablehlo.return %p : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return
}

// -----

// while results
// expected-error {{inferred type(s) 'tensor<i1>' are incompatible with return type(s) of operation 'tensor<i32>'}}
func.func @main(%p: tensor<i1>) {
  %0 = "stablehlo.while"(%p) ({
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<i1>):
    stablehlo.return %p : tensor<i1>
  }) : (tensor<i1>) -> tensor<i32>
  return
}

// -----

// map arity
// expected-error {{expects number of operands to match the arity of map computation, but got: 1 and 2}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// map of scalars
// expected-error {{computation arguments must be 0-rank tensor, but got: arg #0 of type 'tensor<1xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<1xf32>):
    stablehlo.return %a : tensor<1xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// map elements
// expected-error {{element type of operands and computation arguments must match, but got: 'f32' and 'i32'}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<2xf32>) -> tensor<2xi32>
  return
}

// -----

// map has one result
// expected-error {{computation must return single output, but got: 2}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a, %a : tensor<f32>, tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// map to scalars
// expected-error {{computation must return 0-rank tensor, but got: 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %x : tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// map dimensions in order
// expected-error {{requires monotonically increasing dimension numbers, but got: 1, 0}}
func.func @main(%x: tensor<2x2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 1, 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// map over all dimensions
// expected-error {{applied to a subset of dimensions currently not supported: operand dimensions = 2, requested map dimensions size = 1}}
func.func @main(%x: tensor<2x2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// map result
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf16>'}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf16>
  return
}

// -----

// map shapes
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%x: tensor<2xf32>) {
  %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// map of nothing
// expected-error {{expected 1 or more operands, but found 0}}
func.func @main(%x: tensor<f32>) {
  %0 = "stablehlo.map"() <{dimensions = array<i64: 0>}> ({
    stablehlo.return %x : tensor<f32>
  }) : () -> tensor<3xf32>
  return
}

// -----

// tuple type
// expected-error {{inferred type(s) 'tuple<tensor<f32>>' are incompatible with return type(s) of operation 'tuple<tensor<i32>>'}}
func.func @main(%x: tensor<f32>) {
  %0 = "stablehlo.tuple"(%x) : (tensor<f32>) -> tuple<tensor<i32>>
  return
}

// -----

// tuple index
// expected-error {{index 1 is out of bounds of operand with size 1}}
func.func @main(%x: tuple<tensor<f32>>) {
  %0 = "stablehlo.get_tuple_element"(%x) <{index = 1 : i32}> : (tuple<tensor<f32>>) -> tensor<f32>
  return
}

// -----

// tuple element
// expected-error {{inferred type(s) 'tensor<f32>' are incompatible with return type(s) of operation 'tensor<2xf32>'}}
func.func @main(%x: tuple<tensor<f32>>) {
  %0 = "stablehlo.get_tuple_element"(%x) <{index = 0 : i32}> : (tuple<tensor<f32>>) -> tensor<2xf32>
  return
}

// -----

// barrier count
// expected-error {{requires the same number of operands and results}}
func.func @main(%x: tensor<f32>) {
  %0 = "stablehlo.optimization_barrier"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

// barrier types
// expected-error {{requires the same type for operand and result at index 0}}
func.func @main(%x: tensor<f32>) {
  %0 = "stablehlo.optimization_barrier"(%x) : (tensor<f32>) -> tensor<i32>
  return
}
