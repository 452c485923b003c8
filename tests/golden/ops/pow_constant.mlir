module @pow_constant attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) {
    %0 = stablehlo.constant dense<2.000000000e+00> : tensor<6xf32>
    %1 = stablehlo.power %arg0, %0 : tensor<6xf32>
    %2 = stablehlo.constant dense<3.000000000e+00> : tensor<6xf32>
    %3 = stablehlo.constant dense<0.000000000e+00> : tensor<6xf32>
    %4 = stablehlo.subtract %arg0, %arg0 : tensor<6xf32>
    %5 = stablehlo.power %4, %2 : tensor<6xf32>
    %6 = stablehlo.power %4, %3 : tensor<6xf32>
    return %1, %5, %6 : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
  }
}
