// RUN: -p 'fuse,instrument{target=cpu}' --split-input-file --locations

// Not asked: what a kernel fixes; what is pinned; what only float ops touch.
func.func @main(%x: tensor<4xf32> loc("x")) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.logistic %x : tensor<4xf32> loc("gate")
  %2 = stablehlo.add %x, %x : tensor<4xf32> loc("sum")
  %q = quant.qcast %2 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %d = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %3 = stablehlo.multiply %d, %x : tensor<4xf32> loc("product")
  return %0, %3 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       statsKey = "arg0"
// CHECK-NOT:   statsKey = "{{gate|sum}}"
// CHECK:       statsKey = "product"
// CHECK-NOT:   statsKey = "{{gate|sum}}"

// -----

// Asked all the same: a value that a kernel fixes, if another one reads it that keeps its type. The range of the
// result follows from that of the operand.
func.func @main(%x: tensor<4xf32> loc("x")) -> tensor<2xf32> {
  %0 = stablehlo.logistic %x : tensor<4xf32> loc("gate")
  %1 = stablehlo.slice %0 [0:2] : (tensor<4xf32>) -> tensor<2xf32> loc("half")
  return %1 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       statsKey = "arg0"
// CHECK:       statsKey = "gate"
// CHECK:       statsKey = "half"

// -----

// Also a value that may or may not fit the parameters that a kernel fixes for another one.
func.func @main(%x: tensor<4xf32> loc("x")) -> tensor<8xf32> {
  %0 = stablehlo.logistic %x : tensor<4xf32> loc("gate")
  %1 = stablehlo.concatenate %0, %x, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32> loc("both")
  return %1 : tensor<8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       statsKey = "arg0"
// CHECK:       statsKey = "gate"
// CHECK:       statsKey = "both"
