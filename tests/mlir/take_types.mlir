// RUN: -p 'fuse{target=openvino-vnni},keep-unquantized{target=openvino-vnni},propagate{target=openvino-vnni},take-types{target=openvino-vnni}' --split-input-file

// No cast rounds the product. OpenVINO scales its sums in floats.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.5>>
  %a = quant.dcast %q : tensor<2x4x!quant.uniform<u8:f32, 0.5>> to tensor<2x4xf32>
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.25>} dense<1.0> : tensor<4x3xf32>
  %m = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return %m : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "fully_connected"({{.*}} as !quant.uniform<u8:f32, {{.*}} as !quant.uniform<i8<-127:127>:f32, {{.*}}) -> tensor<2x3xf32> as !quant.uniform<i32:f32, 1.250000e-01>

// -----

// A difference between casts is one of integers.
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %p = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.5>>
  %a = quant.dcast %p : tensor<2x4x!quant.uniform<u8:f32, 0.5>> to tensor<2x4xf32>
  %q = quant.qcast %y : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.25:3>>
  %b = quant.dcast %q : tensor<2x4x!quant.uniform<u8:f32, 0.25:3>> to tensor<2x4xf32>
  %d = stablehlo.subtract %a, %b : tensor<2x4xf32>
  %r = quant.qcast %d : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 1.0:99>>
  %s = quant.dcast %r : tensor<2x4x!quant.uniform<u8:f32, 1.0:99>> to tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "subtract"({{.*}} as !quant.uniform<u8:f32, 5.000000e-01>, {{.*}} as !quant.uniform<u8:f32, 2.500000e-01:3>) -> tensor<2x4xf32> as !quant.uniform<u8:f32, 1.000000e+00:99>

// -----

// A float op reads the difference, so it is one of floats.
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %p = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.5>>
  %a = quant.dcast %p : tensor<2x4x!quant.uniform<u8:f32, 0.5>> to tensor<2x4xf32>
  %q = quant.qcast %y : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.25:3>>
  %b = quant.dcast %q : tensor<2x4x!quant.uniform<u8:f32, 0.25:3>> to tensor<2x4xf32>
  %d = stablehlo.subtract %a, %b : tensor<2x4xf32>
  return %d : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "subtract"({{.*}}) -> tensor<2x4xf32> as !quant.none<f32>

// -----

// A function of a product is computed in the kernel of the product, with its cast.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.5>>
  %a = quant.dcast %q : tensor<2x4x!quant.uniform<u8:f32, 0.5>> to tensor<2x4xf32>
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.25>} dense<1.0> : tensor<4x3xf32>
  %m = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %t = stablehlo.tanh %m : tensor<2x3xf32>
  %r = quant.qcast %t : tensor<2x3xf32> to tensor<2x3x!quant.uniform<u8:f32, 0.01:128>>
  %s = quant.dcast %r : tensor<2x3x!quant.uniform<u8:f32, 0.01:128>> to tensor<2x3xf32>
  return %s : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "fully_connected"({{.*}}) -> tensor<2x3xf32> as !quant.uniform<i32:f32, 1.250000e-01>
// CHECK:       quant.region "function_of_product"({{.*}} = %m) -> tensor<2x3xf32> as !quant.uniform<u8:f32, 1.000000e-02:128>

// -----

// Another op reads the product, too, so OpenVINO computes the function in a kernel of its own.
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.5>>
  %a = quant.dcast %q : tensor<2x4x!quant.uniform<u8:f32, 0.5>> to tensor<2x4xf32>
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.25>} dense<1.0> : tensor<4x3xf32>
  %m = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %t = stablehlo.tanh %m : tensor<2x3xf32>
  %r = quant.qcast %t : tensor<2x3xf32> to tensor<2x3x!quant.uniform<u8:f32, 0.01:128>>
  %s = quant.dcast %r : tensor<2x3x!quant.uniform<u8:f32, 0.01:128>> to tensor<2x3xf32>
  return %s, %m : tensor<2x3xf32>, tensor<2x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   "function_of_product"
