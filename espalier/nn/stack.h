// Stack: a block repeated over layers, either unrolled (one array per layer and parameter) or
// scanned (one array for all layers of a parameter, one compiled body).
#pragma once

#include <vector>

#include "espalier/nn/kv_cache.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/source.h"

namespace espalier {

enum class Layers { kScan, kUnroll };

// Block needs a constructor Block(Init, Args...) and Tensor operator()(const Tensor&, const Ctx&)
// const that keeps the type of its input. Both ways give the same parameters under the same names,
// and the same dropout masks. Without a cache, each layer is rematerialized as the context says
// (Ctx::remat); a policy can keep the layer's input by the name "block_input".
template <class Block>
class Stack {
 public:
  template <class... Args>
  Stack(Init in, Layers how, int64_t layers, const Args&... args) : how_(how), layers_(layers) {
    if (how == Layers::kScan) {
      first_ = in.count();
      blocks_.emplace_back(in.stacked(layers), args...);
      last_ = in.count();
      return;
    }
    for (int64_t i = 0; i < layers; ++i) blocks_.emplace_back(in / std::to_string(i), args...);
  }

  Tensor operator()(const Tensor& x, const Ctx& cx) const {
    if (how_ == Layers::kUnroll) {
      Tensor out = x;
      for (int64_t i = 0; i < layers_; ++i) {
        const Tensor layer = full_int({DType::kS32, {}}, i);
        if (cx.cache() != nullptr) cx.cache()->layer = layer;
        out = run(blocks_[static_cast<size_t>(i)], out, cx.layer(0, {}, layer));
      }
      return out;
    }
    Tensors scanned = cx.arrays(first_, last_);
    scanned.push_back(iota({DType::kS32, {layers_}}, 0));
    // A cache travels as a carry, which XLA updates in place.
    KvCache* cache = cx.cache();
    Tensors carried = {x};
    if (cache != nullptr) carried.insert(carried.end(), {cache->keys, cache->values});
    const auto body = [&](const Tensors& carry, const Tensors& now) -> ScanResult {
      Tensors values(now.begin(), now.end() - 1);
      const Ctx own = cx.layer(first_, std::move(values), now.back());
      if (cache == nullptr) return {{run(blocks_[0], carry[0], own)}, {}};
      KvCache here{carry[1], carry[2], cache->position, now.back()};
      const Tensor out = blocks_[0](carry[0], own.decoding(&here));
      return {{out, here.keys, here.values}, {}};
    };
    const Tensors done = scan(body, carried, scanned).carry;
    if (cache != nullptr) cache->keys = done[1], cache->values = done[2];
    return done[0];
  }

 private:
  Tensor run(const Block& block, const Tensor& x, const Ctx& own) const {
    if (!own.remat() || own.cache() != nullptr) return block(x, own);
    const auto body = [&](const Tensors& in) -> Tensors {
      return {block(checkpoint_name(in[0], "block_input"), own)};
    };
    return remat(body, {x}, *own.remat(), how_ == Layers::kUnroll)[0];
  }

  Layers how_;
  int64_t layers_;
  size_t first_ = 0, last_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace espalier
