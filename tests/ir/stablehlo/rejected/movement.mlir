// bcast size
// expected-error {{broadcast_dimensions size (2) does not match operand rank (1)}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

// bcast dup
// expected-error {{broadcast_dimensions should not have duplicates}}
func.func @main(%a: tensor<2x2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// bcast invalid
// expected-error {{broadcast_dimensions contains invalid value 2 for result with rank 2}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 2>} : (tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

// bcast dim
// expected-error {{size of operand dimension 0 (2) is not equal to 1 or size of result dimension 1 (3)}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

// bcast elt
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x3xi32>
  return
}

// -----

// bcast f16
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x3xf16>
  return
}

// -----

// bcast q
// expected-error {{expect same quantization scale and zero_point but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<2x3x!quant.uniform<i8:f32, 2.500000e-01>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2x!layer>) -> tensor<2x3x!other>
  return
}

// -----

// bcast q storage
// expected-error {{requires compatible element types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2x!layer>) -> tensor<2x3x!wide>
  return
}

// -----

// bcast q axis
// expected-error {{result quantization_dimension 1 not same as broadcast_dimensions[0] = 0}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2x!kernel>) -> tensor<2x2x!kernel1>
  return
}

// -----

// bcast q scale0
// expected-error {{mismatch result scale 1 (2.500000e-01) and operand scale 0 (5.000000e-01)}}
func.func @main(%a: tensor<1x!quant.uniform<i8:f32:0, {0.5}>>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<1x!quant.uniform<i8:f32:0, {0.5}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// bcast q zp0
// expected-error {{mismatch result zero_point 1 (2) and operand zero_point 0 (0)}}
func.func @main(%a: tensor<1x!quant.uniform<i8:f32:0, {0.5}>>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<1x!quant.uniform<i8:f32:0, {0.5}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.5:2}>>
  return
}

// -----

// bcast layer axis
// expected-error {{requires compatible element types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2x!layer>) -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5:3,0.5:3}>>
  return
}

// -----

// bcast axis layer
// expected-error {{requires compatible element types for all operands and results}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2x!kernel>) -> tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  return
}

// -----

// bcast f to q
// expected-error {{requires compatible element types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x2x!layer>
  return
}

// -----

// reshape n
// expected-error {{number of output elements (7) doesn't match expected number of elements (6)}}
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x3xf32>) -> tensor<7xf32>
  return
}

// -----

// reshape elt
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x3xf32>) -> tensor<6xi32>
  return
}

// -----

// reshape q
// expected-error {{expect same quantization scale and zero_point but got 'tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<6x!quant.uniform<i8:f32, 2.500000e-01>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x3x!layer>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x3x!layer>) -> tensor<6x!other>
  return
}

// -----

// reshape q axis scales
// expected-error {{expect same quantization scales and zero_points but got 'tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>' vs 'tensor<2x3x1x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,1.250000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x3x!kernel>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x3x!kernel>) -> tensor<2x3x1x!quant.uniform<i8<-127:127>:f32:0, {0.5,0.125}>>
  return
}

// -----

// reshape q axis dim size
// expected-error {{result #0 must be statically shaped or single bounded dimension tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<4x2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x4x!kernel>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x4x!kernel>) -> tensor<4x2x!kernel>
  return
}

// -----

// reshape q axis size
// expected-error {{expect same quantization dimension size for operand and result 'tensor<2x4x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>' and 'tensor<8x1x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01,5.000000e-01,2.500000e-01,5.000000e-01,2.500000e-01,5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x4x!kernel>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x4x!kernel>) -> tensor<8x1x!quant.uniform<i8<-127:127>:f32:0, {0.5,0.25,0.5,0.25,0.5,0.25,0.5,0.25}>>
  return
}

// -----

// reshape q axis before
// expected-error {{product of dimensions before quantization dimension must match between operand and result for 1 and 4}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2x4x!kernel>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x4x!kernel>) -> tensor<4x2x!kernel1>
  return
}

// -----

