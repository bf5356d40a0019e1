// RUN: -p 'strip-func-quant-types' --split-input-file

func.func @used(%q: tensor<2x!quant.uniform<i8:f32, 2.0>>) -> tensor<2xf32> {
  %0 = quant.dcast %q : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xf32>
  return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @used(%q: tensor<2xi8>) -> tensor<2xf32>
// CHECK-NEXT:  %[[Q:.*]] = quant.scast %q : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:  quant.dcast %[[Q]]

// -----

func.func @made(%x: f32) -> !quant.uniform<u4:f32, 2.0> {
  %0 = quant.qcast %x : f32 to !quant.uniform<u4:f32, 2.0>
  return %0 : !quant.uniform<u4:f32, 2.0>
}
// CHECK-LABEL: func.func @made(%x: f32) -> i4
// CHECK:       %[[I:.*]] = quant.scast %{{.*}} : !quant.uniform<u4:f32, 2.000000e+00> to i4
// CHECK-NEXT:  return %[[I]] : i4

// -----

// What only passes through needs no casts, through a call neither.
func.func @passed(%q: tensor<*x!quant.uniform<i8:f32, 2.0>>, %x: f32) -> tensor<*x!quant.uniform<i8:f32, 2.0>> {
  %0 = func.call @passed(%q, %x) : (tensor<*x!quant.uniform<i8:f32, 2.0>>, f32) -> tensor<*x!quant.uniform<i8:f32, 2.0>>
  return %0 : tensor<*x!quant.uniform<i8:f32, 2.0>>
}
// CHECK-LABEL: func.func @passed(%q: tensor<*xi8>, %x: f32) -> tensor<*xi8>
// CHECK-NEXT:  %[[R:.*]] = func.call @passed(%q, %x) : (tensor<*xi8>, f32) -> tensor<*xi8>
// CHECK-NEXT:  return %[[R]] : tensor<*xi8>
