module @scan_counting attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<3xi32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.constant dense<0> : tensor<3xi32>
    %3:4 = "stablehlo.while"(%1, %0, %arg0, %2) ({
    ^bb0(%4: tensor<i32>, %5: tensor<i32>, %6: tensor<4xf32>, %7: tensor<3xi32>):
      %8 = stablehlo.constant dense<3> : tensor<i32>
      %9 = "stablehlo.compare"(%4, %8) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%9) : (tensor<i1>) -> ()
    }, {
    ^bb0(%10: tensor<i32>, %11: tensor<i32>, %12: tensor<4xf32>, %13: tensor<3xi32>):
      %14 = stablehlo.constant dense<0> : tensor<i32>
      %15 = "stablehlo.convert"(%11) : (tensor<i32>) -> (tensor<f32>)
      %16 = stablehlo.constant dense<1.000000000e+00> : tensor<f32>
      %17 = stablehlo.add %15, %16 : tensor<f32>
      %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<4xf32>)
      %19 = stablehlo.multiply %12, %18 : tensor<4xf32>
      %20 = stablehlo.constant dense<1> : tensor<i32>
      %21 = stablehlo.add %11, %20 : tensor<i32>
      %22 = stablehlo.constant dense<1> : tensor<i32>
      %23 = "stablehlo.add"(%10, %22) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %24 = "stablehlo.reshape"(%11) : (tensor<i32>) -> tensor<1xi32>
      %25 = "stablehlo.dynamic_update_slice"(%13, %24, %10) : (tensor<3xi32>, tensor<1xi32>, tensor<i32>) -> tensor<3xi32>
      "stablehlo.return"(%23, %21, %19, %25) : (tensor<i32>, tensor<i32>, tensor<4xf32>, tensor<3xi32>) -> ()
    }) : (tensor<i32>, tensor<i32>, tensor<4xf32>, tensor<3xi32>) -> (tensor<i32>, tensor<i32>, tensor<4xf32>, tensor<3xi32>)
    return %3#1, %3#2, %3#3 : tensor<i32>, tensor<4xf32>, tensor<3xi32>
  }
}
