// RUN: -p 'canonicalize-quant{fold-fake-quant=true}'

func.func @fake_quant(%x: f32) -> f32 {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0>
  %1 = quant.dcast %0 : !quant.uniform<i8:f32, 2.0> to f32
  return %1 : f32
}
// CHECK-LABEL: func.func @fake_quant
// CHECK-NEXT:  return %x
