#include "espalier/train/peak_flops.h"

#include <algorithm>
#include <chrono>

#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "espalier/runtime/program.h"

namespace espalier {
namespace {

struct Part {
  std::string_view kind;  // begins the plugin's name of the device, or stands in it
  double bf16, f32;       // FLOP/s; f32 as XLA runs it by default: TF32 on NVIDIA, bf16 on TPU
};
// Dense, without sparsity. NVIDIA: the data sheets of A100, H100 (SXM), H200 and L4; Google Cloud's
// pages of TPU v4, v5e, v5p and v6e.
constexpr Part kParts[] = {
    {"H200", 989.4e12, 494.7e12},    {"H100", 989.4e12, 494.7e12}, {"A100", 312e12, 156e12},
    {"L4", 121e12, 60e12},           {"TPU v6", 918e12, 918e12},   {"TPU v5p", 459e12, 459e12},
    {"TPU v5 lite", 197e12, 197e12}, {"TPU v5e", 197e12, 197e12},  {"TPU v5", 459e12, 459e12},
    {"TPU v4", 275e12, 275e12},
};

// By products of square matrices on one CPU device, which uses all of the machine's threads.
double measured_peak(const RuntimeOptions& given, DType dtype) {
  constexpr int64_t kSize = 1536;
  constexpr int kRuns = 3;
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
  for (const Part& part : kParts) {
    if (device_kind.find(part.kind) != std::string_view::npos) {
      return dtype == DType::kBF16 ? part.bf16 : part.f32;
    }
  }
  return 0;
}

double peak_flops(const Runtime& runtime, DType dtype) {
  if (runtime.client().platform_name() == "cpu") return measured_peak(runtime.options(), dtype);
  return published_peak_flops(runtime.devices().front()->kind(), dtype) *
         static_cast<double>(runtime.mesh().size());
}

}  // namespace espalier
