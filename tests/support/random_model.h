// Small models with random parameters on a mesh, and their logits by the plain way: the whole
// sequence in one pass, without a cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "espalier/models/language_model.h"
#include "espalier/runtime/program.h"

namespace espalier::test {

struct RandomModelOptions {
  std::string model = "minigpt";  // or "gpt2", "gpt2 rope", "llama3"
  std::string layers = "scan";
  std::string attention = "dense";
  std::vector<MeshAxis> axes{};
  int64_t vocab_size = 61;  // odd: "model" = 2 does not divide it
  int64_t max_len = 40;
  DType dtype = DType::kF32;  // of naive logits
};

// The same values on every mesh and for both `layers`. Matrices are large enough for tokens to
// matter: the likeliest next one changes with the text.
class RandomModel {
 public:
  explicit RandomModel(const RandomModelOptions& options);

  // (V) of the token that follows these, at most max_len of them.
  std::vector<float> next_logits(const std::vector<int32_t>& tokens);
  std::vector<DeviceArray*> pointers();

  RandomModelOptions options;
  ShardingRules rules;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<LanguageModel> model;
  std::vector<LayoutPtr> layouts;
  std::vector<DeviceArray> params;

 private:
  std::unique_ptr<Program> logits_;
};

}  // namespace espalier::test
