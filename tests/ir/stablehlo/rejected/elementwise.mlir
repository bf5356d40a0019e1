// add shapes
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

// add elt
// expected-error {{op requires the same element type for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xi32>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}

// -----

// add mixedq
// expected-error {{expects  all operands and results to be either quantized or non-quantized}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2xf32>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x!layer>, tensor<2xf32>) -> tensor<2x!layer>
  return
}

// -----

// add storage
// expected-error {{mismatched operands and result quantization storage types}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2x!wide>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x!layer>, tensor<2x!wide>) -> tensor<2x!layer>
  return
}

// -----

// add expressed
// expected-error {{mismatched operands and result quantization expressed types}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2x!half>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x!layer>, tensor<2x!half>) -> tensor<2x!layer>
  return
}

// -----

// add result not per axis
// expected-error {{result is not per_axis quantized but lhs or rhs are}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>, %b: tensor<2x!kernel>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x!kernel>, tensor<2x!kernel>) -> tensor<2x!layer>
  return
}

// -----

// add lhs axis
// expected-error {{quantization_dimension of lhs and result are not same '!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>' vs '!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>, %b: tensor<2x2x!kernel>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x2x!kernel>, tensor<2x2x!kernel>) -> tensor<2x2x!kernel1>
  return
}

// -----

// add rhs axis
// expected-error {{quantization_dimension of rhs and result are not same '!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>' vs '!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel1>, %b: tensor<2x2x!kernel>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x2x!kernel1>, tensor<2x2x!kernel>) -> tensor<2x2x!kernel1>
  return
}

// -----

// add result per axis
// expected-error {{result per_axis quantized but none from rhs and lhs are per_axis quantized}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2x!layer>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x!layer>, tensor<2x!layer>) -> tensor<2x!kernel>
  return
}

// -----

// add result shape
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// add no tensor
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'f32'}}
func.func @main(%a: f32, %b: f32) {
  %0 = "stablehlo.add"(%a, %b) : (f32, f32) -> f32
  return
}

// -----

// add index
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xindex>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2xindex>, tensor<2xindex>) -> tensor<2xindex>
  return
}

// -----

// add unranked
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<*xf32>'}}
func.func @main(%a: tensor<*xf32>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

// mul elt
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xi32>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}

// -----

// mul shapes
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

// mul mixedq
// expected-error {{requires compatible types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2xf32>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x!layer>, tensor<2xf32>) -> tensor<2x!layer>
  return
}

// -----

// mul storage
// expected-error {{requires compatible types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2x!wide>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x!layer>, tensor<2x!wide>) -> tensor<2x!layer>
  return
}

// -----

// mul widen
// expected-error {{requires compatible types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2x!other>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x!layer>, tensor<2x!other>) -> tensor<2x!wide>
  return
}

// -----

// mul expressed
// expected-error {{requires compatible types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5>
func.func @main(%a: tensor<2x!layer>, %b: tensor<2x!half>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x!layer>, tensor<2x!half>) -> tensor<2x!layer>
  return
}

// -----

// mul axes
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>, %b: tensor<2x2x!kernel>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x2x!kernel>, tensor<2x2x!kernel>) -> tensor<2x2x!kernel1>
  return
}

// -----

// mul peraxis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>, %b: tensor<2x2x!kernel>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x2x!kernel>, tensor<2x2x!kernel>) -> tensor<2x2x!kernel>
  return
}

// -----

// mul peraxis layer
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!kernel>, %b: tensor<2x2x!layer>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x2x!kernel>, tensor<2x2x!layer>) -> tensor<2x2x!layer>
  return
}

// -----

// mul fp precision
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf16>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  return
}

// -----

// sub pred
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main(%a: tensor<2xi1>) {
  %0 = "stablehlo.subtract"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// and float
// expected-error {{operand #0 must be ranked tensor of bool or 2/4/8/16/32/64-bit integer values, but got 'tensor<2xf32>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.and"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// and result
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.and"(%a, %a) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi8>
  return
}

// -----

// and q
// expected-error {{operand #0 must be ranked tensor of bool or 2/4/8/16/32/64-bit integer values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.and"(%a, %a) : (tensor<2x!layer>, tensor<2x!layer>) -> tensor<2x!layer>
  return
}

// -----

// div pred
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main(%a: tensor<2xi1>) {
  %0 = "stablehlo.divide"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// pow pred
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main(%a: tensor<2xi1>) {
  %0 = "stablehlo.power"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// logistic int
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.logistic"(%a) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// logistic shape
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.logistic"(%a) : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// logistic elt
// expected-error {{requires compatible types for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.logistic"(%a) : (tensor<2xf32>) -> tensor<2xf16>
  return
}

// -----

// logistic q/f
// expected-error {{requires compatible types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.logistic"(%a) : (tensor<2x!layer>) -> tensor<2xf32>
  return
}

