// dimension too great
// expected-error {{dimension attribute value must be in range [-2, 2), but found 2}}
func.func @main(%0: tensor<2x3xf32>) {
  %r:1 = "stablehlo.sort"(%0) <{dimension = 2 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----

// dimension too small
// expected-error {{dimension attribute value must be in range [-2, 2), but found -3}}
func.func @main(%0: tensor<2x3xf32>) {
  %r:1 = "stablehlo.sort"(%0) <{dimension = -3 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----

// scalars
// expected-error {{dimension attribute value must be in range [-0, 0), but found -1}}
func.func @main(%0: tensor<f32>) {
  %r:1 = "stablehlo.sort"(%0) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<f32>) -> (tensor<f32>)
  return
}

// -----

// argument count
// expected-error {{comparator block should have 2 arguments}}
func.func @main(%0: tensor<2x3xf32>) {
  %r:1 = "stablehlo.sort"(%0) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %w: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----

// argument count of two
// expected-error {{comparator block should have 4 arguments}}
func.func @main(%0: tensor<2x3xf32>, %1: tensor<2x3xf32>) {
  %r:2 = "stablehlo.sort"(%0, %1) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// -----

// argument type
// expected-error {{comparator block argument #0 should be of type 'tensor<f64>' but got 'tensor<f32>'}}
func.func @main(%0: tensor<2x3xf64>) {
  %r:1 = "stablehlo.sort"(%0) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x3xf64>) -> (tensor<2x3xf64>)
  return
}

// -----

// result type
// expected-error {{comparator must return tensor<i1> but got 'tensor<f32>'}}
func.func @main(%0: tensor<2x3xf32>) {
  %r:1 = "stablehlo.sort"(%0) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----

// result count
// expected-error {{comparator must return single output but got 2}}
func.func @main(%0: tensor<2x3xf32>) {
  %r:1 = "stablehlo.sort"(%0) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return
}

// -----

// shapes
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%0: tensor<2x3xf32>, %1: tensor<2x4xf32>) {
  %r:2 = "stablehlo.sort"(%0, %1) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %v: tensor<f32>, %w: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x3xf32>, tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>)
  return
}

// -----

// per axis
// expected-error {{operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main(%0: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %r:1 = "stablehlo.sort"(%0) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>)
  return
}

// -----

// no inputs
// expected-error {{expected 1 or more operands, but found 0}}
func.func @main() {
  "stablehlo.sort"() ({
    stablehlo.return
  }) : () -> ()
  return
}
