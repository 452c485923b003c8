module @pow_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xi32>) -> (tensor<8xi32>) {
    %0 = stablehlo.constant dense<3> : tensor<8xi32>
    %1 = stablehlo.power %arg0, %0 : tensor<8xi32>
    return %1 : tensor<8xi32>
  }
}
