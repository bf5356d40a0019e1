// popcnt of f32
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %r = "stablehlo.popcnt"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// shift_left of i1
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2xi1>'}}
func.func @main(%x: tensor<2xi1>) {
  %r = "stablehlo.shift_left"(%x, %x) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// xor of f32
// expected-error {{operand #0 must be ranked tensor of bool or 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %r = "stablehlo.xor"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// cbrt of i32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%x: tensor<2xi32>) {
  %r = "stablehlo.cbrt"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// tan of i32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%x: tensor<2xi32>) {
  %r = "stablehlo.tan"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// is_finite of i32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%x: tensor<2xi32>) {
  %r = "stablehlo.is_finite"(%x) : (tensor<2xi32>) -> tensor<2xi1>
  return
}

// -----

// remainder of i1
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main(%x: tensor<2xi1>) {
  %r = "stablehlo.remainder"(%x, %x) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// round_nearest_even of i32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%x: tensor<2xi32>) {
  %r = "stablehlo.round_nearest_even"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// atan2 of i32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%x: tensor<2xi32>) {
  %r = "stablehlo.atan2"(%x, %x) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// not of f32
// expected-error {{operand #0 must be ranked tensor of bool or 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %r = "stablehlo.not"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// count_leading_zeros of i1
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2xi1>'}}
func.func @main(%x: tensor<2xi1>) {
  %r = "stablehlo.count_leading_zeros"(%x) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// shift_right_arithmetic of f32
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %r = "stablehlo.shift_right_arithmetic"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// shift_right_logical of f32
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32>) {
  %r = "stablehlo.shift_right_logical"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// round_nearest_afz of i32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%x: tensor<2xi32>) {
  %r = "stablehlo.round_nearest_afz"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}
