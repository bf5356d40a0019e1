// RUN: -p 'fuse{target=litert}' --split-input-file

// A composite is the kernel that it names.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "aten.gelu.default" %x {composite_attributes = {approximate = "tanh"}, decomposition = @gelu} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %a = stablehlo.constant dense<0.797884561> : tensor<4xf32>
  %b = stablehlo.constant dense<0.044715> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %x : tensor<4xf32>
  %1 = stablehlo.multiply %0, %x : tensor<4xf32>
  %2 = stablehlo.multiply %1, %b : tensor<4xf32>
  %3 = stablehlo.add %x, %2 : tensor<4xf32>
  %4 = stablehlo.multiply %3, %a : tensor<4xf32>
  %5 = stablehlo.tanh %4 : tensor<4xf32>
  %6 = stablehlo.add %5, %one : tensor<4xf32>
  %7 = stablehlo.multiply %x, %half : tensor<4xf32>
  %8 = stablehlo.multiply %7, %6 : tensor<4xf32>
  return %8 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[ALL:.*]] = quant.region "gelu"(%{{.*}} = %x
// CHECK:         stablehlo.tanh
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// One whose name says nothing becomes its ops, and those inside it theirs; what is found in them is fused.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "my.block" %x, %y {decomposition = @block} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @block(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = stablehlo.composite "my.last" %0 {decomposition = @last} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @last(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.maximum %x, %zero : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[ALL:.*]] = quant.region "add"(%{{.*}} = %x, %{{.*}} = %y
// CHECK:         stablehlo.add
// CHECK:         stablehlo.maximum
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[ALL]]

// -----

// A composite that reads the result of another one.
func.func private @first(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @second(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.logistic %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "my.tanh" %x {decomposition = @first} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "my.sigmoid" %0 {decomposition = @second} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK:      func.func @main
// CHECK-NEXT:   %[[FIRST:.*]] = quant.region "tanh"({{.*}} = %x)
// CHECK:        quant.region "logistic"({{.*}} = %[[FIRST]])
