module @and_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xi32>, %arg1: tensor<8xi32>) -> (tensor<8xi32>) {
    %0 = stablehlo.and %arg0, %arg1 : tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}
