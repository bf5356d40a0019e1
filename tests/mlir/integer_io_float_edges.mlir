// RUN: -p 'integer-io' --split-input-file --verify-diagnostics

// expected-error {{input 'unused': found nothing that reads it, expected one quantize; keep io float (--io)}}
func.func @main(%x: tensor<4xf32> {zeropoint.name = "unused"}) -> (tensor<4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.constant dense<0.5> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error {{input 'x': found that it is also an output, expected one quantize; keep io float (--io)}}
func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> (tensor<4xf32> {zeropoint.name = "y"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error {{input 'x': found float ops that read its rounded value (stablehlo.uniform_dequantize), expected integer ops only; keep io float (--io)}}
func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> (tensor<4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %2 = stablehlo.tanh %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// expected-error {{output 'y': found stablehlo.tanh, which computes in float; keep io float (--io)}}
func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> (tensor<4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xi8>
  %2 = stablehlo.convert %1 : (tensor<4xi8>) -> tensor<4xf32>
  %3 = stablehlo.tanh %2 : tensor<4xf32>
  %4 = stablehlo.uniform_quantize %3 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %5 = stablehlo.uniform_dequantize %4 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  return %5 : tensor<4xf32>
}
