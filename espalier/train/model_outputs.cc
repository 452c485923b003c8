#include "espalier/train/model_outputs.h"

#include <algorithm>
#include <cstring>

#include "espalier/ops/elementwise.h"
#include "espalier/transform/grad.h"

namespace espalier {
namespace {

constexpr int32_t kIgnored = -1;  // no id: marks targets of rows that are added

// The same rows, then rows of `fill`.
HostArray with_rows(const HostArray& array, int64_t rows, int32_t fill) {
  HostArray out(DType::kS32, {rows, array.dims()[1]});
  const auto from = array.as<int32_t>();
  const auto to = out.as<int32_t>();
  std::copy(from.begin(), from.end(), to.begin());
  std::fill(to.begin() + static_cast<int64_t>(from.size()), to.end(), fill);
  return out;
}

// The first `dims` of each dim of an f32 array, from row-major bytes of shape `padded`.
HostArray cut(const float* from, const Dims& padded, const Dims& dims) {
  HostArray out(DType::kF32, dims);
  const auto copy = [&](uint64_t at, uint64_t to, uint64_t bytes) -> Status {
    std::memcpy(out.data() + to, reinterpret_cast<const std::byte*>(from) + at, bytes);
    return {};
  };
  for_each_run({"", DType::kF32, padded}, Dims(dims.size(), 0), dims, copy).value_or_throw();
  return out;
}

void add_gradient(const ParamSpec& spec, const HostArray& array, ModelOutputs& out) {
  const StoredArray stored = stored_param(spec);
  Dims padded = array.dims();
  if (stored.stacked) padded.erase(padded.begin());
  for (size_t i = 0; i < stored.names.size(); ++i) {
    const float* from = array.as<float>().data() + i * static_cast<size_t>(num_elements(padded));
    const HostArray layer = cut(from, padded, stored.dims);
    out.gradients.emplace_back(
        stored.names[i], stored.stored_dims.empty() ? layer : layer.reshaped(stored.stored_dims));
  }
}

}  // namespace

int64_t padded_rows(int64_t rows, const ShardingRules& rules, const Mesh& mesh) {
  const int64_t parts = mesh.size(rules.resolve({"batch"}, mesh).at(0));
  return (rows + parts - 1) / parts * parts;
}

Result<ModelOutputs> model_outputs(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                                   std::span<DeviceArray* const> params, const HostArray& tokens,
                                   const HostArray& targets) {
  if (tokens.dims().size() != 2 || tokens.dims() != targets.dims()) {
    throw Error("model_outputs needs tokens and targets (B, T), got " + to_string(tokens.dims()) +
                " and " + to_string(targets.dims()));
  }
  const int64_t rows = tokens.dims()[0], length = tokens.dims()[1];
  const int64_t all = padded_rows(rows, on.rules, runtime->mesh());
  const PartitionSpec split = on.rules.resolve({"batch", "seq"}, runtime->mesh());
  const LayoutPtr layout = make_layout({DType::kS32, {all, length}}, split);
  const ParamSpecs& specs = on.model.params();

  ProgramSpec spec;
  spec.name = "model_outputs";
  spec.rules = on.rules;
  for (size_t i = 0; i < specs.size(); ++i) {
    spec.arguments.push_back({specs[i].name, params[i]->layout()});
  }
  spec.arguments.push_back({"tokens", layout});
  spec.arguments.push_back({"targets", layout});
  LossOptions options;
  options.chunks = loss_chunks(all, length, on.model.vocab_size(), runtime->mesh().size());
  options.ignore_id = kIgnored;
  spec.trace([&](const Tensors& in) {
    const Tensors values(in.begin(), in.end() - 2);
    const Ctx cx = on.context(on.place(*runtime), values);
    const Tensor &x = in[in.size() - 2], &y = in.back();
    const LossSum loss = on.model.loss(x, y, cx, options);
    ValueAndGrad vg = value_and_grad(loss.sum / max(loss.count, 1.0), values);
    Tensors out = {convert(on.model.logits(on.model.hidden(x, cx), cx), DType::kF32), vg.value};
    for (const Tensor& grad : vg.grads) out.push_back(convert(grad, DType::kF32));
    return out;
  });
  spec.results = {{split[0], split[1], {}}, {}};
  for (size_t i = 0; i < specs.size(); ++i) spec.results.push_back(params[i]->spec());
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));

  ESPALIER_ASSIGN(DeviceArray x, DeviceArray::from_host(runtime, with_rows(tokens, all, 0), split));
  ESPALIER_ASSIGN(DeviceArray y,
                  DeviceArray::from_host(runtime, with_rows(targets, all, kIgnored), split));
  std::vector<DeviceArray*> arguments(params.begin(), params.end());
  arguments.push_back(&x);
  arguments.push_back(&y);
  ESPALIER_ASSIGN(std::vector<DeviceArray> results, program.run(arguments));

  ModelOutputs out;
  ESPALIER_ASSIGN(const HostArray logits, results[0].to_host());
  Dims dims = logits.dims();
  dims[0] = rows;
  out.logits = cut(logits.as<float>().data(), logits.dims(), dims);
  ESPALIER_ASSIGN(const HostArray loss, results[1].to_host());
  out.loss = loss.as<float>()[0];
  for (size_t i = 0; i < specs.size(); ++i) {
    ESPALIER_ASSIGN(const HostArray gradient, results[i + 2].to_host());
    results[i + 2] = DeviceArray();
    add_gradient(specs[i], gradient, out);
  }
  return out;
}

}  // namespace espalier
