// RUN: -p 'fold-bounds' --split-input-file

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %n = stablehlo.constant dense<32> : tensor<1xi32>
  %low = stablehlo.constant dense<-3> : tensor<i8>
  %high = stablehlo.constant dense<100> : tensor<i8>
  %0 = "fxpmath.requantize"(%x, %m, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>
  %1 = stablehlo.clamp %low, %0, %high : (tensor<i8>, tensor<4xi8>, tensor<i8>) -> tensor<4xi8>
  return %1 : tensor<4xi8>
}
// CHECK-LABEL: func.func @main
// CHECK:       fxpmath.requantize{{.*}} storage_max = 100 : i64, storage_min = -3 : i64
// CHECK-NOT:   stablehlo.clamp
// CHECK:       return

// -----

// The unbounded value has another use.
func.func @main(%x: tensor<4xi32>) -> (tensor<4xi8>, tensor<4xi8>) {
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %n = stablehlo.constant dense<32> : tensor<1xi32>
  %low = stablehlo.constant dense<-3> : tensor<i8>
  %high = stablehlo.constant dense<100> : tensor<i8>
  %0 = "fxpmath.requantize"(%x, %m, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>
  %1 = stablehlo.clamp %low, %0, %high : (tensor<i8>, tensor<4xi8>, tensor<i8>) -> tensor<4xi8>
  return %0, %1 : tensor<4xi8>, tensor<4xi8>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.clamp
