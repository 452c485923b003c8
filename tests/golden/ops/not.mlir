module @not attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xi1>) -> (tensor<8xi1>) {
    %0 = "stablehlo.not"(%arg0) : (tensor<8xi1>) -> (tensor<8xi1>)
    return %0 : tensor<8xi1>
  }
}
