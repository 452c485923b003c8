module @sign attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xf32>) {
    %0 = "stablehlo.sign"(%arg0) : (tensor<6xf32>) -> (tensor<6xf32>)
    return %0 : tensor<6xf32>
  }
}
