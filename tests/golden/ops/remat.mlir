module @remat attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>}> : (tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4xf32>)
    %1 = "stablehlo.tanh"(%0) : (tensor<4xf32>) -> (tensor<4xf32>)
    %2 = "stablehlo.exponential"(%arg1) : (tensor<4x4xf32>) -> (tensor<4x4xf32>)
    %3 = "stablehlo.dot_general"(%1, %2) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>}> : (tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4xf32>)
    return %3, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
