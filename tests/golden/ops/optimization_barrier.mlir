module @optimization_barrier attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0:2 = "stablehlo.optimization_barrier"(%arg0, %arg1) : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
    %1 = "stablehlo.broadcast_in_dim"(%0#1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<4xf32>)
    %2 = stablehlo.multiply %0#0, %1 : tensor<4xf32>
    %3 = "stablehlo.optimization_barrier"(%arg0) : (tensor<4xf32>) -> (tensor<4xf32>)
    return %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
}
