#include "cli/verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <memory>

#include "cli/loaded_model.h"
#include "espalier/base/log.h"
#include "espalier/checkpoint/rotary_pairs.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/generate/sampler.h"
#include "espalier/train/model_outputs.h"

namespace espalier {
namespace {

// Of logits and of the loss: the largest difference. Of a gradient: the same as a part of its
// largest element.
constexpr double kLogitsLimit = 2e-5, kLossLimit = 1e-6, kGradientLimit = 1e-5;
// How many of a reference's greedy_ids continue the others.
constexpr size_t kGreedyTokens = 16;
constexpr std::string_view kGradient = "grad.";
constexpr size_t kNamed = 5;  // unknown tensors whose names are shown

struct Options {
  std::string hf, reference;
  std::vector<std::string> set;
};

struct Worst {
  double error = 0;
  size_t at = 0;  // row-major
};

// The largest difference; one that is not a number counts as infinite.
Worst worst_of(const HostArray& got, const HostArray& want) {
  Worst out;
  const HostArray wide = want.converted(DType::kF32);
  const auto a = got.as<float>(), b = wide.as<float>();
  for (size_t i = 0; i < a.size(); ++i) {
    double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > out.error) out = {error, i};
  }
  return out;
}

// The error as a part of the largest element; never NaN.
double part_of(double error, const HostArray& want) {
  if (error == 0 || std::isinf(error)) return error;
  double largest = 0;
  const HostArray wide = want.converted(DType::kF32);
  for (const float x : wide.as<float>()) {
    largest = std::max(largest, std::abs(static_cast<double>(x)));
  }
  return error / largest;
}

// "[2, 0, 17]"
std::string place(size_t at, const Dims& dims) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    const auto size = static_cast<size_t>(dims[i]);
    index[i] = static_cast<int64_t>(at % size);
    at /= size;
  }
  return to_string(index);
}

// The file with what another program computed.
class Reference {
 public:
  explicit Reference(const std::string& path)
      : file_(SafetensorsFile::open(path).value_or_throw()) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  HostArray read(const std::string& name) const { return file_.read(name).value_or_throw(); }
  // A floating tensor of this shape.
  HostArray read(const std::string& name, const Dims& dims) const {
    HostArray out = read(name);
    if (!is_floating(out.dtype())) {
      wrong(name, std::string("has the type ") + hlo_name(out.dtype()) + ", not a floating one");
    }
    if (out.dims() != dims) {
      wrong(name,
            "has the shape " + to_string(out.dims()) + ", but the model gives " + to_string(dims));
    }
    return out;
  }
  // Token ids below `vocab`, as s32 of `rank` dims.
  HostArray ids(const std::string& name, size_t rank, int64_t vocab) const {
    const HostArray stored = read(name);
    if (!is_integer(stored.dtype()) || stored.dims().size() != rank || stored.size() == 0) {
      wrong(name, fmt::format("has the type and shape {}{}; token ids are integers with {} dims",
                              hlo_name(stored.dtype()), to_string(stored.dims()), rank));
    }
    const HostArray wide = stored.converted(DType::kS64);
    for (const int64_t id : wide.as<int64_t>()) {
      if (id >= 0 && id < vocab) continue;
      wrong(name, fmt::format("has the id {}, but the model has ids 0 to {}", id, vocab - 1));
    }
    return wide.converted(DType::kS32);
  }
  [[noreturn]] void wrong(const std::string& name, const std::string& what) const {
    throw Error(fmt::format("tensor '{}' in '{}' {}; take the reference of this model", name,
                            file_.where(), what));
  }
  const std::vector<TensorInfo>& tensors() const { return file_.tensors(); }
  std::string where() const { return file_.where(); }

 private:
  SafetensorsFile file_;
};

// Prints a line for each thing compared and keeps what is apart.
class Findings {
 public:
  void add(std::string_view what, bool good, const std::string& detail) {
    out().info("{:<10}  {:<5}  {}", what, good ? "ok" : "APART", detail);
    ++compared_;
    if (!good) apart_ += (apart_.empty() ? "" : ", ") + std::string(what);
  }
  void skip(std::string_view what, const std::string& why) {
    out().info("{:<10}  {:<5}  {}", what, "-", why);
  }
  int compared() const { return compared_; }
  const std::string& apart() const { return apart_; }

 private:
  int compared_ = 0;
  std::string apart_;
};

