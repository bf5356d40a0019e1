// const shape
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<3xf32>
  return
}

// -----

// const elt
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf16>'}}
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf16>
  return
}

// -----

// const q storage
// expected-error {{inferred type(s) 'tensor<2xi16>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<1> : tensor<2xi16>} : () -> tensor<2x!layer>
  return
}

// -----

// const q expressed
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2x!layer>
  return
}

// -----

// const q shape
// expected-error {{inferred type(s) 'tensor<3xi8>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<1> : tensor<3xi8>} : () -> tensor<2x!layer>
  return
}

// -----

// const u8
// expected-error {{inferred type(s) 'tensor<2xui8>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<u8:f32, 5.000000e-01>>'}}
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<3> : tensor<2xui8>} : () -> tensor<2x!quant.uniform<u8:f32, 0.5>>
  return
}

// -----

// const i4 in i8
// expected-error {{inferred type(s) 'tensor<2xi8>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i4:f32, 5.000000e-01>>'}}
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<3> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i4:f32, 0.5>>
  return
}

// -----

// constant out
// expected-error {{result #0 must be statically shaped tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xindex>'}}
func.func @main() {
  %0 = "stablehlo.constant"() {value = dense<3> : tensor<2xindex>} : () -> tensor<2xindex>
  return
}