// reshape axis to layer
// expected-error {{requires compatible element types for all operands and results}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x4x!kernel>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x4x!kernel>) -> tensor<8x!quant.uniform<i8<-127:127>:f32, 0.5>>
  return
}

// -----

// transpose perm
// expected-error {{TransposeOp operand rank 2 does not match permutation size 1}}
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// transpose notperm
// expected-error {{attribute permutation must be a permutation of [0, 1] but got 0, 0}}
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// transpose res
// expected-error {{inferred type(s) 'tensor<3x2xf32>' are incompatible with return type(s) of operation 'tensor<2x3xf32>'}}
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// transpose elt
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xi32>
  return
}

// -----

// transpose q
// expected-error {{expect same quantization scale and zero_point but got 'tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<3x2x!quant.uniform<i8:f32, 2.500000e-01>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x3x!layer>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x3x!layer>) -> tensor<3x2x!other>
  return
}

// -----

// transpose q axis
// expected-error {{operand quantization_dimension 0 is not same as permutation[0] = 1}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x2x!kernel>) -> tensor<2x2x!kernel>
  return
}

// -----

// transpose q scales
// expected-error {{expect same quantization scales and zero_points but got 'tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>' vs 'tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,1.250000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x2x!kernel>) -> tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {0.5,0.125}>>
  return
}

// -----

// transpose axis to layer
// expected-error {{requires compatible element types for all operands and results}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x4x!kernel>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x4x!kernel>) -> tensor<4x2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  return
}

// -----

// concat rank0
// expected-error {{rank-0 values cannot be concatenated}}
func.func @main(%a: tensor<f32>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = 0 : i64} : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// concat dim
// expected-error {{dimension 1 is out-of-bounds for input rank 1}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// concat negdim
// expected-error {{attribute 'dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = -1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// concat rank
// expected-error {{operands (0) and (1) do not match rank}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2x2xf32>) {
  %0 = "stablehlo.concatenate"(%a, %b) {dimension = 0 : i64} : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  return
}

// -----

// concat shape
// expected-error {{shapes of operand (0) and (1) are not compatible at non-concat index 1: (2, 2) != (2, 3)}}
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>) {
  %0 = "stablehlo.concatenate"(%a, %b) {dimension = 0 : i64} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

// concat res
// expected-error {{inferred type(s) 'tensor<4x2xf32>' are incompatible with return type(s) of operation 'tensor<5x2xf32>'}}
func.func @main(%a: tensor<2x2xf32>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<5x2xf32>
  return
}

// -----

// concat elt
// expected-error {{requires the same element type for all operands and results}}
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xi32>) {
  %0 = "stablehlo.concatenate"(%a, %b) {dimension = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xi32>) -> tensor<4x2xf32>
  return
}

// -----

// concat q
// expected-error {{requires the same element type for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x2x!layer>, %b: tensor<2x2x!other>) {
  %0 = "stablehlo.concatenate"(%a, %b) {dimension = 0 : i64} : (tensor<2x2x!layer>, tensor<2x2x!other>) -> tensor<4x2x!layer>
  return
}

// -----

// concat q res
// expected-error {{requires the same element type for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x2x!layer>, %b: tensor<2x2x!other>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = 0 : i64} : (tensor<2x2x!layer>, tensor<2x2x!layer>) -> tensor<4x2x!other>
  return
}

// -----

// concat q axis
// expected-error {{operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = 1 : i64} : (tensor<2x2x!kernel>, tensor<2x2x!kernel>) -> tensor<2x4x!kernel>
  return
}

// -----

// concat none
// expected-error {{expected 1 or more operands, but found 0}}
func.func @main() {
  %0 = "stablehlo.concatenate"() {dimension = 1 : i64} : () -> tensor<2x4xf32>
  return
}

// -----

