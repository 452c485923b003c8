module @scan_of_nothing attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<0x4xf32>) -> (tensor<4xf32>, tensor<0x4xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<0.000000000e+00> : tensor<0x4xf32>
    return %arg0, %1 : tensor<4xf32>, tensor<0x4xf32>
  }
}
