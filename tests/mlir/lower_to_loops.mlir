// RUN: -p 'lower-to-loops'

// A nest for the sums, whose innermost loop carries the total; a nest for what follows.
func.func @main(%x: tensor<2x3xi8>, %w: tensor<3x4xi8>) -> tensor<2x4xi8> {
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %n = stablehlo.constant dense<32> : tensor<1xi32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
  %1 = "fxpmath.requantize"(%0, %m, %n) <{behaviour = "fixed32", zero_point = 3 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<2x4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x4xi8>
  return %1 : tensor<2x4xi8>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[X:.*]] = bufferization.to_buffer %x read_only
// CHECK:       %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK:       %[[SUMS:.*]] = memref.alloc() : memref<2x4xi32>
// CHECK-NEXT:  affine.for %[[I:.*]] = 0 to 2 {
// CHECK-NEXT:    affine.for %[[J:.*]] = 0 to 4 {
// CHECK-NEXT:      %[[SUM:.*]] = affine.for %[[K:.*]] = 0 to 3 iter_args(%[[TOTAL:.*]] = %[[ZERO]]) -> (i32) {
// CHECK-NEXT:        %[[A:.*]] = affine.load %[[X]][%[[I]], %[[K]]] : memref<2x3xi8>
// CHECK-NEXT:        %[[B:.*]] = affine.load %{{.*}}[%[[K]], %[[J]]] : memref<3x4xi8>
// CHECK-NEXT:        %[[AW:.*]] = arith.extsi %[[A]] : i8 to i32
// CHECK-NEXT:        %[[BW:.*]] = arith.extsi %[[B]] : i8 to i32
// CHECK-NEXT:        %[[P:.*]] = arith.muli %[[AW]], %[[BW]] : i32
// CHECK-NEXT:        %[[S:.*]] = arith.addi %[[TOTAL]], %[[P]] : i32
// CHECK-NEXT:        affine.yield %[[S]] : i32
// CHECK-NEXT:      }
// CHECK-NEXT:      affine.store %[[SUM]], %[[SUMS]][%[[I]], %[[J]]] : memref<2x4xi32>
// CHECK:       %[[Y:.*]] = memref.alloc() : memref<2x4xi8>
// CHECK:       affine.load %[[SUMS]]
// CHECK:       arith.muli
// CHECK:       arith.shrsi
// CHECK:       affine.store %{{.*}}, %[[Y]]
// CHECK:       bufferization.to_tensor %[[Y]] restrict
