// RUN: -p 'strip-func-quant-types' --verify-diagnostics

// expected-error@+1 {{found type !quant.uniform<f8E5M2:f32, 1.000000e+00>, which quant.scast cannot make integers of}}
func.func @f(%q: !quant.uniform<f8E5M2:f32, 1.0>) {
  return
}
