module @reduce_or attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x5xi1>, %arg1: tensor<2x5xi32>, %arg2: tensor<2x5xui32>) -> (tensor<2xi1>, tensor<2xi32>, tensor<2xui32>) {
    %0 = stablehlo.constant dense<false> : tensor<i1>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%2: tensor<i1>, %3: tensor<i1>):
      %4 = "stablehlo.or"(%2, %3) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%4) : (tensor<i1>) -> ()
    }) : (tensor<2x5xi1>, tensor<i1>) -> tensor<2xi1>
    %5 = stablehlo.constant dense<0> : tensor<i32>
    %6 = "stablehlo.reduce"(%arg1, %5) <{dimensions = array<i64: 1>}> ({
    ^bb0(%7: tensor<i32>, %8: tensor<i32>):
      %9 = "stablehlo.or"(%7, %8) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%9) : (tensor<i32>) -> ()
    }) : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    %10 = stablehlo.constant dense<0> : tensor<ui32>
    %11 = "stablehlo.reduce"(%arg2, %10) <{dimensions = array<i64: 1>}> ({
    ^bb0(%12: tensor<ui32>, %13: tensor<ui32>):
      %14 = "stablehlo.or"(%12, %13) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%14) : (tensor<ui32>) -> ()
    }) : (tensor<2x5xui32>, tensor<ui32>) -> tensor<2xui32>
    return %1, %6, %11 : tensor<2xi1>, tensor<2xi32>, tensor<2xui32>
  }
}
