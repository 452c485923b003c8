#include "espalier/train/peak_flops.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>

#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "espalier/runtime/program.h"

namespace espalier {
namespace {

struct Part {
  std::string_view name;  // as of part_name
  double bf16, f32;       // FLOP/s; f32 as XLA runs it by default: TF32 on NVIDIA, bf16 on TPU
};
// Dense. NVIDIA: the data sheets of the parts, which print numbers "with sparsity", twice those
// here, for H100, H200 and L4, and both for A10, A100, L40 and L40S; H100 SXM and PCIe also the
// H100 architecture white paper. V100 is not here: it multiplies neither bf16 nor TF32. TPU: Google
// Cloud's pages of v4, v5e, v5p and v6e; the plugin calls v5e "v5 lite", v5p "v5", v6e "v6 lite".
constexpr Part kParts[] = {
    {"A10", 125e12, 62.5e12},        {"A100 PCIE", 312e12, 156e12},
    {"A100 SXM4", 312e12, 156e12},   {"H100 HBM3", 989.4e12, 494.7e12},
    {"H100 PCIE", 756e12, 378e12},   {"H100 NVL", 835e12, 417.5e12},
    {"H200", 989.4e12, 494.7e12},    {"H200 NVL", 835e12, 417.5e12},
    {"L4", 121e12, 60e12},           {"L40", 181e12, 90.5e12},
    {"L40S", 362e12, 183e12},        {"TPU V4", 275e12, 275e12},
    {"TPU V5 LITE", 197e12, 197e12}, {"TPU V5E", 197e12, 197e12},
    {"TPU V5", 459e12, 459e12},      {"TPU V5P", 459e12, 459e12},
    {"TPU V6 LITE", 918e12, 918e12}, {"TPU V6E", 918e12, 918e12},
};

bool is_memory(std::string_view word) {
  const size_t digits = word.find_first_not_of("0123456789");
  return digits > 0 && digits != std::string_view::npos && word.substr(digits) == "GB";
}

// The words of a device's kind that tell parts apart, in capitals: "NVIDIA A100-SXM4-80GB" is
// "A100 SXM4".
std::string part_name(std::string_view kind) {
  std::string out, word;
  const auto end_word = [&] {
    if (!word.empty() && word != "NVIDIA" && !is_memory(word)) {
      out += (out.empty() ? "" : " ") + word;
    }
    word.clear();
  };
  for (const char c : kind) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      word += static_cast<char>(std::toupper(byte));
    } else {
      end_word();
    }
  }
  end_word();
  return out;
}

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
  const std::string name = part_name(device_kind);
  for (const Part& part : kParts) {
    if (part.name == name) return dtype == DType::kBF16 ? part.bf16 : part.f32;
  }
  return 0;
}

double peak_flops(const Runtime& runtime, DType dtype) {
  if (runtime.client().platform_name() == "cpu") return measured_peak(runtime.options(), dtype);
  return published_peak_flops(runtime.devices().front()->kind(), dtype) *
         static_cast<double>(runtime.mesh().size());
}

}  // namespace espalier
