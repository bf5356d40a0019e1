// Every op in the text that upstream prints, byte for byte; names are the ones that upstream gives. Those of @newer are as public programs spell them.
module {
  func.func @functions(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xcomplex<f32>>) {
    %0 = chlo.acos %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %1 = chlo.acosh %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %2 = chlo.asin %arg1 : tensor<2x3xcomplex<f32>> -> tensor<2x3xcomplex<f32>>
    %3 = chlo.asinh %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %4 = chlo.atan %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %5 = chlo.atanh %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %6 = chlo.conj %arg1 : tensor<2x3xcomplex<f32>> -> tensor<2x3xcomplex<f32>>
    %7 = chlo.cosh %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %8 = chlo.digamma %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %9 = chlo.erf %arg0 {note} : tensor<2x3xf32> -> tensor<2x3xf32>
    %10 = chlo.erf_inv %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %11 = chlo.erfc %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %12 = chlo.is_inf %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
    %13 = chlo.is_neg_inf %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
    %14 = chlo.is_pos_inf %arg0 : tensor<2x3xf32> -> tensor<2x3xi1>
    %15 = chlo.lgamma %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %16 = chlo.next_after %arg0, %arg0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
    %17 = chlo.sinh %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %18 = chlo.square %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %19 = chlo.tan %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    %values, %indices = chlo.top_k(%arg0, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
    %20 = chlo.constant dense<1.000000e+00> : tensor<2xf32>
    %21 = "chlo.constant_like"(%arg0) <{value = 1.000000e+00 : f32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return
  }
  func.func @broadcasting(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<2xf32>, %arg3: tensor<2x3xi32>, %arg4: tensor<i32>, %arg5: tensor<2x3xi1>) {
    %0 = chlo.broadcast_add %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %1 = chlo.broadcast_add %arg2, %arg0 {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = chlo.broadcast_and %arg3, %arg4 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    %3 = chlo.broadcast_atan2 %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %4 = chlo.broadcast_complex %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xcomplex<f32>>
    %5 = chlo.broadcast_compare %arg0, %arg1 {compare_type = #chlo<comparison_type TOTALORDER>, comparison_direction = #chlo<comparison_direction LT>} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
    %6 = chlo.broadcast_divide %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %7 = chlo.broadcast_maximum %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %8 = chlo.broadcast_minimum %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %9 = chlo.broadcast_multiply %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %10 = chlo.broadcast_next_after %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %11 = chlo.broadcast_or %arg3, %arg4 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    %12 = chlo.broadcast_power %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %13 = chlo.broadcast_remainder %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %14 = chlo.broadcast_select %arg5, %arg0, %arg1 : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %15 = chlo.broadcast_shift_left %arg3, %arg4 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    %16 = chlo.broadcast_shift_right_arithmetic %arg3, %arg4 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    %17 = chlo.broadcast_shift_right_logical %arg3, %arg4 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    %18 = chlo.broadcast_subtract %arg0, %arg1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %19 = chlo.broadcast_xor %arg3, %arg4 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    return
  }
  func.func @newer(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi32>, %arg2: tensor<2xf32>, %arg3: tensor<2x3x4xf32>, %arg4: tensor<2xi64>) {
    %0 = chlo.mulhi %arg1, %arg1 : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
    %1, %2 = chlo.scan(%arg0) inits(%arg2) dimension=1 attributes {is_reverse = true} {
    ^bb0(%3: tensor<2xf32>, %4: tensor<2xf32>):
      %5 = stablehlo.add %3, %4 : tensor<2xf32>
      stablehlo.return %5, %5 : tensor<2xf32>, tensor<2xf32>
    } : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
    %6 = "chlo.ragged_dot"(%arg0, %arg3, %arg4) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
    return
  }
}
