module @ring attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=4]>
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<1x4xf32>) -> (tensor<4x4xf32>) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%1: tensor<1x4xf32>, %2: tensor<1x4xf32>) {
      %3 = stablehlo.constant dense<0> : tensor<i32>
      %4:4 = "stablehlo.while"(%3, %2, %1, %1) ({
      ^bb0(%5: tensor<i32>, %6: tensor<1x4xf32>, %7: tensor<1x4xf32>, %8: tensor<1x4xf32>):
        %9 = stablehlo.constant dense<4> : tensor<i32>
        %10 = "stablehlo.compare"(%5, %9) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%10) : (tensor<i1>) -> ()
      }, {
      ^bb0(%11: tensor<i32>, %12: tensor<1x4xf32>, %13: tensor<1x4xf32>, %14: tensor<1x4xf32>):
        %15 = stablehlo.constant dense<0> : tensor<i32>
        %16 = "stablehlo.sine"(%14) : (tensor<1x4xf32>) -> (tensor<1x4xf32>)
        %17 = "stablehlo.collective_permute"(%14) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<1x4xf32>) -> (tensor<1x4xf32>)
        %18 = stablehlo.multiply %16, %12 : tensor<1x4xf32>
        %19 = stablehlo.add %13, %18 : tensor<1x4xf32>
        %20 = stablehlo.constant dense<1> : tensor<i32>
        %21 = "stablehlo.add"(%11, %20) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%21, %12, %19, %17) : (tensor<i32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> ()
      }) : (tensor<i32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> (tensor<i32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>)
      sdy.return %4#2 : tensor<1x4xf32>
    } : (tensor<4x4xf32>, tensor<1x4xf32>) -> (tensor<4x4xf32>)
    return %0 : tensor<4x4xf32>
  }
}
