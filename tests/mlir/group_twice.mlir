// RUN: -p 'group{isa=avx2},group{isa=avx2}' --verify-diagnostics

// expected-error @below {{found a program that is grouped for avx2, expected one without kernels}}
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %y = stablehlo.maximum %x, %x : tensor<4xi8>
  return %y : tensor<4xi8>
}
