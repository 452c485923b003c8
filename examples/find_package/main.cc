// Uses the installed library: traces a function, differentiates it and prints it as StableHLO; runs
// it where the CPU plugin is found.
#include <cstdio>

#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"
#include "espalier/transform/module.h"

using namespace espalier;

int main() {
  // w (3, 1) and x (2, 3) -> the mean of (x w)^2 and its gradient with respect to w.
  const Function function =
      trace({{DType::kF32, {3, 1}}, {DType::kF32, {2, 3}}}, [](const Tensors& in) {
        const Tensor y = matmul(in[1], in[0]);
        const ValueAndGrad vg = value_and_grad(mean(y * y, {0, 1}), {in[0]});
        return Tensors{vg.value, vg.grads[0]};
      });
  std::printf("%s\n", to_stablehlo(function, {}).c_str());

  const auto runtime = Runtime::create({});
  if (!runtime) {
    std::printf("not run: %s\n", runtime.failure().message.c_str());
    return runtime.failure().code == Code::kNotFound ? 0 : 1;
  }
  const auto w = HostArray::from<float>({3, 1}, {1, 2, 3});
  const auto x = HostArray::from<float>({2, 3}, {1, 0, 0, 0, 1, 1});
  const auto results = run_once(*runtime, function, {w, x}).value_or_throw();
  const auto grad = results[1].as<float>();
  std::printf("value %g, gradient [%g, %g, %g]\n", results[0].as<float>()[0], grad[0], grad[1],
              grad[2]);
}
