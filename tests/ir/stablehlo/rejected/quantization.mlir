// quantize shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2xf32>) -> tensor<3x!layer>
  return
}

// -----

// quantize expressed
// expected-error {{Expressed type of result expected to be 'f16', but got 'f32'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2xf16>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2xf16>) -> tensor<2x!layer>
  return
}

// -----

// quantize int
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xi32>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2xi32>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2xi32>) -> tensor<2x!layer>
  return
}

// -----

// quantize to float
// expected-error {{result #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xf32>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// quantize axis size
// expected-error {{result #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<3xf32>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<3xf32>) -> tensor<3x!kernel>
  return
}

// -----

// quantize axis out
// expected-error {{result #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>>'}}
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2xf32>) -> tensor<2x!kernel1>
  return
}

// -----

// quantize requant expressed
// expected-error {{Expressed type of result expected to be 'f16', but got 'f32'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5>
func.func @main(%a: tensor<2x!half>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2x!half>) -> tensor<2x!layer>
  return
}

// -----

// dequantize shape
// expected-error {{all non-scalar operands/results must have the same shape and base type}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.uniform_dequantize"(%a) : (tensor<2x!layer>) -> tensor<3xf32>
  return
}

// -----

// dequantize elt
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf16>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.uniform_dequantize"(%a) : (tensor<2x!layer>) -> tensor<2xf16>
  return
}

// -----

// dequantize float
// expected-error {{operand #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xf32>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.uniform_dequantize"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// dequantize int
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2xi8>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x!layer>) {
  %0 = "stablehlo.uniform_dequantize"(%a) : (tensor<2x!layer>) -> tensor<2xi8>
  return
}

// -----

// quantize kind result
// expected-error {{result #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i3:f32, 5.000000e-01>>'}}
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i3:f32, 0.5>>
  return
}