// -----

// logistic qaxis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.logistic"(%a) : (tensor<2x!kernel>) -> tensor<2x!kernel>
  return
}

// -----

// logistic i16
// expected-error {{requires compatible types for all operands and results}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.logistic"(%a) : (tensor<2x!layer>) -> tensor<2x!wide>
  return
}

// -----

// ceil int
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.ceil"(%a) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// abs unsigned
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xui8>'}}
func.func @main(%a: tensor<2xui8>) {
  %0 = "stablehlo.abs"(%a) : (tensor<2xui8>) -> tensor<2xui8>
  return
}

// -----

// abs result
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xi32>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.abs"(%a) : (tensor<2xf32>) -> tensor<2xi32>
  return
}

// -----

// abs pred
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main(%a: tensor<2xi1>) {
  %0 = "stablehlo.abs"(%a) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// sign unsigned
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xui8>'}}
func.func @main(%a: tensor<2xui8>) {
  %0 = "stablehlo.sign"(%a) : (tensor<2xui8>) -> tensor<2xui8>
  return
}

// -----

// negate pred
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main(%a: tensor<2xi1>) {
  %0 = "stablehlo.negate"(%a) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

// convert shape
// expected-error {{requires the same shape for all operands and results}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.convert"(%a) : (tensor<2xf32>) -> tensor<3xi32>
  return
}

// -----

// convert q
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.convert"(%a) : (tensor<2x!layer>) -> tensor<2xf32>
  return
}

// -----

// convert toq
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.convert"(%a) : (tensor<2xf32>) -> tensor<2x!layer>
  return
}

// -----

// clamp min
// expected-error {{min shape [3] is not scalar and is not compatible to operand shape [2]}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.clamp"(%b, %a, %s) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// clamp max
// expected-error {{max shape [3] is not scalar and is not compatible to operand shape [2]}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.clamp"(%s, %a, %b) : (tensor<f32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

// clamp elt
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2xf32>, %s: tensor<i32>) {
  %0 = "stablehlo.clamp"(%s, %a, %s) : (tensor<i32>, tensor<2xf32>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

// clamp res
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.clamp"(%s, %a, %s) : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  return
}

// -----

// clamp res elt
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0 = "stablehlo.clamp"(%s, %a, %s) : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf16>
  return
}

// -----

// compare elt
// expected-error {{requires compatible element types for all operands}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xi32>) {
  %0 = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  return
}

// -----

// compare shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xi1>
  return
}

// -----

// compare res
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xi1>
  return
}

// -----

// compare res elt
// expected-error {{result #0 must be ranked tensor of bool values, but got 'tensor<2xi8>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi8>
  return
}

// -----

// select types
// expected-error {{requires compatible types for non-predicate operands}}
func.func @main(%p: tensor<i1>, %a: tensor<2xf32>, %b: tensor<2xi32>) {
  %0 = "stablehlo.select"(%p, %a, %b) : (tensor<i1>, tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}

// -----

// select pred shape
// expected-error {{requires the same shape for all operands}}
func.func @main(%p: tensor<3xi1>, %a: tensor<2xf32>) {
  %0 = "stablehlo.select"(%p, %a, %a) : (tensor<3xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// select pred elt
// expected-error {{operand #0 must be ranked tensor of bool values, but got 'tensor<2xi8>'}}
func.func @main(%p: tensor<2xi8>, %a: tensor<2xf32>) {
  %0 = "stablehlo.select"(%p, %a, %a) : (tensor<2xi8>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// select res
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
func.func @main(%p: tensor<2xi1>, %a: tensor<2xf32>) {
  %0 = "stablehlo.select"(%p, %a, %a) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// select res elt
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xi32>'}}
func.func @main(%p: tensor<2xi1>, %a: tensor<2xf32>) {
  %0 = "stablehlo.select"(%p, %a, %a) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xi32>
  return
}

// -----

// select q
// expected-error {{requires compatible types for non-predicate operands}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%p: tensor<2xi1>, %a: tensor<2x!layer>, %b: tensor<2x!other>) {
  %0 = "stablehlo.select"(%p, %a, %b) : (tensor<2xi1>, tensor<2x!layer>, tensor<2x!other>) -> tensor<2x!layer>
  return
}

// -----

// clamp axis
// expected-error {{operand #1 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>, %s: tensor<!layer>) {
  %0 = "stablehlo.clamp"(%s, %a, %s) : (tensor<!layer>, tensor<2x!kernel>, tensor<!layer>) -> tensor<2x!kernel>
  return
}

// -----

// select axis
// expected-error {{operand #1 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%p: tensor<i1>, %a: tensor<2x!kernel>) {
  %0 = "stablehlo.select"(%p, %a, %a) : (tensor<i1>, tensor<2x!kernel>, tensor<2x!kernel>) -> tensor<2x!kernel>
  return
}

// -----

// compare axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2x!kernel>, tensor<2x!kernel>) -> tensor<2xi1>
  return
}

// -----

// max axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.maximum"(%a, %a) : (tensor<2x!kernel>, tensor<2x!kernel>) -> tensor<2x!kernel>
  return
}

// -----

// abs axis
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.abs"(%a) : (tensor<2x!kernel>) -> tensor<2x!kernel>
  return
}

