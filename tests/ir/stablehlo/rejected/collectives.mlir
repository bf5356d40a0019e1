// all_reduce groups rank
// expected-error {{replica groups should be a rank 2 tensor}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[0, 1]> : tensor<2xi64>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce groups elements
// expected-error {{attribute 'replica_groups' failed to satisfy constraint: 64-bit signless integer elements attribute or mesh and axes based replica groups representation.}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi32>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce unique ids
// expected-error {{replica id #0 seen more than once}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce ids without gaps
// expected-error {{replica id #1 not seen in replica groups}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 2]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce global ids need groups
// expected-error {{if `use_global_device_ids` is set, the replica groups cannot be empty}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<> : tensor<0x2xi64>, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce global ids need a channel
// expected-error {{channel_id must be positive when useGlobalDeviceIds is set but got: 0}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce shape
// expected-error {{inferred type(s) 'tensor<4x4xi64>' are incompatible with return type(s) of operation 'tensor<4x5xi64>'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x5xi64>
  return
}

// -----

// all_reduce body parameters
// expected-error {{Reduction-region must take 2 parameters, but takes 1 parameter(s)}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce body elements
// expected-error {{The element-type of reduction-region's result type at index 0 is expected to be promotable from the op's corresponding init-value element-type: 'tensor<i32>' vs 'tensor<i64>'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_reduce result of another kind
// expected-error {{inferred type(s) 'tensor<4x4xi64>' are incompatible with return type(s) of operation 'tensor<4x4xf32>'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x4xf32>
  return
}

// -----

// reduce_scatter dimension
// expected-error {{attribute 'scatter_dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = -1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x2xi64>
  return
}

// -----

// reduce_scatter dimension in range
// expected-error {{scatter dim should be less than operand/result rank}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 2 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x2xi64>
  return
}

// -----

// reduce_scatter multiple
// expected-error {{operand scatter dimension has size 4, expected to be a multiple of result scatter dimension size 3}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x3xi64>
  return
}

// -----

// reduce_scatter other dimensions
// expected-error {{non scatter dimensions should be same for operand (4) and result (3)}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<3x2xi64>
  return
}

// -----

// reduce_scatter rank
// expected-error {{operand and result should have same rank}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<2xi64>
  return
}

// -----

// reduce_scatter empty result
// expected-error {{result dimension size at scatter_dimension cannot be zero}}
func.func @main(%x: tensor<4x0xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x0xi64>) -> tensor<4x0xi64>
  return
}

// -----

// reduce_scatter empty operand
// expected-error {{operand dimension size at scatter_dimension cannot be zero}}
func.func @main(%x: tensor<4x0xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x0xi64>) -> tensor<4x2xi64>
  return
}

// -----

// reduce_scatter equal groups
// expected-error {{Invalid replica id -1}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x2xi64>
  return
}

// -----

// reduce_scatter global ids need a channel
// expected-error {{channel_id must be positive when useGlobalDeviceIds is set but got: 0}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x2xi64>
  return
}

// -----

// reduce_scatter elements
// expected-error {{result element-type is expected to be 'i64', but got 'f32'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<4x4xi64>) -> tensor<4x2xf32>
  return
}

// -----

// all_gather dimension
// expected-error {{attribute 'all_gather_dim' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = -1 : i64}> : (tensor<4x4xi64>) -> tensor<4x8xi64>
  return
}

// -----

// all_gather dimension in range
// expected-error {{all_gather_dim must be a valid index of operand}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x8xi64>
  return
}

// -----

// all_gather empty dimension
// expected-error {{dimension size of operand at 'all_gather_dim' cannot be zero}}
func.func @main(%x: tensor<4x0xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x0xi64>) -> tensor<4x8xi64>
  return
}

// -----

// all_gather elements
// expected-error {{requires the same element type for operand and result at index 0}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x4xi64>) -> tensor<4x8xi32>
  return
}

// -----

// all_gather multiple
// expected-error {{result gather dimension has size 9, expected to be a multiple of operand gather dimension size 4}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x4xi64>) -> tensor<4x9xi64>
  return
}

// -----

// all_gather other dimensions
// expected-error {{operand and result should have the same shape except for the dimension size at 'all_gather_dim'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x4xi64>) -> tensor<5x8xi64>
  return
}

// -----

// all_gather rank
// expected-error {{operand and result must have the same rank}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x4xi64>) -> tensor<4x8x1xi64>
  return
}

// -----

// all_gather equal groups
// expected-error {{Invalid replica id -1}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_gather"(%x) <{replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x4xi64>) -> tensor<4x8xi64>
  return
}

// -----

