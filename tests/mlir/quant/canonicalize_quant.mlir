// RUN: -p 'canonicalize-quant' --split-input-file

func.func @requantized(%q: !quant.uniform<i8:f32, 2.0>) -> !quant.uniform<i8:f32, 2.0> {
  %0 = quant.dcast %q : !quant.uniform<i8:f32, 2.0> to f32
  %1 = quant.qcast %0 : f32 to !quant.uniform<i8:f32, 2.0>
  return %1 : !quant.uniform<i8:f32, 2.0>
}
// CHECK-LABEL: func.func @requantized
// CHECK-NEXT:  return %q

// -----

func.func @other_scale(%q: !quant.uniform<i8:f32, 2.0>) -> !quant.uniform<i8:f32, 3.0> {
  %0 = quant.dcast %q : !quant.uniform<i8:f32, 2.0> to f32
  %1 = quant.qcast %0 : f32 to !quant.uniform<i8:f32, 3.0>
  return %1 : !quant.uniform<i8:f32, 3.0>
}
// CHECK-LABEL: func.func @other_scale
// CHECK:       quant.dcast
// CHECK:       quant.qcast

// -----

func.func @stored(%i: tensor<2xi8>) -> tensor<2xi8> {
  %0 = quant.scast %i : tensor<2xi8> to tensor<2x!quant.uniform<u8:f32, 2.0>>
  %1 = quant.scast %0 : tensor<2x!quant.uniform<u8:f32, 2.0>> to tensor<2xi8>
  %2 = quant.scast %1 : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  %3 = quant.scast %2 : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xi8>
  return %3 : tensor<2xi8>
}
// CHECK-LABEL: func.func @stored
// CHECK-NEXT:  return %i

// -----

// A fake quantization rounds; it stays.
func.func @fake_quant(%x: f32) -> f32 {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0>
  %1 = quant.dcast %0 : !quant.uniform<i8:f32, 2.0> to f32
  return %1 : f32
}
// CHECK-LABEL: func.func @fake_quant
// CHECK:       quant.qcast
// CHECK:       %[[R:.*]] = quant.dcast
// CHECK:       return %[[R]]

// -----

// Two casts of one value to one type are one; to another type there is another.
func.func @shared(%x: f32) -> (!quant.uniform<i8:f32, 2.0>, !quant.uniform<i8:f32, 2.0>, !quant.uniform<i8:f32, 4.0>) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0>
  %1 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0>
  %2 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 4.0>
  return %0, %1, %2 : !quant.uniform<i8:f32, 2.0>, !quant.uniform<i8:f32, 2.0>, !quant.uniform<i8:f32, 4.0>
}
// CHECK-LABEL: func.func @shared
// CHECK-NEXT:  %[[A:.*]] = quant.qcast %{{.*}} to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:  %[[B:.*]] = quant.qcast %{{.*}} to !quant.uniform<i8:f32, 4.000000e+00>
// CHECK-NEXT:  return %[[A]], %[[A]], %[[B]]
