module @dot_general_orders attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x2x3x2x1xf32>, %arg1: tensor<3x5x2x4xf32>) -> (tensor<2x2x1x5xf32>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [3], rhs_batching_dimensions = [2], lhs_contracting_dimensions = [0, 2], rhs_contracting_dimensions = [3, 0]>}> : (tensor<4x2x3x2x1xf32>, tensor<3x5x2x4xf32>) -> (tensor<2x2x1x5xf32>)
    return %0 : tensor<2x2x1x5xf32>
  }
}
