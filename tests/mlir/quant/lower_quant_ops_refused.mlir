// RUN: -p 'lower-quant-ops' --split-input-file --verify-diagnostics

func.func @any(%x: f32) -> !quant.any<i8:f32> {
  // expected-error@+1 {{found type !quant.any<i8:f32>, which has no scale; expected !quant.uniform}}
  %0 = quant.qcast %x : f32 to !quant.any<i8:f32>
  return %0 : !quant.any<i8:f32>
}

// -----

func.func @signed(%q: !quant.uniform<si8:f32, 1.0>) -> f32 {
  // expected-error@+1 {{found storage type si8, which quant.scast cannot reach}}
  %0 = quant.dcast %q : !quant.uniform<si8:f32, 1.0> to f32
  return %0 : f32
}

// -----

func.func @calibrated(%x: tensor<2xf32>) {
  // expected-error@+1 {{found type !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>, which has no scale}}
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.0:1.0>>>
  return
}

// -----

func.func @float_storage(%x: f32) {
  // expected-error@+1 {{found storage type f8E5M2, which quant.scast cannot reach}}
  %0 = quant.qcast %x : f32 to !quant.uniform<f8E5M2:f32, 1.0>
  return
}