void compare_logits(const Reference& reference, const ModelOutputs& got, Findings& findings) {
  if (!reference.has("logits")) return findings.skip("logits", "not in the reference");
  const HostArray want = reference.read("logits", got.logits.dims());
  const Worst worst = worst_of(got.logits, want);
  findings.add("logits", worst.error <= kLogitsLimit,
               fmt::format("worst error {:.3g} at {}, limit {:g}", worst.error,
                           place(worst.at, want.dims()), kLogitsLimit));
}

void compare_loss(const Reference& reference, const ModelOutputs& got, Findings& findings) {
  if (!reference.has("loss")) return findings.skip("loss", "not in the reference");
  HostArray want = reference.read("loss");
  if (want.size() != 1) reference.wrong("loss", "has more than one element");
  want = reference.read("loss", want.dims()).converted(DType::kF64);
  const double expected = want.as<double>()[0], error = std::abs(got.loss - expected);
  findings.add("loss", error <= kLossLimit,
               fmt::format("worst error {:.3g} at {:.8g} (reference {:.8g}), limit {:g}", error,
                           got.loss, expected, kLossLimit));
}

// Where the reference has a parameter's gradient: the parameter goes by any of its names.
std::string gradient_name(const Reference& reference, const ModelConfig& config,
                          const std::string& param) {
  for (const std::string& name : config.hf_names(param)) {
    if (reference.has(std::string(kGradient) + name)) return std::string(kGradient) + name;
  }
  return "";
}

void compare_gradients(const Reference& reference, const ModelConfig& config,
                       const ModelOutputs& got, Findings& findings) {
  double worst = -1;
  std::string at, missing;
  size_t compared = 0;
  for (const auto& [param, gradient] : got.gradients) {
    const std::string name = gradient_name(reference, config, param);
    if (name.empty()) {
      if (missing.empty()) missing = param;
      continue;
    }
    ++compared;
    HostArray want = reference.read(name, gradient.dims());
    const int64_t paired = config.hf_rotary_pairs(name.substr(kGradient.size()));
    if (paired > 0) want = rotary_halves(want, paired);
    const Worst here = worst_of(gradient, want);
    const double part = part_of(here.error, want);
    if (part <= worst) continue;
    worst = part;
    at = param + " " + place(here.at, want.dims());
  }
  if (compared == 0) return findings.skip("gradients", "not in the reference");
  std::string detail = fmt::format("worst error {:.3g} of the largest element, at {}, limit {:g}",
                                   worst, at, kGradientLimit);
  if (compared < got.gradients.size()) {
    detail += fmt::format("; {} of {} parameters compared, the reference lacks {}{}", compared,
                          got.gradients.size(), missing,
                          got.gradients.size() - compared > 1 ? " and others" : "");
  }
  findings.add("gradients", worst <= kGradientLimit, detail);
}

void compare_greedy(const Reference& reference, LoadedModel& loaded, Findings& findings) {
  if (!reference.has("greedy_ids")) return findings.skip("greedy ids", "not in the reference");
  HostArray want = reference.read("greedy_ids");
  want = reference.ids("greedy_ids", want.dims().size(), loaded.model->vocab_size());
  const auto ids = want.as<int32_t>();
  if (ids.size() <= kGreedyTokens || want.dims().back() != want.size()) {
    reference.wrong("greedy_ids", "has the shape " + to_string(want.dims()) +
                                      "; it must be one row, a prompt and " +
                                      std::to_string(kGreedyTokens) + " tokens");
  }
  const size_t prompt = ids.size() - kGreedyTokens;
  SamplerOptions options;
  options.top_k = 0;
  options.dtype = loaded.dtype;
  Sampler sampler(loaded.runtime, *loaded.model, loaded.layouts(), loaded.rules, options);
  Sampler::Request request;
  request.prompt.assign(ids.begin(), ids.begin() + static_cast<int64_t>(prompt));
  request.max_tokens = static_cast<int64_t>(ids.size());
  request.temperature = 0;
  const auto texts = sampler.generate(loaded.pointers(), request).value_or_throw();
  const std::vector<int32_t>& got = texts.at(0);
  size_t equal = prompt;
  while (equal < ids.size() && equal < got.size() && got[equal] == ids[equal]) ++equal;
  const bool good = equal == ids.size();
  findings.add(
      "greedy ids", good,
      good ? fmt::format("all {} tokens behind {} are equal, limit 0", kGreedyTokens, prompt)
           : fmt::format("worst error at token {}: {} (reference {}), limit 0", equal,
                         equal < got.size() ? std::to_string(got[equal]) : "none", ids[equal]));
}

