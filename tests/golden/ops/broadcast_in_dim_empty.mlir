module @broadcast_in_dim_empty attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1xf32>) -> (tensor<0xf32>, tensor<0x1xf32>) {
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0>}> : (tensor<1xf32>) -> (tensor<0xf32>)
    %1 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<1xf32>) -> (tensor<0x1xf32>)
    return %0, %1 : tensor<0xf32>, tensor<0x1xf32>
  }
}
