// real integers
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements values, but got 'tensor<2xi32>'}}
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.real"(%a) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// real other part
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf64>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.real"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xf64>
  return
}

// -----

// real shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.real"(%a) : (tensor<2xcomplex<f32>>) -> tensor<3xf32>
  return
}

// -----

// real complex result
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2xcomplex<f32>>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.real"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// real quantized
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.real"(%a) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// imag integers
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements values, but got 'tensor<2xi32>'}}
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.imag"(%a) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// imag other part
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf64>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.imag"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xf64>
  return
}

// -----

// imag shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.imag"(%a) : (tensor<2xcomplex<f32>>) -> tensor<3xf32>
  return
}

// -----

// imag complex result
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2xcomplex<f32>>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.imag"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// imag quantized
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.imag"(%a) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// complex of f16
// expected-error {{operand #0 must be ranked tensor of 32/64-bit float values, but got 'tensor<2xf16>'}}
func.func @main(%a: tensor<2xf16>, %b: tensor<2xf16>) {
  %0 = "stablehlo.complex"(%a, %b) : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// complex two elements
// expected-error {{requires the same element type for all operands}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  %0 = "stablehlo.complex"(%a, %b) : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// complex result element
// expected-error {{inferred type(s) 'tensor<2xcomplex<f32>>' are incompatible with return type(s) of operation 'tensor<2xcomplex<f64>>'}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = "stablehlo.complex"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f64>>
  return
}

// -----

// complex operand shapes
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.complex"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// complex result shape
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = "stablehlo.complex"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xcomplex<f32>>
  return
}

// -----

// complex real result
// expected-error {{result #0 must be ranked tensor of complex type with 32/64-bit float elements values, but got 'tensor<2xf32>'}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = "stablehlo.complex"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// complex short form of a real type
// expected-error {{expected tensor with complex element type}}
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.complex %a, %a : tensor<2xf32>
  return
}

// -----

// bitcast_convert widths
// expected-error {{requires compatible bit widths. Got: 'tensor<2xf32>' and 'tensor<2x3xi8>', but 8 * 3 != 32.}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xf32>) -> tensor<2x3xi8>
  return
}

// -----

// bitcast_convert rank
// expected-error {{rank of smaller element type (1) should be 1 more than rank of larger element type (1), but 1 != 1 + 1.}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xf32>) -> tensor<2xi8>
  return
}

// -----

// bitcast_convert shape
// expected-error {{operand and result shapes must match except for the innermost dimension of the shape with the smaller element type. Got: 'tensor<2xf32>' and 'tensor<3xi32>'.}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xf32>) -> tensor<3xi32>
  return
}

// -----

// bitcast_convert complex to integers
// expected-error {{cannot convert between real and complex types, but got: 'tensor<2xcomplex<f32>>' and 'tensor<2xi64>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xi64>
  return
}

// -----

// bitcast_convert complex to floats
// expected-error {{cannot convert between real and complex types, but got: 'tensor<2xcomplex<f32>>' and 'tensor<2x2xf32>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2x2xf32>
  return
}

// -----

// bitcast_convert bits to bytes
// expected-error {{rank of smaller element type (1) should be 1 more than rank of larger element type (1), but 1 != 1 + 1.}}
func.func @main(%a: tensor<2xi1>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xi1>) -> tensor<2xi8>
  return
}

// -----

// bitcast_convert prefix
// expected-error {{operand and result shapes must match except for the innermost dimension of the shape with the smaller element type. Got: 'tensor<3xf32>' and 'tensor<2x2xi16>'.}}
func.func @main(%a: tensor<3xf32>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<3xf32>) -> tensor<2x2xi16>
  return
}

// -----

// bitcast_convert odd width
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xi5>'}}
func.func @main(%a: tensor<i8>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<i8>) -> tensor<2xi5>
  return
}

// -----

// bitcast_convert six bits
// expected-error {{rank of smaller element type (1) should be 1 more than rank of larger element type (1), but 1 != 1 + 1.}}
func.func @main(%a: tensor<2xf6E2M3FN>) {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2xf6E2M3FN>) -> tensor<2xi8>
  return
}

// -----

// reduce_precision no exponent
// expected-error {{attribute 'exponent_bits' failed to satisfy constraint: 32-bit signless integer attribute whose value is positive}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 0 : i32, mantissa_bits = 10 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// reduce_precision negative mantissa
// expected-error {{attribute 'mantissa_bits' failed to satisfy constraint: 32-bit signless integer attribute whose value is non-negative}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = -1 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// reduce_precision result element
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 1 : i32}> : (tensor<2xf32>) -> tensor<2xf64>
  return
}

// -----

// reduce_precision integers
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 1 : i32}> : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// reduce_precision per axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main(%a: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 1 : i32}> : (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// reduce_precision shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 1 : i32}> : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// reduce_precision complex
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xcomplex<f32>>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 1 : i32}> : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// reduce_precision result quantized
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 1 : i32}> : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// reduce_precision format no mantissa
// expected-error {{expected exponent mantissa in format e#m#, saw e5}}
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.reduce_precision %a, format = e5 : tensor<2xf32>
  return
}

// -----

// reduce_precision format other order
// expected-error {{expected exponent mantissa in format e#m#, saw m5e3}}
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.reduce_precision %a, format = m5e3 : tensor<2xf32>
  return
}

// -----

// reduce_precision format too great
// expected-error {{unable to parse mantissa '99999999999999'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.reduce_precision %a, format = e5m99999999999999 : tensor<2xf32>
  return
}

// -----

// abs real result of complex
// expected-error {{result #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xcomplex<f32>>'}}
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = "stablehlo.abs"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// negate complex of f16
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xcomplex<f16>>'}}
func.func @main(%a: tensor<2xcomplex<f16>>) {
  %0 = "stablehlo.negate"(%a) : (tensor<2xcomplex<f16>>) -> tensor<2xcomplex<f16>>
  return
}

// -----

// negate complex integers
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xcomplex<i32>>'}}
func.func @main(%a: tensor<2xcomplex<i32>>) {
  %0 = "stablehlo.negate"(%a) : (tensor<2xcomplex<i32>>) -> tensor<2xcomplex<i32>>
  return
}
