module @top_k_rank_1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xi32>) {
    %0:2 = chlo.top_k(%arg0, k = 5) : tensor<5xf32> -> (tensor<5xf32>, tensor<5xi32>)
    %1 = stablehlo.constant dense<2.000000000e+00> : tensor<5xf32>
    %2 = stablehlo.multiply %0#0, %1 : tensor<5xf32>
    return %2, %0#1 : tensor<5xf32>, tensor<5xi32>
  }
}
