// fft too many lengths
// expected-error {{rank must be between 1 and 3, but got 4.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = FFT, length = [2, 2, 2, 2] : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  return
}

// -----

// fft no length
// expected-error {{rank must be between 1 and 3, but got 0.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = FFT, length = [] : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  return
}

// -----

// fft rank
// expected-error {{operand rank must not be less than fft rank of 3 for operand of type 'tensor<2x4xcomplex<f32>>'.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = FFT, length = [2, 2, 2] : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  return
}

// -----

// fft of reals
// expected-error {{FFT/IFFT/IRFFT take a complex tensor as input, but is given 'tensor<2x4xf32>'.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %x, type = FFT, length = [4] : (tensor<2x4xf32>) -> tensor<2x4xcomplex<f32>>
  return
}

// -----

// rfft of complex
// expected-error {{RFFT requires f32 or f64 input type, but is given 'complex<f32>'.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = RFFT, length = [4] : (tensor<2x4xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
  return
}

// -----

// rfft length
// expected-error {{RFFT requires innermost dimensions to be compatible with fft_length. Got: 2, 4 but wanted 3.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %x, type = RFFT, length = [3] : (tensor<2x4xf32>) -> tensor<2x3xcomplex<f32>>
  return
}

// -----

// rfft result
// expected-error {{inferred type(s) 'tensor<2x3xcomplex<f32>>' are incompatible with return type(s) of operation 'tensor<2x2xcomplex<f32>>'}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<2x4xf32>) -> tensor<2x2xcomplex<f32>>
  return
}

// -----

// irfft of reals
// expected-error {{FFT/IFFT/IRFFT take a complex tensor as input, but is given 'tensor<2x4xf32>'.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %x, type = IRFFT, length = [6] : (tensor<2x4xf32>) -> tensor<2x6xf32>
  return
}

// -----

// irfft length
// expected-error {{IRFFT requires innermost dimension to be compatible with fft_length[-1]/2+1. Got: 4 but fft_length is 4.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = IRFFT, length = [4] : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xf32>
  return
}

// -----

// irfft outer length
// expected-error {{IRFFT requires non-final dimensions to be compatible with fft_length. Got: 2, 4 but wanted 3, 6, and 2 != 3.}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = IRFFT, length = [3, 6] : (tensor<2x4xcomplex<f32>>) -> tensor<2x6xf32>
  return
}

// -----

// irfft result
// expected-error {{inferred type(s) 'tensor<2x6xf32>' are incompatible with return type(s) of operation 'tensor<2x4xf32>'}}
func.func @main(%x: tensor<2x4xf32>, %c: tensor<2x4xcomplex<f32>>) {
  %0 = stablehlo.fft %c, type = IRFFT, length = [6] : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xf32>
  return
}

// -----

// fft of integers
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements values, but got 'tensor<4xi32>'}}
func.func @main(%i: tensor<4xi32>) {
  %0 = stablehlo.fft %i, type = RFFT, length = [4] : (tensor<4xi32>) -> tensor<3xf32>
  return
}

// -----

// cholesky rank
// expected-error {{argument 'a' must have rank >= 2, got shape 4.}}
func.func @main(%x: tensor<4xf32>) {
  %0 = stablehlo.cholesky %x : tensor<4xf32>
  return
}

// -----

// cholesky square
// expected-error {{minor dimensions of 'a' must have equal size, got shape 4, 3.}}
func.func @main(%x: tensor<4x3xf32>) {
  %0 = stablehlo.cholesky %x : tensor<4x3xf32>
  return
}

// -----

// cholesky result
// expected-error {{inferred type(s) 'tensor<3x3xf32>' are incompatible with return type(s) of operation 'tensor<4x3xf32>'}}
func.func @main(%x: tensor<3x3xf32>) {
  %0 = "stablehlo.cholesky"(%x) : (tensor<3x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// cholesky of integers
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<3x3xi32>'}}
func.func @main(%x: tensor<3x3xi32>) {
  %0 = stablehlo.cholesky %x : tensor<3x3xi32>
  return
}

// -----

// triangular_solve of integers
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements values, but got 'tensor<3x3xi32>'}}
func.func @main(%a: tensor<3x3xi32>, %b: tensor<3x3xi32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
  return
}

// -----

// triangular_solve one element type
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%a: tensor<3x3xf32>, %b: tensor<3x3xf16>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x3xf16>) -> tensor<3x3xf16>
  return
}

// -----

// triangular_solve rank of a
// expected-error {{operand 'a' must have rank >= 2, but got 'tensor<3xf32>'}}
func.func @main(%a: tensor<3xf32>, %b: tensor<3x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

// triangular_solve square
// expected-error {{two minor dimensions of operand 'a' must be compatible, but got 'tensor<3x2xf32>'}}
func.func @main(%a: tensor<3x2xf32>, %b: tensor<3x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x2xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

// triangular_solve equal ranks
// expected-error {{operands must have equal rank, but got 'tensor<3x3xf32>' and 'tensor<1x3x3xf32>'}}
func.func @main(%a: tensor<3x3xf32>, %b: tensor<1x3x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// triangular_solve shared dimension
// expected-error {{shared dimension of operands 'a' and 'b' must be compatible, but got 'tensor<3x3xf32>' and 'tensor<2x3xf32>'}}
func.func @main(%a: tensor<3x3xf32>, %b: tensor<2x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// triangular_solve shared dimension on the right
// expected-error {{shared dimension of operands 'a' and 'b' must be compatible, but got 'tensor<3x3xf32>' and 'tensor<3x2xf32>'}}
func.func @main(%a: tensor<3x3xf32>, %b: tensor<3x2xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return
}

// -----

// triangular_solve batches
// expected-error {{batch dimensions of the operands must be compatible, but got 'tensor<2x3x3xf32>' and 'tensor<4x3x3xf32>'}}
func.func @main(%a: tensor<2x3x3xf32>, %b: tensor<4x3x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x3x3xf32>, tensor<4x3x3xf32>) -> tensor<4x3x3xf32>
  return
}

// -----

// triangular_solve transpose
// expected-error {{Invalid transpose option value for triangular solve}}
func.func @main(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE_INVALID>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

// triangular_solve result
// expected-error {{inferred type(s) 'tensor<3x3xf32>' are incompatible with return type(s) of operation 'tensor<3x2xf32>'}}
func.func @main(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x2xf32>
  return
}
