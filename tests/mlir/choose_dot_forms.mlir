// RUN: -p 'choose-dot-forms{isa=avx2}'

// Weights up to 64 cannot saturate 16-bit sums of two products; larger ones are split into halves. A second
// activation counts as weights up to 128.
func.func @main(%x: tensor<4x8xi8>) -> (tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x4xi32>) {
  %small = stablehlo.constant dense<64> : tensor<8x2xi8>
  %large = stablehlo.constant dense<-128> : tensor<8x2xi8>
  %0 = stablehlo.dot_general %x, %small, contracting_dims = [1] x [0] : (tensor<4x8xi8>, tensor<8x2xi8>) -> tensor<4x2xi32>
  %1 = stablehlo.dot_general %x, %large, contracting_dims = [1] x [0] : (tensor<4x8xi8>, tensor<8x2xi8>) -> tensor<4x2xi32>
  %2 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<4x8xi8>, tensor<4x8xi8>) -> tensor<4x4xi32>
  return %0, %1, %2 : tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x4xi32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.dot_general %x, %small, {{.*}} {zeropoint.dot_form = "u8s8_pairs"}
// CHECK:       stablehlo.dot_general %x, %large, {{.*}} {zeropoint.dot_form = "u8s16_pairs"}
// CHECK:       stablehlo.dot_general %x, %x, {{.*}} {zeropoint.dot_form = "u8s8_pairs_split"}
