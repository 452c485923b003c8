module @constant attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<2x2xf32>, tensor<3xi32>, tensor<1xi64>, tensor<1xui32>, tensor<f64>, tensor<i1>, tensor<2x0xf32>) {
    %0 = stablehlo.constant dense<[[1.000000000e+00, -2.500000000e+00], [1.000000015e-01, 0xFF800000]]> : tensor<2x2xf32>
    %1 = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi32>
    %2 = stablehlo.constant dense<[1099511627776]> : tensor<1xi64>
    %3 = stablehlo.constant dense<[4294967295]> : tensor<1xui32>
    %4 = stablehlo.constant dense<3.33333333333333315e-01> : tensor<f64>
    %5 = stablehlo.constant dense<true> : tensor<i1>
    %6 = stablehlo.constant dense<[[], []]> : tensor<2x0xf32>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<2x2xf32>, tensor<3xi32>, tensor<1xi64>, tensor<1xui32>, tensor<f64>, tensor<i1>, tensor<2x0xf32>
  }
}
