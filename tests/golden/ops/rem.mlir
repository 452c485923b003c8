module @rem attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
    %0 = stablehlo.constant dense<3.000000000e+00> : tensor<2x3xf32>
    %1 = stablehlo.add %arg1, %0 : tensor<2x3xf32>
    %2 = stablehlo.constant dense<5.000000000e+00> : tensor<2x3xf32>
    %3 = stablehlo.multiply %arg0, %2 : tensor<2x3xf32>
    %4 = stablehlo.remainder %3, %1 : tensor<2x3xf32>
    return %4 : tensor<2x3xf32>
  }
}