// all_to_all split dimension
// expected-error {{attribute 'split_dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = -1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all concat dimension
// expected-error {{attribute 'concat_dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 0 : i64, concat_dimension = -1 : i64, split_count = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all split dimension in range
// expected-error {{AllToAll split_dimension 2 is out-of-bounds for input rank 2}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 2 : i64, concat_dimension = 0 : i64, split_count = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all concat dimension in range
// expected-error {{AllToAll concat_dimension 2 is out-of-bounds for input rank 2}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 0 : i64, concat_dimension = 2 : i64, split_count = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all split count
// expected-error {{attribute 'split_count' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 0 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all group size
// expected-error {{group size of replica_groups must be 2}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all multiple
// expected-error {{split dimension has size 4, expected to be a multiple of split_count 3}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 3 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// all_to_all result
// expected-error {{inferred type(s) 'tensor<8x2xi64>' are incompatible with return type(s) of operation 'tensor<4x4xi64>'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.all_to_all"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_permute rank
// expected-error {{expect source_target_pairs attribute to be of rank 2, but got rank 1}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[0, 1]> : tensor<2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_permute pairs
// expected-error {{expect source_target_pairs attribute of shape (N, 2), but got (1, 3)}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_permute negative
// expected-error {{replica ids in source_target_pairs must be >= 0.}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_permute sources
// expected-error {{duplicate sources not allowed.}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_permute targets
// expected-error {{duplicate targets not allowed.}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [2, 1]]> : tensor<2x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_permute elements
// expected-error {{requires the same element type for all operands and results}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi32>
  return
}

// -----

// collective_permute shape
// expected-error {{inferred type(s) 'tensor<4x4xi64>' are incompatible with return type(s) of operation 'tensor<4x5xi64>'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x5xi64>
  return
}

// -----

// collective_broadcast groups rank
// expected-error {{replica groups should be a rank 2 tensor,but instead it is of rank 1}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[0, 1]> : tensor<2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_broadcast negative
// expected-error {{replica_groups values must be positive, but was given -1}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_broadcast unique
// expected-error {{replica id #1 seen more than once}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[1, 1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi64>
  return
}

// -----

// collective_broadcast elements
// expected-error {{requires the same element type for all operands and results}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x4xi32>
  return
}

// -----

// collective_broadcast shape
// expected-error {{inferred type(s) 'tensor<4x4xi64>' are incompatible with return type(s) of operation 'tensor<4x5xi64>'}}
func.func @main(%x: tensor<4x4xi64>) {
  %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x4xi64>) -> tensor<4x5xi64>
  return
}

// -----

// partition_id type
// expected-error {{result #0 must be ranked tensor of 32-bit unsigned integer values, but got 'tensor<i32>'}}
func.func @main() {
  %0 = stablehlo.partition_id : tensor<i32>
  return
}

// -----

// partition_id shape
// expected-error {{inferred type(s) 'tensor<ui32>' are incompatible with return type(s) of operation 'tensor<2xui32>'}}
func.func @main() {
  %0 = stablehlo.partition_id : tensor<2xui32>
  return
}

// -----

// replica_id type
// expected-error {{result #0 must be ranked tensor of 32-bit unsigned integer values, but got 'tensor<i32>'}}
func.func @main() {
  %0 = stablehlo.replica_id : tensor<i32>
  return
}

// -----

// send with the host
// expected-error {{channel_type should be DEVICE_TO_HOST when is_host_transfer is true}}
func.func @main(%x: tensor<i64>, %t: !stablehlo.token) {
  %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}> : (tensor<i64>, !stablehlo.token) -> !stablehlo.token
  return
}

// -----

// send between devices
// expected-error {{channel_type should be DEVICE_TO_DEVICE when is_host_transfer is false}}
func.func @main(%x: tensor<i64>, %t: !stablehlo.token) {
  %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>}> : (tensor<i64>, !stablehlo.token) -> !stablehlo.token
  return
}

// -----

// recv with the host
// expected-error {{channel_type should be HOST_TO_DEVICE when is_host_transfer is true}}
func.func @main(%t: !stablehlo.token) {
  %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<i64>, !stablehlo.token)
  return
}

// -----

// recv results
// expected-error {{everything but the last element of result types is expected to be of tensor type, but got '!stablehlo.token'}}
func.func @main(%t: !stablehlo.token) {
  %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (!stablehlo.token, !stablehlo.token)
  return
}

// -----

// infeed token
// expected-error {{last element of result types is expected to be of token type, but got 'tensor<i64>'}}
func.func @main(%t: !stablehlo.token) {
  %0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<i64>, tensor<i64>)
  return
}

// -----

// infeed results
// expected-error {{result is expected to be at least of size 1, but got 0}}
func.func @main(%t: !stablehlo.token) {
  "stablehlo.infeed"(%t) : (!stablehlo.token) -> ()
  return
}
