module @shard_on_mesh attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func public @main(%arg0: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
    %0 = stablehlo.constant dense<2.000000000e+00> : tensor<4x2xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<4x2xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"a"}, {}]> : tensor<4x2xf32>
    %3 = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]> : tensor<4x2xf32>
    return %2, %3 : tensor<4x2xf32>, tensor<4x2xf32>
  }
}
