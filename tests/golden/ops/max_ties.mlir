module @max_ties attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
    %0 = stablehlo.maximum %arg0, %arg0 : tensor<6xf32>
    %1 = stablehlo.minimum %arg0, %arg0 : tensor<6xf32>
    return %0, %1 : tensor<6xf32>, tensor<6xf32>
  }
}
