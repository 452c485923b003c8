// Ctx: what a model's call needs beside its inputs: the parameters' values, the type it computes
// in, where it will run, in training the random key, and in inference the cache of keys and values.
// It is passed explicitly; nothing is global.
#pragma once

#include <optional>

#include "espalier/nn/param.h"
#include "espalier/nn/placement.h"
#include "espalier/ops/control.h"

namespace espalier {

struct KvCache;  // kv_cache.h

class Ctx {
 public:
  // `arrays` in the order of `specs`, which must outlive the Ctx. An array may be larger than its
  // parameter: what lies past the parameter's shape is padding that no model sees.
  Ctx(const ParamSpecs& specs, Tensors arrays) : specs_(&specs), arrays_(std::move(arrays)) {}

  // The value of a parameter of one layer (inside a stack) or of an unstacked parameter, in the
  // type that this context computes in.
  Tensor operator[](Param p) const;
  // The same in the parameter's own type: for tables whose rows are taken, so that gradients are
  // summed in that type.
  Tensor stored(Param p) const;

  // Computes in another type than float32, whatever parameters are held in.
  Ctx computing(DType dtype) const;
  DType dtype() const { return dtype_; }

  // Tells where the call will run. Without it that is one device of an unknown platform.
  Ctx on(PlacementPtr placement) const;
  const Placement& placement() const;

  // Whether kernels/ has code for arrays of this type where the call runs: float32 on one CPU
  // device. (Attention's kernel also runs on a mesh of them.)
  bool has_kernels(DType dtype) const;

  // The input of a layer that multiplies matrices, computed once and whole before it: XLA for CPU
  // otherwise computes a norm or activation again for each of the layouts that its matmuls want. On
  // other platforms the tensor itself.
  Tensor settled(const Tensor& x) const;

  // Makes this a training context: dropout draws from `key` (u32[2]).
  Ctx training(Tensor key) const;
  bool is_training() const { return !key_.empty(); }

  // Makes stacks of layers compute in the backward pass again what the policy does not keep.
  Ctx rematerializing(RematPolicy policy) const;
  const std::optional<RematPolicy>& remat() const { return remat_; }

  // Makes this a context of inference: attention reads and extends `cache`, which is not owned and
  // must outlive the calls.
  Ctx decoding(KvCache* cache) const;
  KvCache* cache() const { return cache_; }  // null where there is none

  // Makes attend() (kv_cache.h) use causal_attention whatever attention a model was built with: for
  // counting FLOPs the same whatever attention runs.
  Ctx plain_attention() const;
  bool is_attention_plain() const { return plain_attention_; }

  // A context for one layer of a stack: its parameters' values in place of the stacked arrays,
  // beginning at parameter `first`, and its own random key. `layer` is an s32 scalar.
  Ctx layer(size_t first, Tensors values, const Tensor& layer) const;
  // Parameters [first, last) as they stand.
  Tensors arrays(size_t first, size_t last) const;
  const Tensor& key() const { return key_; }

  // In training zeroes each element with probability `rate` and divides the others by 1 - rate;
  // each call draws anew. Otherwise the tensor itself. Masks depend on the key, the place of the
  // call and the element's global index, not on the mesh or on how layers repeat.
  Tensor dropout(const Tensor& x, double rate) const;

 private:
  const ParamSpecs* specs_;
  Tensors arrays_;
  Tensor key_;
  DType dtype_ = DType::kF32;
  PlacementPtr placement_;
  std::optional<RematPolicy> remat_;
  KvCache* cache_ = nullptr;
  bool plain_attention_ = false;
  mutable uint32_t draws_ = 0;  // dropout calls so far
};

}  // namespace espalier
