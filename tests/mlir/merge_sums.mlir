// RUN: -p 'merge-sums' --split-input-file

func.func @main(%x: tensor<1x2x4xi32>) -> tensor<1x2x4xi32> {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %b = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xi32>) -> tensor<1x2x4xi32>
  %1 = stablehlo.add %x, %0 : tensor<1x2x4xi32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xi32>) -> tensor<1x2x4xi32>
  %3 = stablehlo.add %1, %2 : tensor<1x2x4xi32>
  return %3 : tensor<1x2x4xi32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[C:.*]] = stablehlo.constant dense<[11, 22]> : tensor<2xi32>
// CHECK-NEXT:  %[[B:.*]] = stablehlo.broadcast_in_dim %[[C]], dims = [1]
// CHECK-NEXT:  %[[S:.*]] = stablehlo.add %{{.*}}, %[[B]]
// CHECK-NEXT:  return %[[S]]

// -----

// Constants along different axes have no common constant.
func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2xi32>) -> tensor<2x2xi32>
  %1 = stablehlo.add %x, %0 : tensor<2x2xi32>
  %2 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xi32>) -> tensor<2x2xi32>
  %3 = stablehlo.add %1, %2 : tensor<2x2xi32>
  return %3 : tensor<2x2xi32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.add
// CHECK:       stablehlo.add
