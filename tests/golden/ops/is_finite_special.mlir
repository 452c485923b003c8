module @is_finite_special attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xi1>, tensor<6xi1>) {
    %0 = stablehlo.constant dense<0x7F800000> : tensor<6xf32>
    %1 = "stablehlo.is_finite"(%0) : (tensor<6xf32>) -> (tensor<6xi1>)
    %2 = stablehlo.subtract %arg0, %0 : tensor<6xf32>
    %3 = stablehlo.add %2, %0 : tensor<6xf32>
    %4 = "stablehlo.is_finite"(%3) : (tensor<6xf32>) -> (tensor<6xi1>)
    return %1, %4 : tensor<6xi1>, tensor<6xi1>
  }
}
