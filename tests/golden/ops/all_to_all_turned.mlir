module @all_to_all_turned attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["b"=4, "a"=2]>
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<2x4xf32>) -> (tensor<4x4xf32>) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"a", ?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{?}, {"a", ?}]>] manual_axes={"a"} (%1: tensor<2x4xf32>, %2: tensor<2x4xf32>) {
      %3 = stablehlo.multiply %1, %2 : tensor<2x4xf32>
      %4 = "stablehlo.all_to_all"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<2x4xf32>) -> (tensor<4x2xf32>)
      %5 = stablehlo.multiply %4, %4 : tensor<4x2xf32>
      sdy.return %5 : tensor<4x2xf32>
    } : (tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<4x4xf32>)
    return %0 : tensor<4x4xf32>
  }
}
