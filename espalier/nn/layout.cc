#include "espalier/nn/layout.h"

#include "espalier/base/host_array.h"
#include "espalier/ops/control.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"

namespace espalier {

namespace {

// Empty also where checkpoints cut the array otherwise than between dims.
StoredShape stored_shape(const ParamSpec& spec) {
  const Dims& stored = spec.form.stored_dims;
  if (stored.empty() || stored == spec.dims) return {};
  const size_t front = spec.layers > 0 ? 1 : 0;
  StoredShape out{std::vector<size_t>(front, 0), spec.array_dims()};
  size_t at = 0;
  for (const int64_t size : stored) {
    out.first.push_back(front + at);
    int64_t covered = 1;
    do {
      if (at == spec.dims.size()) return {};
      covered *= spec.dims[at++];
    } while (covered < size);
    if (covered != size) return {};
  }
  return at == spec.dims.size() ? out : StoredShape();
}

}  // namespace

std::vector<ParamLayout> layout_params(const ParamSpecs& specs, const ShardingRules& rules,
                                       const Mesh& mesh) {
  std::vector<ParamLayout> out;
  std::vector<std::string> names;
  for (const ParamSpec& spec : specs) {
    names.push_back(spec.name);
    const LogicalAxes axes = spec.array_axes();
    // Apart, since g++ 12 frees the dims twice where an initializer after them throws.
    PartitionSpec split = rules.resolve_param(spec.name, axes, mesh, stored_shape(spec));
    ParamLayout layout{{spec.dtype, spec.array_dims()}, std::move(split)};
    for (size_t d = 0; d < axes.size(); ++d) {
      const int64_t parts = mesh.size(layout.spec[d]);
      int64_t& size = layout.type.dims[d];
      if (axes[d] == "vocab") size = (size + parts - 1) / parts * parts;
    }
    shard_dims(mesh, layout.spec, layout.type.dims, "parameter '" + spec.name + "'");
    out.push_back(std::move(layout));
  }
  if (const auto unmatched = rules.unmatched(names); !unmatched.empty()) {
    throw Error("[sharding.params] the pattern '" + unmatched[0] +
                "' matches no parameter; names are like '" + names.front() + "' and '" +
                names.back() + "'");
  }
  return out;
}

namespace {

// FNV-1a, 32 bits: a number for each name that does not change.
uint32_t name_hash(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

Tensor draw(const Initializer& init, const Tensor& key, const Dims& dims) {
  if (init.kind == Initializer::Kind::kNormal) return random::normal(key, dims) * init.scale;
  const auto limit = static_cast<float>(init.scale);
  return random::uniform(key, dims, -limit, limit);
}

Tensor value_of(const ParamSpec& spec, const Tensor& key) {
  if (spec.init.kind == Initializer::Kind::kZeros) return zeros({DType::kF32, spec.array_dims()});
  if (spec.init.kind == Initializer::Kind::kOnes) return full({DType::kF32, spec.array_dims()}, 1);
  if (spec.layers == 0) {
    return draw(spec.init, random::fold_in(key, name_hash(spec.name)), spec.dims);
  }
  std::vector<uint32_t> hashes;
  for (int64_t i = 0; i < spec.layers; ++i) hashes.push_back(name_hash(spec.layer_name(i)));
  const Tensor scanned = constant(HostArray::from<uint32_t>({spec.layers}, hashes));
  const auto one = [&](const Tensors&, const Tensors& hash) -> ScanResult {
    return {{}, {draw(spec.init, random::fold_in(key, hash[0]), spec.dims)}};
  };
  return scan(one, {}, {scanned}).outputs[0];
}

}  // namespace

Tensors initialize(const ParamSpecs& specs, const std::vector<ParamLayout>& layouts,
                   const Tensor& key) {
  Tensors out;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor value = convert(value_of(specs[i], key), specs[i].dtype);
    Dims high = layouts[i].type.dims;
    for (size_t d = 0; d < high.size(); ++d) high[d] -= value.dims()[d];
    const bool padded = layouts[i].type.dims != value.dims();
    out.push_back(padded ? pad(value, 0, Dims(high.size(), 0), high) : value);
  }
  return out;
}

}  // namespace espalier
