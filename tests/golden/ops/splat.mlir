module @splat attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<2xf32>, tensor<f64>, tensor<f32>, tensor<2xi32>, tensor<ui32>, tensor<ui64>, tensor<2xi1>, tensor<2xbf16>, tensor<0x2xf32>) {
    %0 = stablehlo.constant dense<1.000000015e-01> : tensor<2xf32>
    %1 = stablehlo.constant dense<1.00000000000000003e-300> : tensor<f64>
    %2 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %3 = stablehlo.constant dense<-7> : tensor<2xi32>
    %4 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %5 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %6 = stablehlo.constant dense<true> : tensor<2xi1>
    %7 = stablehlo.constant dense<1.500000000e+00> : tensor<2xbf16>
    %8 = stablehlo.constant dense<1.000000000e+00> : tensor<0x2xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2xf32>, tensor<f64>, tensor<f32>, tensor<2xi32>, tensor<ui32>, tensor<ui64>, tensor<2xi1>, tensor<2xbf16>, tensor<0x2xf32>
  }
}
