// get_dimension_size in range
// expected-error {{requires dimension attribute in range [0, 2); found (2)}}
func.func @main(%x: tensor<2x3xf32>) {
  %0 = stablehlo.get_dimension_size %x, dim = 2 : (tensor<2x3xf32>) -> tensor<i32>
  return
}

// -----

// get_dimension_size negative
// expected-error {{attribute 'dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<2x3xf32>) {
  %0 = stablehlo.get_dimension_size %x, dim = -1 : (tensor<2x3xf32>) -> tensor<i32>
  return
}

// -----

// get_dimension_size type
// expected-error {{result #0 must be ranked tensor of 32-bit signless integer values, but got 'tensor<i64>'}}
func.func @main(%x: tensor<2x3xf32>) {
  %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xf32>) -> tensor<i64>
  return
}

// -----

// get_dimension_size shape
// expected-error {{inferred type(s) 'tensor<i32>' are incompatible with return type(s) of operation 'tensor<1xi32>'}}
func.func @main(%x: tensor<2x3xf32>) {
  %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xf32>) -> tensor<1xi32>
  return
}

// -----

// dynamic_reshape rank
// expected-error {{result should have a rank equal to the number of elements in output_shape}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xi64>) {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<6xf32>
  return
}

// -----

// dynamic_reshape elements
// expected-error {{number of output elements (12) doesn't match expected number of elements (6)}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xi64>) {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<6x2xf32>
  return
}

// -----

// dynamic_reshape element type
// expected-error {{expects operand and result to have compatible element type. Got: 'tensor<2x3xf32>' and 'tensor<3x2xi32>'}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xi64>) {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xi32>
  return
}

// -----

// dynamic_reshape shape operand rank
// expected-error {{operand #1 must be statically shaped 1-dimensional tensor of index or 2/4/8/16/32/64-bit integer values, but got 'tensor<2x1xi64>'}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2x1xi64>) {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2x1xi64>) -> tensor<3x2xf32>
  return
}

// -----

// dynamic_reshape shape operand type
// expected-error {{operand #1 must be statically shaped 1-dimensional tensor of index or 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return
}

// -----

// dynamic_reshape constant shape
// expected-error {{output shape [2, 3] is incompatible with return type of operation 'tensor<3x2xf32>'}}
func.func @main(%x: tensor<2x3xf32>) {
  %s = stablehlo.constant dense<[2,3]> : tensor<2xi64>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  return
}

// -----

// dynamic_broadcast_in_dim dims
// expected-error {{broadcast_dimensions size (1) does not match operand rank (2)}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
  return
}

// -----

// dynamic_broadcast_in_dim unique
// expected-error {{broadcast_dimensions should not have duplicates}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 1] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
  return
}

// -----

// dynamic_broadcast_in_dim range
// expected-error {{broadcast_dimensions contains invalid value 3 for result with rank 3}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 3] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
  return
}

// -----

// dynamic_broadcast_in_dim sizes
// expected-error {{size of operand dimension 0 (2) is not compatible with size of result dimension 0 (4)}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 2] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
  return
}

// -----

// dynamic_broadcast_in_dim rank
// expected-error {{result rank (1) is less than operand rank (2)}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<1xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1] : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<4xf32>
  return
}

// -----

// dynamic_broadcast_in_dim hints unique
// expected-error {{duplicate expansion hint for at least one operand dimension}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] {known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
  return
}

// -----

// dynamic_broadcast_in_dim hints range
// expected-error {{hint for expanding dimension 2 does not refer to a valid operand dimension}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] {known_expanding_dimensions = array<i64: 2>} : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
  return
}

// -----

// dynamic_broadcast_in_dim element type
// expected-error {{expects operand and result to have compatible element type. Got: 'tensor<2x3xf32>' and 'tensor<4x2x3xi32>'}}
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xi64>) {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xi32>
  return
}

// -----

// dynamic_iota range
// expected-error {{iota dimension cannot go beyond the output rank.}}
func.func @main(%s: tensor<2xi64>) {
  %0 = stablehlo.dynamic_iota %s, dim = 2 : (tensor<2xi64>) -> tensor<4x5xi32>
  return
}

// -----

// dynamic_iota negative
// expected-error {{attribute 'iota_dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%s: tensor<2xi64>) {
  %0 = stablehlo.dynamic_iota %s, dim = -1 : (tensor<2xi64>) -> tensor<4x5xi32>
  return
}

// -----

// dynamic_pad value
// expected-error {{operand #1 must be 0D tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<1xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %z: tensor<1xf32>, %s: tensor<2xi64>) {
  %0 = stablehlo.dynamic_pad %x, %z, %s, %s, %s : (tensor<2x3xf32>, tensor<1xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  return
}

// -----

// dynamic_pad low
// expected-error {{failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same type}}
func.func @main(%x: tensor<2x3xf32>, %z: tensor<f32>, %s: tensor<2xi64>, %t: tensor<3xi64>) {
  %0 = stablehlo.dynamic_pad %x, %z, %t, %s, %s : (tensor<2x3xf32>, tensor<f32>, tensor<3xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  return
}

// -----

// dynamic_pad high
// expected-error {{failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same type}}
func.func @main(%x: tensor<2x3xf32>, %z: tensor<f32>, %s: tensor<2xi64>, %t: tensor<3xi64>) {
  %0 = stablehlo.dynamic_pad %x, %z, %s, %t, %s : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<3xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  return
}

// -----

// dynamic_pad count
// expected-error {{padding operands size (3) must match operand rank (2)}}
func.func @main(%x: tensor<2x3xf32>, %z: tensor<f32>, %s: tensor<2xi64>, %t: tensor<3xi64>) {
  %0 = stablehlo.dynamic_pad %x, %z, %t, %t, %t : (tensor<2x3xf32>, tensor<f32>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) -> tensor<?x?xf32>
  return
}

// -----

// dynamic_pad rank
// expected-error {{failed to verify that all of {operand, result} have same rank}}
func.func @main(%x: tensor<2x3xf32>, %z: tensor<f32>, %s: tensor<2xi64>, %t: tensor<3xi64>) {
  %0 = stablehlo.dynamic_pad %x, %z, %s, %s, %s : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?xf32>
  return
}

// -----

// dynamic_pad element type
// expected-error {{failed to verify that all of {operand, padding_value, result} have same element type}}
func.func @main(%x: tensor<2x3xf32>, %z: tensor<i32>, %s: tensor<2xi64>, %t: tensor<3xi64>) {
  %0 = stablehlo.dynamic_pad %x, %z, %s, %s, %s : (tensor<2x3xf32>, tensor<i32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  return
}

// -----

// dynamic_conv padding
// expected-error {{expects padding to be of shape [2, 2], but got [1, 2]}}
func.func @main(%x: tensor<1x4x4x1xi64>, %y: tensor<3x3x1x1xi64>, %p: tensor<1x2xi64>) {
  %0 = "stablehlo.dynamic_conv"(%x, %y, %p) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x1xi64>, tensor<3x3x1x1xi64>, tensor<1x2xi64>) -> tensor<1x2x2x1xi64>
  return
}
