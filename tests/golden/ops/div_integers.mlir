module @div_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xi32>, %arg1: tensor<8xi32>) -> (tensor<8xi32>) {
    %0 = stablehlo.constant dense<1> : tensor<8xi32>
    %1 = stablehlo.or %arg1, %0 : tensor<8xi32>
    %2 = stablehlo.divide %arg0, %1 : tensor<8xi32>
    return %2 : tensor<8xi32>
  }
}
