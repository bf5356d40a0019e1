// Every op in the text that upstream prints, byte for byte; names are the ones that upstream gives.
module {
  func.func @elementwise(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<f32>, %arg3: tensor<2x3xi32>) {
    %0 = stablehlo.abs %arg0 : tensor<2x3xf32>
    %1 = stablehlo.ceil %arg0 : tensor<2x3xf32>
    %2 = stablehlo.cosine %arg0 : tensor<2x3xf32>
    %3 = stablehlo.exponential %arg0 : tensor<2x3xf32>
    %4 = stablehlo.exponential_minus_one %arg0 : tensor<2x3xf32>
    %5 = stablehlo.floor %arg0 : tensor<2x3xf32>
    %6 = stablehlo.log %arg0 : tensor<2x3xf32>
    %7 = stablehlo.log_plus_one %arg0 : tensor<2x3xf32>
    %8 = stablehlo.logistic %arg0 : tensor<2x3xf32>
    %9 = stablehlo.negate %arg0 : tensor<2x3xf32>
    %10 = stablehlo.rsqrt %arg0 : tensor<2x3xf32>
    %11 = stablehlo.sign %arg0 : tensor<2x3xf32>
    %12 = stablehlo.sine %arg0 : tensor<2x3xf32>
    %13 = stablehlo.sqrt %arg0 : tensor<2x3xf32>
    %14 = stablehlo.tanh %arg0 : tensor<2x3xf32>
    %15 = stablehlo.convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
    %16 = stablehlo.convert %arg0 : tensor<2x3xf32>
    %17 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>
    %18 = stablehlo.and %arg3, %arg3 : tensor<2x3xi32>
    %19 = stablehlo.divide %arg0, %arg1 : tensor<2x3xf32>
    %20 = stablehlo.maximum %arg0, %arg1 : tensor<2x3xf32>
    %21 = stablehlo.minimum %arg0, %arg1 : tensor<2x3xf32>
    %22 = stablehlo.multiply %arg0, %arg1 {note = "attributes stay", tag} : tensor<2x3xf32>
    %23 = stablehlo.or %arg3, %arg3 : tensor<2x3xi32>
    %24 = stablehlo.power %arg0, %arg1 : tensor<2x3xf32>
    %25 = stablehlo.subtract %arg0, %arg1 : tensor<2x3xf32>
    %26 = stablehlo.clamp %arg2, %arg0, %arg2 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %27 = stablehlo.clamp %arg1, %arg0, %arg1 : tensor<2x3xf32>
    %28 = stablehlo.compare EQ, %arg0, %arg1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %29 = stablehlo.compare LT, %arg0, %arg1, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %30 = stablehlo.select %29, %arg0, %arg1 : tensor<2x3xi1>, tensor<2x3xf32>
    return
  }
  func.func @movement(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<6xf32>
    %3 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %4 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
    %5 = stablehlo.concatenate %arg0, dim = 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %6 = stablehlo.pad %arg0, %arg1, low = [0, 1], high = [1, -1], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %7 = stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %8 = stablehlo.slice %arg1 [] : (tensor<f32>) -> tensor<f32>
    return
  }
  func.func @contraction(%arg0: tensor<1x4x8x8xf32>, %arg1: tensor<4x1x3x3xf32>, %arg2: tensor<2x3x4xf32>, %arg3: tensor<2x4x5xf32>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x8x8xf32>
    %1 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
    %2 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, 0, 1, f], window = {pad = [[-1, 0], [0, 2]], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]} : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x5x8x4xf32>
    %3 = stablehlo.dot_general %arg2, %arg3, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %4 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, HIGH] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x2x5xf32>
    %5 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [] x [] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x4x2x4x5xf32>
    return
  }
  func.func @reduction(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>, %arg2: tensor<2x3xi8>, %arg3: tensor<i8>) {
    %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %1 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.maximum across dimensions = [0, 1] {note} : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
     reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
      %5 = stablehlo.subtract %arg4, %arg5 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }
    %3 = stablehlo.reduce(%arg2 init: %arg3) across dimensions = [1] : (tensor<2x3xi8>, tensor<i8>) -> tensor<2xi32>
     reducer(%arg4: tensor<i32>, %arg5: tensor<i32>)  {
      %5 = stablehlo.add %arg4, %arg5 : tensor<i32>
      stablehlo.return %5 : tensor<i32>
    }
    %4 = "stablehlo.reduce_window"(%arg0, %arg1) <{padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %5 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x2xf32>
    return
  }
  func.func @constants() {
    %c = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %cst = stablehlo.constant dense<[[0.000000e+00, -0.000000e+00], [1.000000e-01, 3.14159274]]> : tensor<2x2xf32>
    %cst_0 = stablehlo.constant dense<[0x7FC00000, 0x7F800000, 0xFF800000, 0x4CEB79A3]> : tensor<4xf32>
    %c_1 = stablehlo.constant {note = 1 : i32} dense<> : tensor<0x3xi32>
    %c_2 = stablehlo.constant dense<-7> : tensor<3xi4>
    %c_3 = stablehlo.constant dense<[0, 255]> : tensor<2xui8>
    %cst_4 = stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
    %cst_5 = stablehlo.constant dense_resource<w0> : tensor<100xf32>
    return
  }
  func.func @quantized(%arg0: tensor<1x3x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %arg1: tensor<2x3x1x1x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>, %arg2: tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x3x1x1x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>) -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
    %2 = stablehlo.add %0, %1 : tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
    %3 = stablehlo.uniform_quantize %2 : (tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>) -> tensor<1x2x4x4x!quant.uniform<i8:f32, 1.000000e+00:-3>>
    %4 = stablehlo.uniform_dequantize %3 : (tensor<1x2x4x4x!quant.uniform<i8:f32, 1.000000e+00:-3>>) -> tensor<1x2x4x4xf32>
    %5 = stablehlo.uniform_quantize %4 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4x!quant.uniform<u8:f32, 1.000000e+00:128>>
    return
  }
  func.func @composite(%arg0: tensor<2xf32>) {
    %0 = stablehlo.composite "zeropoint.twice" %arg0 {decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.composite "zeropoint.twice" %arg0 {composite_attributes = {axis = 1 : i64}, decomposition = @twice, note, version = 2 : i32} : (tensor<2xf32>) -> tensor<2xf32>
    return
  }
  func.func private @twice(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func @bits_and_functions(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi32>, %arg2: tensor<2x3x!quant.uniform<i8:f32, 1.000000e+00>>) {
    %0 = stablehlo.xor %arg1, %arg1 : tensor<2x3xi32>
    %1 = stablehlo.not %arg1 : tensor<2x3xi32>
    %2 = stablehlo.popcnt %arg1 : tensor<2x3xi32>
    %3 = stablehlo.count_leading_zeros %arg1 : tensor<2x3xi32>
    %4 = stablehlo.shift_left %arg1, %arg1 : tensor<2x3xi32>
    %5 = stablehlo.shift_right_arithmetic %arg1, %arg1 : tensor<2x3xi32>
    %6 = stablehlo.shift_right_logical %arg1, %arg1 : tensor<2x3xi32>
    %7 = stablehlo.atan2 %arg0, %arg0 : tensor<2x3xf32>
    %8 = stablehlo.remainder %arg0, %arg0 : tensor<2x3xf32>
    %9 = stablehlo.cbrt %arg0 : tensor<2x3xf32>
    %10 = stablehlo.round_nearest_afz %arg0 : tensor<2x3xf32>
    %11 = stablehlo.round_nearest_even %arg0 : tensor<2x3xf32>
    %12 = stablehlo.tan %arg0 : tensor<2x3xf32>
    %13 = stablehlo.is_finite %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi1>
    %14 = stablehlo.is_finite %arg2 : (tensor<2x3x!quant.uniform<i8:f32, 1.000000e+00>>) -> tensor<2x3xi1>
    %15 = stablehlo.reverse %arg0, dims = [1, 0] : tensor<2x3xf32>
    return
  }
  func.func @indexing(%arg0: tensor<3x4x2xi64>, %arg1: tensor<2x3x2xi32>, %arg2: tensor<i32>, %arg3: tensor<1x1x2xi64>, %arg4: tensor<1x3x2xi32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2, 2>}> : (tensor<3x4x2xi64>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xi64>
    %1 = "stablehlo.gather"(%arg0, %arg4) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0, 2], start_indices_batching_dims = [1, 2], start_index_map = [1]>, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<3x4x2xi64>, tensor<1x3x2xi32>) -> tensor<3x2xi64>
    %2 = stablehlo.dynamic_slice %arg0, %arg2, %arg2, %arg2, sizes = [1, 1, 2] : (tensor<3x4x2xi64>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x2xi64>
    %3 = stablehlo.dynamic_update_slice %arg0, %arg3, %arg2, %arg2, %arg2 : (tensor<3x4x2xi64>, tensor<1x1x2xi64>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x2xi64>
    %4 = stablehlo.dynamic_update_slice %arg2, %arg2 : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %5 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %6 = stablehlo.iota dim = 0 {note} : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
    return
  }
  func.func @control(%arg0: tensor<i1>, %arg1: tensor<2xf32>, %arg2: tensor<i32>, %arg3: tensor<i64>) {
    %0 = "stablehlo.if"(%arg0) ({
      stablehlo.return %arg1 : tensor<2xf32>
    }, {
      %8 = stablehlo.negate %arg1 : tensor<2xf32>
      stablehlo.return %8 : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    %1 = "stablehlo.case"(%arg2) ({
      stablehlo.return %arg1 : tensor<2xf32>
    }) {note} : (tensor<i32>) -> tensor<2xf32>
    %2 = stablehlo.while(%iterArg = %arg3) : tensor<i64> attributes {note}
    cond {
      %8 = stablehlo.compare LT, %iterArg, %arg3 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    } do {
      %8 = stablehlo.add %iterArg, %iterArg : tensor<i64>
      stablehlo.return %8 : tensor<i64>
    }
    %3 = "stablehlo.map"(%arg1, %arg1) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %8 = stablehlo.divide %arg4, %arg5 : tensor<f32>
      stablehlo.return %8 : tensor<f32>
    }) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %4 = stablehlo.custom_call @foo.bar(%arg1, %arg3) {backend_config = "", has_side_effect = true} : (tensor<2xf32>, tensor<i64>) -> tensor<2xf32>
    stablehlo.custom_call @foo() {api_version = 2 : i32, note} : () -> ()
    %5 = stablehlo.tuple %arg1, %arg3 : tuple<tensor<2xf32>, tensor<i64>>
    %6 = stablehlo.get_tuple_element %5[1] : (tuple<tensor<2xf32>, tensor<i64>>) -> tensor<i64>
    %7 = stablehlo.optimization_barrier %arg1 : tensor<2xf32>
    stablehlo.optimization_barrier()
    return
  }
  func.func @tokens(%arg0: !stablehlo.token) -> !stablehlo.token {
    %0 = stablehlo.after_all %arg0, %arg0 : !stablehlo.token
    return %0 : !stablehlo.token
  }
  func.func @scatter_and_sort(%arg0: tensor<3x4x2xi64>, %arg1: tensor<2x3x2xi32>, %arg2: tensor<2x3x2x2xi64>, %arg3: tensor<2x3xf32>) {
    %0 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<i64>, %arg5: tensor<i64>):
      %3 = stablehlo.add %arg4, %arg5 : tensor<i64>
      stablehlo.return %3 : tensor<i64>
    }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
    %1:2 = "stablehlo.sort"(%arg3, %arg3) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<f32>, %arg7: tensor<f32>):
      %3 = stablehlo.compare LT, %arg4, %arg5, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    }) : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    %2 = "stablehlo.sort"(%arg3) ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %3 = stablehlo.compare GT, %arg4, %arg5 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return
  }
  func.func @representation(%arg0: tensor<2x3xf32>, %arg1: tensor<?xf32>, %arg2: tensor<2xf32>, %arg3: tensor<2xcomplex<f32>>) {
    %0 = stablehlo.complex %arg0, %arg0 : tensor<2x3xcomplex<f32>>
    %1 = stablehlo.complex %arg1, %arg2 : (tensor<?xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
    %2 = stablehlo.real %0 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %3 = stablehlo.real %arg0 : tensor<2x3xf32>
    %4 = stablehlo.imag %0 {note} : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %5 = stablehlo.bitcast_convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3x4xui8>
    %6 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<2x3xf32>
    %7 = stablehlo.abs %arg3 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %cst = stablehlo.constant dense<(1.000000e+00,-2.500000e+00)> : tensor<2xcomplex<f32>>
    %cst_0 = stablehlo.constant dense<[(1.000000e-01,0x7FF8000000000000), (0.000000e+00,-0.000000e+00)]> : tensor<2xcomplex<f64>>
    %cst_1 = stablehlo.constant dense<[1.000000e+00, 0x7F]> : tensor<2xf8E4M3FN>
    %cst_2 = stablehlo.constant dense<[1.000000e+00, 0x7D, 0x7F, 0x7C]> : tensor<4xf8E5M2>
    %cst_3 = stablehlo.constant dense<[[2.500000e-01], [0x80]]> : tensor<2x1xf8E4M3FNUZ>
    %cst_4 = stablehlo.constant dense<[1.015630e-01, 0x80]> : tensor<2xf8E4M3B11FNUZ>
    %cst_5 = stablehlo.constant dense<[1.525880e-05, 0x80]> : tensor<2xf8E5M2FNUZ>
    %cst_6 = stablehlo.constant dense<[3.125000e+00, 0x78]> : tensor<2xf8E3M4>
    %cst_7 = stablehlo.constant dense<[1.500000e+00, 0xF8]> : tensor<2xf8E4M3>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<3xf8E8M0FNU>
    %cst_9 = stablehlo.constant dense<[7.500000e+00, -1.250000e-01]> : tensor<2xf6E2M3FN>
    %cst_10 = stablehlo.constant dense<[2.800000e+01, -6.250000e-02]> : tensor<2xf6E3M2FN>
    %cst_11 = stablehlo.constant dense<[6.000000e+00, -5.000000e-01]> : tensor<2xf4E2M1FN>
    %c = stablehlo.constant dense<[1, -2]> : tensor<2xi2>
    %c_12 = stablehlo.constant dense<[1, 3]> : tensor<2xui2>
    return
  }
  func.func @collectives(%arg0: tensor<2x4xi64>, %arg1: !stablehlo.token) {
    %0 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<i64>, %arg3: tensor<i64>):
      %13 = stablehlo.add %arg2, %arg3 : tensor<i64>
      stablehlo.return %13 : tensor<i64>
    }) : (tensor<2x4xi64>) -> tensor<2x4xi64>
    %1 = "stablehlo.reduce_scatter"(%arg0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
    ^bb0(%arg2: tensor<i64>, %arg3: tensor<i64>):
      %13 = stablehlo.add %arg2, %arg3 : tensor<i64>
      stablehlo.return %13 : tensor<i64>
    }) : (tensor<2x4xi64>) -> tensor<2x2xi64>
    %2 = "stablehlo.collective_reduce"(%arg0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%arg2: tensor<i64>, %arg3: tensor<i64>):
      %13 = stablehlo.add %arg2, %arg3 : tensor<i64>
      stablehlo.return %13 : tensor<i64>
    }) : (tensor<2x4xi64>) -> tensor<2x4xi64>
    %3 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x4xi64>) -> tensor<2x8xi64>
    %4 = "stablehlo.all_to_all"(%arg0) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<2x4xi64>) -> tensor<4x2xi64>
    %5 = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> : (tensor<2x4xi64>) -> tensor<2x4xi64>
    %6 = "stablehlo.collective_broadcast"(%arg0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x4xi64>) -> tensor<2x4xi64>
    %7 = stablehlo.partition_id : tensor<ui32>
    %8 = stablehlo.replica_id : tensor<ui32>
    %9 = "stablehlo.send"(%arg0, %arg1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<2x4xi64>, !stablehlo.token) -> !stablehlo.token
    %10 = "stablehlo.recv"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> !stablehlo.token
    %11 = "stablehlo.infeed"(%arg1) <{infeed_config = ""}> : (!stablehlo.token) -> !stablehlo.token
    %12 = "stablehlo.outfeed"(%arg0, %arg1) <{outfeed_config = ""}> : (tensor<2x4xi64>, !stablehlo.token) -> !stablehlo.token
    return
  }
  func.func @gradients(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<f32>) {
    %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg1, %arg1, %arg1) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg1) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    %grad_operand, %grad_scale, %grad_offset = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg1, %arg1, %arg0) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = "stablehlo.select_and_scatter"(%arg0, %arg0, %arg2) <{padding = dense<0> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %2 = stablehlo.compare GE, %arg3, %arg4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }, {
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg3 : tensor<f32>
    }) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    return
  }
  func.func @dynamic(%arg0: tensor<2x3xf32>, %arg1: tensor<2xi64>, %arg2: tensor<3xi64>, %arg3: tensor<f32>, %arg4: tensor<1x4x4x1xf32>, %arg5: tensor<3x3x1x1xf32>, %arg6: tensor<2x2xi64>, %arg7: tensor<5x1xi64>) {
    %0 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
    %1 = stablehlo.dynamic_reshape %arg0, %arg1 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>
    %2 = stablehlo.dynamic_broadcast_in_dim %arg0, %arg2, dims = [1, 2] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>
    %3 = stablehlo.dynamic_broadcast_in_dim %arg0, %arg2, dims = [1, 2] {known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<?x?x3xf32>
    %4 = stablehlo.dynamic_iota %arg1, dim = 0 : (tensor<2xi64>) -> tensor<4x5xi32>
    %5 = stablehlo.dynamic_pad %arg0, %arg3, %arg1, %arg1, %arg1 : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
    %6 = "stablehlo.dynamic_conv"(%arg4, %arg5, %arg6) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<1x4x4x1xf32>, tensor<3x3x1x1xf32>, tensor<2x2xi64>) -> tensor<1x?x?x1xf32>
    %7 = "stablehlo.dynamic_gather"(%arg0, %arg7, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<2x3xf32>, tensor<5x1xi64>, tensor<2xi64>) -> tensor<5x3xf32>
    return
  }
  func.func @linear_algebra(%arg0: tensor<2x2xcomplex<f32>>, %arg1: tensor<2x4xf32>) {
    %0 = stablehlo.fft %arg0, type = FFT, length = [2] : (tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
    %1 = stablehlo.fft %arg1, type = RFFT, length = [2, 4] : (tensor<2x4xf32>) -> tensor<2x3xcomplex<f32>>
    %2 = stablehlo.cholesky %arg0 : tensor<2x2xcomplex<f32>>
    %3 = stablehlo.cholesky %arg0, lower = true : tensor<2x2xcomplex<f32>>
    %4 = "stablehlo.triangular_solve"(%arg0, %arg0) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<2x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
    return
  }
}
