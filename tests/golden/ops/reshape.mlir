module @reshape attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>) -> (tensor<4x6xf32>, tensor<1x24x1xf32>) {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<2x3x4xf32>) -> (tensor<4x6xf32>)
    %1 = "stablehlo.reshape"(%arg0) : (tensor<2x3x4xf32>) -> (tensor<1x24x1xf32>)
    return %0, %1 : tensor<4x6xf32>, tensor<1x24x1xf32>
  }
}
