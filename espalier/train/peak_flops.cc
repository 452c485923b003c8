#include "espalier/train/peak_flops.h"

#include <algorithm>
#include <chrono>

#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "espalier/runtime/program.h"
#include "espalier/train/machines.h"

namespace espalier {
namespace {

// By products of square matrices on one CPU device, which uses all of the machine's threads.
double measured_peak(const RuntimeOptions& given, DType dtype) {
  constexpr int64_t kSize = 1536;
  constexpr int kRuns = 5;
  RuntimeOptions options = given;
  options.mesh = Mesh();
  options.devices = 1;
  const Result<std::shared_ptr<Runtime>> runtime = Runtime::create(std::move(options));
  if (!runtime) return 0;
  ProgramSpec spec;
  spec.name = "peak";
  const TensorType square{dtype, {kSize, kSize}};
  spec.arguments = {{"a", make_layout(square)}};
  spec.trace([](const Tensors& in) { return Tensors{matmul(in[0], in[0])}; });
  spec.results = {{}};
  Result<Program> program = compile(*runtime, std::move(spec));
  Result<DeviceArray> a = DeviceArray::from_host(*runtime, HostArray(dtype, square.dims), {});
  if (!program || !a) return 0;
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto out = program->run({&*a});
    if (!out || !out->at(0).to_host()) return 0;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds.count());
  }
  return best;
}

}  // namespace

double published_peak_flops(std::string_view device_kind, DType dtype) {
  const Machine* machine = find_machine(device_kind);
  return machine == nullptr ? 0 : machine->flops(dtype);
}

double peak_flops(const Runtime& runtime, DType dtype) {
  if (runtime.client().platform_name() == "cpu") return measured_peak(runtime.options(), dtype);
  return published_peak_flops(runtime.devices().front()->kind(), dtype) *
         static_cast<double>(runtime.mesh().size());
}

}  // namespace espalier
