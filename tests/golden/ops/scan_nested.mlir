module @scan_nested attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<0.000000000e+00> : tensor<3xf32>
    %2:4 = "stablehlo.while"(%0, %arg0, %arg1, %1) ({
    ^bb0(%3: tensor<i32>, %4: tensor<4xf32>, %5: tensor<3x4xf32>, %6: tensor<3xf32>):
      %7 = stablehlo.constant dense<3> : tensor<i32>
      %8 = "stablehlo.compare"(%3, %7) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%8) : (tensor<i1>) -> ()
    }, {
    ^bb0(%9: tensor<i32>, %10: tensor<4xf32>, %11: tensor<3x4xf32>, %12: tensor<3xf32>):
      %13 = stablehlo.constant dense<0> : tensor<i32>
      %14 = "stablehlo.dynamic_slice"(%11, %9, %13) <{slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %15 = "stablehlo.reshape"(%14) : (tensor<1x4xf32>) -> tensor<4xf32>
      %16 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
      %17 = "stablehlo.reduce"(%10, %16) <{dimensions = array<i64: 0>}> ({
      ^bb0(%18: tensor<f32>, %19: tensor<f32>):
        %20 = "stablehlo.add"(%18, %19) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%20) : (tensor<f32>) -> ()
      }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %21 = stablehlo.constant dense<1.000000015e-01> : tensor<f32>
      %22 = stablehlo.multiply %17, %21 : tensor<f32>
      %23 = stablehlo.constant dense<5.000000000e-01> : tensor<4xf32>
      %24 = stablehlo.multiply %10, %23 : tensor<4xf32>
      %25 = stablehlo.constant dense<0> : tensor<i32>
      %26:3 = "stablehlo.while"(%25, %22, %15) ({
      ^bb0(%27: tensor<i32>, %28: tensor<f32>, %29: tensor<4xf32>):
        %30 = stablehlo.constant dense<4> : tensor<i32>
        %31 = "stablehlo.compare"(%27, %30) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%31) : (tensor<i1>) -> ()
      }, {
      ^bb0(%32: tensor<i32>, %33: tensor<f32>, %34: tensor<4xf32>):
        %35 = stablehlo.constant dense<0> : tensor<i32>
        %36 = "stablehlo.dynamic_slice"(%34, %32) <{slice_sizes = array<i64: 1>}> : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
        %37 = "stablehlo.reshape"(%36) : (tensor<1xf32>) -> tensor<f32>
        %38 = stablehlo.multiply %37, %33 : tensor<f32>
        %39 = "stablehlo.sine"(%33) : (tensor<f32>) -> (tensor<f32>)
        %40 = stablehlo.add %39, %38 : tensor<f32>
        %41 = stablehlo.constant dense<1> : tensor<i32>
        %42 = "stablehlo.add"(%32, %41) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%42, %40, %34) : (tensor<i32>, tensor<f32>, tensor<4xf32>) -> ()
      }) : (tensor<i32>, tensor<f32>, tensor<4xf32>) -> (tensor<i32>, tensor<f32>, tensor<4xf32>)
      %43 = stablehlo.multiply %26#1, %21 : tensor<f32>
      %44 = "stablehlo.broadcast_in_dim"(%43) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<4xf32>)
      %45 = stablehlo.add %24, %44 : tensor<4xf32>
      %46 = stablehlo.constant dense<1> : tensor<i32>
      %47 = "stablehlo.add"(%9, %46) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %48 = "stablehlo.reshape"(%26#1) : (tensor<f32>) -> tensor<1xf32>
      %49 = "stablehlo.dynamic_update_slice"(%12, %48, %9) : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
      "stablehlo.return"(%47, %45, %11, %49) : (tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> ()
    }) : (tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3xf32>)
    return %2#1, %2#3 : tensor<4xf32>, tensor<3xf32>
  }
}