// -----

// negate axis
// expected-error {{operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>) {
  %0 = "stablehlo.negate"(%a) : (tensor<2x!kernel>) -> tensor<2x!kernel>
  return
}

// -----

// max range
// expected-error {{requires compatible types for all operands and results}}
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x!other>, %b: tensor<2x!quant.uniform<i8<-127:127>:f32, 0.25>>) {
  %0 = "stablehlo.maximum"(%a, %b) : (tensor<2x!other>, tensor<2x!quant.uniform<i8<-127:127>:f32, 0.25>>) -> tensor<2x!other>
  return
}

// -----

// max sign
// expected-error {{requires compatible types for all operands and results}}
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x!other>, %b: tensor<2x!quant.uniform<u8:f32, 0.25>>) {
  %0 = "stablehlo.maximum"(%a, %b) : (tensor<2x!other>, tensor<2x!quant.uniform<u8:f32, 0.25>>) -> tensor<2x!other>
  return
}

// -----

// si8
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xsi8>'}}
func.func @main(%a: tensor<2xsi8>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2xsi8>, tensor<2xsi8>) -> tensor<2xsi8>
  return
}

// -----

// i3
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xi3>'}}
func.func @main(%a: tensor<2xi3>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2xi3>, tensor<2xi3>) -> tensor<2xi3>
  return
}

// -----

// q i3
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i3:f32, 2.500000e-01>>'}}
func.func @main(%a: tensor<2x!quant.uniform<i3:f32, 0.25>>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2x!quant.uniform<i3:f32, 0.25>>, tensor<2x!quant.uniform<i3:f32, 0.25>>) -> tensor<2x!quant.uniform<i3:f32, 0.25>>
  return
}

// -----

// q any
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.any<i8:f32>>'}}
func.func @main(%a: tensor<2x!quant.any<i8:f32>>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2x!quant.any<i8:f32>>, tensor<2x!quant.any<i8:f32>>) -> tensor<2x!quant.any<i8:f32>>
  return
}

// -----

// q calibrated
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>>'}}
func.func @main(%a: tensor<2x!quant.calibrated<f32<-1.0:1.0>>>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2x!quant.calibrated<f32<-1.0:1.0>>>, tensor<2x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<2x!quant.calibrated<f32<-1.0:1.0>>>
  return
}

// -----

// abs shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.abs"(%a) : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// f80
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xf80>'}}
func.func @main(%a: tensor<2xf80>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2xf80>, tensor<2xf80>) -> tensor<2xf80>
  return
}

// -----

// tf32
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xtf32>'}}
func.func @main(%a: tensor<2xtf32>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2xtf32>, tensor<2xtf32>) -> tensor<2xtf32>
  return
}

// -----

// q i64 storage
// expected-error {{illegal storage type size: 64}}
func.func @main(%a: tensor<2x!quant.uniform<i64:f32, 0.25>>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2x!quant.uniform<i64:f32, 0.25>>, tensor<2x!quant.uniform<i64:f32, 0.25>>) -> tensor<2x!quant.uniform<i64:f32, 0.25>>
  return
}

// -----

// qrank axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>>'}}
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel1>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2x!kernel1>, tensor<2x!kernel1>) -> tensor<2x!kernel1>
  return
}

// -----

// clamp f16
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f16>) {
  %0 = "stablehlo.clamp"(%s, %a, %s) : (tensor<f16>, tensor<2xf32>, tensor<f16>) -> tensor<2xf32>
  return
}

// -----

// select fp
// expected-error {{requires compatible types for non-predicate operands}}
func.func @main(%p: tensor<i1>, %a: tensor<2xf32>, %b: tensor<2xf16>) {
  %0 = "stablehlo.select"(%p, %a, %b) : (tensor<i1>, tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  return
}

// -----

// si8
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<si8:f32, 2.500000e-01>>'}}
func.func @main(%a: tensor<2x!quant.uniform<si8:f32, 0.25>>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2x!quant.uniform<si8:f32, 0.25>>, tensor<2x!quant.uniform<si8:f32, 0.25>>) -> tensor<2x!quant.uniform<si8:f32, 0.25>>
  return
}