// That the reference has no tensor of another model; others that say nothing here are named.
void check_names(const Reference& reference, const ModelConfig& config, const ParamSpecs& specs) {
  std::vector<std::string> known = {"input_ids", "target_ids", "logits", "loss", "greedy_ids"};
  for (const ParamSpec& spec : specs) {
    for (const std::string& param : stored_param(spec).names) {
      for (const std::string& name : config.hf_names(param)) {
        known.push_back(std::string(kGradient) + name);
      }
    }
  }
  std::string unknown;
  size_t unknowns = 0;
  for (const TensorInfo& tensor : reference.tensors()) {
    if (std::find(known.begin(), known.end(), tensor.name) != known.end()) continue;
    if (tensor.name.starts_with(kGradient)) {
      reference.wrong(tensor.name,
                      "is the gradient of a parameter that the model lacks (nearest: '" +
                          nearest_names(tensor.name, known, 1).at(0) + "')");
    }
    if (unknowns++ < kNamed) unknown += (unknown.empty() ? "'" : ", '") + tensor.name + "'";
  }
  if (unknowns > kNamed) unknown += fmt::format(", ... and {} more", unknowns - kNamed);
  if (!unknown.empty()) err().warn("unknown tensors in '{}': {}", reference.where(), unknown);
}

void run_verify(const Options& o) {
  const Reference reference(o.reference);
  LoadedModel loaded = load_hf_model(o.hf, o.set).value_or_throw();
  const ModelConfig& config = *loaded.config.model;
  const int64_t vocab = loaded.model->vocab_size();
  check_names(reference, config, loaded.model->params());
  out().info(
      "{}: {}, {} parameters, on {}", o.hf, config.name(), num_parameters(loaded.model->params()),
      loaded.runtime->mesh().axes().empty() ? "one device" : loaded.runtime->mesh().to_string());
  for (const std::string& axis : loaded.rules.unused_axes(loaded.runtime->mesh())) {
    err().warn(
        "no sharding rule names mesh axis '{}': nothing is split along it, and no split verified; "
        "name it in [sharding.rules]",
        axis);
  }
  Findings findings;
  if (reference.has("input_ids")) {
    const HostArray tokens = reference.ids("input_ids", 2, vocab);
    if (tokens.dims()[1] > loaded.model->max_len()) {
      reference.wrong("input_ids", fmt::format("has rows of {} tokens, but the model takes {}",
                                               tokens.dims()[1], loaded.model->max_len()));
    }
    const bool has_targets = reference.has("target_ids");
    const HostArray targets = has_targets ? reference.ids("target_ids", 2, vocab) : tokens;
    if (targets.dims() != tokens.dims()) {
      reference.wrong("target_ids", "has another shape than input_ids");
    }
    const ModelOnMesh on{*loaded.model, loaded.rules, loaded.dtype};
    const ModelOutputs got =
        model_outputs(loaded.runtime, on, loaded.pointers(), tokens, targets).value_or_throw();
    compare_logits(reference, got, findings);
    if (has_targets) {
      compare_loss(reference, got, findings);
      compare_gradients(reference, config, got, findings);
    } else {
      findings.skip("loss", "no target_ids in the reference");
      findings.skip("gradients", "no target_ids in the reference");
    }
  } else {
    for (const char* what : {"logits", "loss", "gradients"}) {
      findings.skip(what, "no input_ids in the reference");
    }
  }
  compare_greedy(reference, loaded, findings);
  if (findings.compared() == 0) {
    throw Error("'" + o.reference +
                "' has nothing to compare: it needs input_ids with logits, or with target_ids and "
                "loss or gradients, or greedy_ids");
  }
  if (!findings.apart().empty()) {
    throw Error("the model differs from '" + o.reference + "' in " + findings.apart(),
                Code::kFailedPrecondition);
  }
}

}  // namespace

void add_verify(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("verify", "Compare a model with what another program computed.");
  command->add_option("--hf", o->hf, "Hugging Face folder, or a published model's name.")
      ->required();
  command
      ->add_option("--reference", o->reference,
                   "Safetensors file: input_ids, target_ids, logits, loss, grad.PARAMETER, "
                   "greedy_ids.")
      ->required();
  command
      ->add_option(
          "--set", o->set,
          "Set a key of the recipe, such as mesh.axes or model.attention. May be repeated.")
      ->allow_extra_args(false);
  command->callback([o] { run_verify(*o); });
}

}  // namespace espalier