// pad low len
// expected-error {{edge_padding_low length (2) must match operand rank (1)}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 0, 0>, interior_padding = array<i64: 0, 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// pad lens
// expected-error {{failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same size}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0, 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// pad interior
// expected-error {{Interior padding cannot be negative: -1}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: -1>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// pad neg
// expected-error {{Padding result in negative size for dimension 0}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: -3>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// pad res
// expected-error {{inferred type(s) 'tensor<3xf32>' are incompatible with return type(s) of operation 'tensor<2xf32>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// pad elt
// expected-error {{requires the same element type for all operands and results}}
func.func @main(%a: tensor<2xf32>, %s: tensor<i32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<i32>) -> tensor<3xf32>
  return
}

// -----

// pad value rank
// expected-error {{operand #1 must be 0D tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<1xf32>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<1xf32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
  return
}

// -----

// pad q
// expected-error {{requires the same element type for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x!layer>, %s: tensor<!other>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2x!layer>, tensor<!other>) -> tensor<3x!layer>
  return
}

// -----

// pad axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>, %s: tensor<!layer>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2x!kernel>, tensor<!layer>) -> tensor<3x!layer>
  return
}

// -----

// slice rank
// expected-error {{the number of elements in start_indices (2) does not match the rank of the operand (1)}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<2xf32>) -> tensor<1xf32>
  return
}

// -----

// slice lens
// expected-error {{failed to verify that all of {start_indices, limit_indices, strides} have same size}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 1, 1>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<1xf32>
  return
}

// -----

// slice neg
// expected-error {{negative start index -1 in dimension 0}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: -1>, limit_indices = array<i64: 1>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// slice limit
// expected-error {{limit index 3 is larger than dimension size 2 in dimension 0}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 3>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// slice order
// expected-error {{start index 2 is larger than limit index 1 in dimension 0}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 2>, limit_indices = array<i64: 1>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<0xf32>
  return
}

// -----

// slice stride
// expected-error {{stride must be positive but got 0 in dimension 0}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 0>} : (tensor<2xf32>) -> tensor<1xf32>
  return
}

// -----

// slice res
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<1xf32>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<1xf32>
  return
}

// -----

// slice elt
// expected-error {{requires the same element type for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xi32>
  return
}

// -----

// slice q
// expected-error {{requires the same element type for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<2x!layer>) -> tensor<2x!other>
  return
}

// -----

// slice axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<2x!kernel>) -> tensor<2x!kernel>
  return
}

// -----

// reshape range
// expected-error {{requires compatible element types for all operands and results}}
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x!other>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2x!other>) -> tensor<2x1x!quant.uniform<i8<-127:127>:f32, 0.25>>
  return
}

// -----

// bcast layer axis one
// expected-error {{requires compatible element types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2x!layer>) -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5:3,0.5:3}>>
  return
}

// -----

// transpose layer to axis
// expected-error {{requires compatible element types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x4x!layer>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x4x!layer>) -> tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3,0.5:3}>>
  return
}

// -----

// concat out axis
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<1x!layer>) {
  %0 = "stablehlo.concatenate"(%a, %a) {dimension = 0 : i64} : (tensor<1x!layer>, tensor<1x!layer>) -> tensor<2x!kernel>
  return
}

// -----

// reshape in
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xindex>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<2xindex>) -> tensor<2xindex>
  return
}

// -----

// bcast in
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xindex>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2xindex>) -> tensor<2xindex>
  return
}

// -----

// bcast out
// expected-error {{result #0 must be statically shaped or single bounded dimension tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xindex>
  return
}

// -----

// transpose in
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xindex>) {
  %0 = "stablehlo.transpose"(%a) {permutation = array<i64: 0>} : (tensor<2xindex>) -> tensor<2xindex>
  return
}

// -----

// slice out
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xindex>
  return
}

// -----

// pad in
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xindex>, %s: tensor<f32>) {
  %0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xindex>, tensor<f32>) -> tensor<3xf32>
  return
}

// -----

// broadcast to a dynamic shape
// expected-error {{result #0 must be statically shaped or single bounded dimension tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x?xf32>'}}
func.func @main(%a: tensor<f32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<2x?xf32>
  return
}
