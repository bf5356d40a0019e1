// RUN: -p 'group{isa=avx2},layout,layout' --verify-diagnostics

// expected-error @below {{found a program that has memrefs already, expected one from 'group'}}
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %y = stablehlo.maximum %x, %x : tensor<4xi8>
  return %y : tensor<4xi8>
}
