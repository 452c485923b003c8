module @reduce_extremes_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x5xi32>, %arg1: tensor<2x5xui32>, %arg2: tensor<2x5xi8>, %arg3: tensor<2x5xi1>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xui32>, tensor<2xui32>, tensor<2xi8>, tensor<2xi8>, tensor<2xi1>, tensor<2xi1>) {
    %0 = stablehlo.constant dense<-2147483648> : tensor<i32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%2: tensor<i32>, %3: tensor<i32>):
      %4 = "stablehlo.maximum"(%2, %3) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%4) : (tensor<i32>) -> ()
    }) : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    %5 = stablehlo.constant dense<2147483647> : tensor<i32>
    %6 = "stablehlo.reduce"(%arg0, %5) <{dimensions = array<i64: 1>}> ({
    ^bb0(%7: tensor<i32>, %8: tensor<i32>):
      %9 = "stablehlo.minimum"(%7, %8) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%9) : (tensor<i32>) -> ()
    }) : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    %10 = stablehlo.constant dense<0> : tensor<ui32>
    %11 = "stablehlo.reduce"(%arg1, %10) <{dimensions = array<i64: 1>}> ({
    ^bb0(%12: tensor<ui32>, %13: tensor<ui32>):
      %14 = "stablehlo.maximum"(%12, %13) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%14) : (tensor<ui32>) -> ()
    }) : (tensor<2x5xui32>, tensor<ui32>) -> tensor<2xui32>
    %15 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %16 = "stablehlo.reduce"(%arg1, %15) <{dimensions = array<i64: 1>}> ({
    ^bb0(%17: tensor<ui32>, %18: tensor<ui32>):
      %19 = "stablehlo.minimum"(%17, %18) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%19) : (tensor<ui32>) -> ()
    }) : (tensor<2x5xui32>, tensor<ui32>) -> tensor<2xui32>
    %20 = stablehlo.constant dense<-128> : tensor<i8>
    %21 = "stablehlo.reduce"(%arg2, %20) <{dimensions = array<i64: 1>}> ({
    ^bb0(%22: tensor<i8>, %23: tensor<i8>):
      %24 = "stablehlo.maximum"(%22, %23) : (tensor<i8>, tensor<i8>) -> tensor<i8>
      "stablehlo.return"(%24) : (tensor<i8>) -> ()
    }) : (tensor<2x5xi8>, tensor<i8>) -> tensor<2xi8>
    %25 = stablehlo.constant dense<127> : tensor<i8>
    %26 = "stablehlo.reduce"(%arg2, %25) <{dimensions = array<i64: 1>}> ({
    ^bb0(%27: tensor<i8>, %28: tensor<i8>):
      %29 = "stablehlo.minimum"(%27, %28) : (tensor<i8>, tensor<i8>) -> tensor<i8>
      "stablehlo.return"(%29) : (tensor<i8>) -> ()
    }) : (tensor<2x5xi8>, tensor<i8>) -> tensor<2xi8>
    %30 = stablehlo.constant dense<false> : tensor<i1>
    %31 = "stablehlo.reduce"(%arg3, %30) <{dimensions = array<i64: 1>}> ({
    ^bb0(%32: tensor<i1>, %33: tensor<i1>):
      %34 = "stablehlo.maximum"(%32, %33) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%34) : (tensor<i1>) -> ()
    }) : (tensor<2x5xi1>, tensor<i1>) -> tensor<2xi1>
    %35 = stablehlo.constant dense<true> : tensor<i1>
    %36 = "stablehlo.reduce"(%arg3, %35) <{dimensions = array<i64: 1>}> ({
    ^bb0(%37: tensor<i1>, %38: tensor<i1>):
      %39 = "stablehlo.minimum"(%37, %38) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%39) : (tensor<i1>) -> ()
    }) : (tensor<2x5xi1>, tensor<i1>) -> tensor<2xi1>
    return %1, %6, %11, %16, %21, %26, %31, %36 : tensor<2xi32>, tensor<2xi32>, tensor<2xui32>, tensor<2xui32>, tensor<2xi8>, tensor<2xi8>, tensor<2xi1>, tensor<2xi1>
  }
}
