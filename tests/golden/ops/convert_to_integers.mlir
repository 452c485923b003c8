module @convert_to_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xi32>, tensor<6xi1>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<6xf32>) -> (tensor<6xi32>)
    %1 = "stablehlo.convert"(%arg0) : (tensor<6xf32>) -> (tensor<6xi1>)
    return %0, %1 : tensor<6xi32>, tensor<6xi1>
  }
}
