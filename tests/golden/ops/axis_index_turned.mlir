module @axis_index_turned attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["b"=4, "a"=2]>
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<2x4xf32>) -> (tensor<4x4xf32>) {
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> (tensor<2xi32>)
    %1 = sdy.manual_computation(%arg0, %arg1, %0) in_shardings=[<@mesh, [{"a", ?}, {?}]>, <@mesh, [{?}, {?}]>, <@mesh, [{"a", ?}]>] out_shardings=[<@mesh, [{"a", ?}, {?}]>] manual_axes={"a"} (%2: tensor<2x4xf32>, %3: tensor<2x4xf32>, %4: tensor<1xi32>) {
      %5 = "stablehlo.reshape"(%4) : (tensor<1xi32>) -> (tensor<i32>)
      %6 = "stablehlo.convert"(%5) : (tensor<i32>) -> (tensor<f32>)
      %7 = stablehlo.constant dense<1.000000000e+00> : tensor<f32>
      %8 = stablehlo.add %6, %7 : tensor<f32>
      %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<2x4xf32>)
      %10 = stablehlo.multiply %2, %9 : tensor<2x4xf32>
      %11 = stablehlo.multiply %10, %9 : tensor<2x4xf32>
      %12 = stablehlo.add %11, %3 : tensor<2x4xf32>
      sdy.return %12 : tensor<2x4xf32>
    } : (tensor<4x4xf32>, tensor<2x4xf32>, tensor<2xi32>) -> (tensor<4x4xf32>)
    return %1 : tensor<4x4xf32>
  }
}
