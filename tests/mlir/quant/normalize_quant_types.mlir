// RUN: -p 'normalize-quant-types' --split-input-file

func.func @one_scale(%q: tensor<6x2x!quant.uniform<i8:f32:{0:6}, {{3.0:1}}>>) -> tensor<6x2xf32> {
  %0 = quant.dcast %q : tensor<6x2x!quant.uniform<i8:f32:{0:6}, {{3.0:1}}>> to tensor<6x2xf32>
  return %0 : tensor<6x2xf32>
}
// CHECK-LABEL: func.func @one_scale(%q: tensor<6x2x!quant.uniform<i8:f32, 3.000000e+00:1>>)
// CHECK:       quant.dcast %q : tensor<6x2x!quant.uniform<i8:f32, 3.000000e+00:1>> to tensor<6x2xf32>

// -----

func.func @one_scale_per_row(%q: tensor<2x6x!quant.uniform<u8:f32:{0:1}, {{1.0:255},{0.5}}>>) -> tensor<2x6xf32> {
  %0 = quant.dcast %q : tensor<2x6x!quant.uniform<u8:f32:{0:1}, {{1.0:255},{0.5}}>> to tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
// CHECK-LABEL: func.func @one_scale_per_row(%q: tensor<2x6x!quant.uniform<u8:f32:0, {1.000000e+00:255,5.000000e-01}>>)

// -----

// One scale for three rows is no scale per row.
func.func @blocks(%q: tensor<6x2x!quant.uniform<i8:f32:{0:3}, {{1.0},{3.0}}>>) -> tensor<6x2xf32> {
  %0 = quant.dcast %q : tensor<6x2x!quant.uniform<i8:f32:{0:3}, {{1.0},{3.0}}>> to tensor<6x2xf32>
  return %0 : tensor<6x2xf32>
}
// CHECK-LABEL: func.func @blocks(%q: tensor<6x2x!quant.uniform<i8:f32:{0:3},
// CHECK-SAME:  {1.000000e+00}, {3.000000e+00}}>>)

// -----

func.func private @declared(tensor<2x6x!quant.uniform<i8:f32:{0:1}, {{1.0},{0.5}}>>)
// CHECK-LABEL: func.func private @declared(tensor<2x6x!quant.uniform<i8:f32:0, {1.000000e+00,5.000000e-01}>>)
