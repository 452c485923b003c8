module @broadcast_in_dim attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x1xf32>) -> (tensor<3x2x4xf32>, tensor<3x1x2xf32>, tensor<2x3x2xf32>) {
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<3x1xf32>) -> (tensor<3x2x4xf32>)
    %1 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<3x1xf32>) -> (tensor<3x1x2xf32>)
    %2 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<3x1xf32>) -> (tensor<2x3x2xf32>)
    return %0, %1, %2 : tensor<3x2x4xf32>, tensor<3x1x2xf32>, tensor<2x3x2xf32>
  }
}
