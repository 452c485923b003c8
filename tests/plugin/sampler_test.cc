// Texts of a model: greedy ones against a naive loop on the host's copy of the logits, seeds, stop
// tokens, and the same text on one device and on a mesh.
#include "espalier/generate/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/tiny_training.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

const std::vector<MeshAxis> kBoth = {{"batch", 4}, {"model", 2}};

// A model that has learnt a little, so that its choices are clear.
class Trained {
 public:
  explicit Trained(const std::vector<MeshAxis>& axes) : training({.axes = axes}) {
    training.run(0, 30);
    for (size_t i = 0; i < training.layout->num_params(); ++i) {
      layouts.push_back(training.layout->arrays()[i].layout);
      params.push_back(&training.state[i]);
    }
  }
  Result<Sampler> sampler(const SamplerOptions& options) {
    return Sampler::create(training.runtime, *training.model, layouts, training.rules, options);
  }
  std::vector<int32_t> generate(const SamplerOptions& options, const Sampler::Request& request) {
    Sampler made = sampler(options).value_or_throw();
    return made.generate(params, request).value_or_throw();
  }

  TinyTraining training;
  std::vector<LayoutPtr> layouts;
  std::vector<DeviceArray*> params;
};

// Made once; it goes before the process ends, since the plugin's own globals do not outlive main().
class SamplerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { one_ = std::make_unique<Trained>(std::vector<MeshAxis>{}); }
  static void TearDownTestSuite() { one_.reset(); }
  static Trained& one_device() { return *one_; }

 private:
  static std::unique_ptr<Trained> one_;
};
std::unique_ptr<Trained> SamplerTest::one_;

Sampler::Request request(double temperature, uint64_t seed = 0) {
  Sampler::Request out;
  out.prompt = {5, 28, 21};
  out.temperature = temperature;
  out.seed = seed;
  return out;
}

// The likeliest next token again and again, from logits of the tokens so far and nothing else.
std::vector<int32_t> naive_greedy(Trained& trained, std::vector<int32_t> tokens, size_t length) {
  TinyTraining& t = trained.training;
  while (tokens.size() < length) {
    const auto now = static_cast<int64_t>(tokens.size());
    DeviceArray input =
        DeviceArray::from_host(t.runtime, HostArray::from<int32_t>({1, now}, tokens), {})
            .value_or_throw();
    ProgramSpec spec;
    std::vector<TensorType> types;
    for (size_t i = 0; i < trained.layouts.size(); ++i) {
      spec.arguments.push_back({t.model->params()[i].name, trained.layouts[i]});
      types.push_back(trained.layouts[i]->type);
    }
    spec.arguments.push_back({"tokens", input.layout()});
    types.push_back(input.type());
    spec.function = trace(types, [&](const Tensors& in) {
      const Ctx cx(t.model->params(), {in.begin(), in.end() - 1});
      return Tensors{t.model->logits(t.model->hidden(in.back(), cx), cx)};
    });
    spec.results = {{}};
    Program program = compile(t.runtime, std::move(spec)).value_or_throw();
    std::vector<DeviceArray*> arguments = trained.params;
    arguments.push_back(&input);
    const auto out = program.run(arguments).value_or_throw();
    const HostArray logits = out[0].to_host().value_or_throw();
    const auto last = logits.as<float>().last(static_cast<size_t>(t.options.vocab_size));
    tokens.push_back(
        static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
  }
  return tokens;
}

TEST_F(SamplerTest, GreedyIsTheRepeatedLikeliestToken) {
  const auto want = naive_greedy(one_device(), request(0).prompt, 10);
  Sampler::Request r = request(0);
  r.max_tokens = 10;
  EXPECT_EQ(one_device().generate({.top_k = 0}, r), want);
  EXPECT_EQ(one_device().generate({.top_k = 10}, r), want);
  r.temperature = 1;  // with one token to choose from
  EXPECT_EQ(one_device().generate({.top_k = 1}, r), want);
}

TEST_F(SamplerTest, LengthsAndPrompt) {
  Sampler made = one_device().sampler({}).value_or_throw();
  for (const int64_t wanted : {0, 1, 3, 4, 11, 16, 1000}) {
    Sampler::Request r = request(1);
    r.max_tokens = wanted;
    const auto text = made.generate(one_device().params, r).value_or_throw();
    const size_t length = wanted == 0 || wanted > 16 ? 16 : std::max<int64_t>(wanted, 3);
    EXPECT_EQ(text.size(), length) << wanted;
    EXPECT_TRUE(std::equal(r.prompt.begin(), r.prompt.end(), text.begin()));
    for (const int32_t id : text) EXPECT_TRUE(id >= 0 && id < 61) << id;
  }
}

TEST_F(SamplerTest, TheSeedDecides) {
  Sampler made = one_device().sampler({.top_k = 0}).value_or_throw();
  const auto text = [&](double temperature, uint64_t seed) {
    return made.generate(one_device().params, request(temperature, seed)).value_or_throw();
  };
  EXPECT_EQ(text(2, 1), text(2, 1));
  EXPECT_NE(text(2, 1), text(2, 2));
  EXPECT_NE(text(2, 1), text(2, uint64_t{1} << 32 | 1));
  EXPECT_EQ(text(0, 1), text(0, 2));
  EXPECT_EQ(text(1e-4, 1), text(0, 1));  // nearly cold
}

TEST_F(SamplerTest, OnlyTheLikeliestAreDrawn) {
  Sampler two = one_device().sampler({.top_k = 2}).value_or_throw();
  std::set<int32_t> next;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Sampler::Request r = request(5, seed);
    r.max_tokens = 4;
    next.insert(two.generate(one_device().params, r).value_or_throw()[3]);
  }
  EXPECT_EQ(next.size(), 2u);
  EXPECT_TRUE(next.contains(naive_greedy(one_device(), request(0).prompt, 4)[3]));
}

TEST_F(SamplerTest, AStopTokenEndsTheTextAndIsNotInIt) {
  const auto whole = one_device().generate({.top_k = 0}, request(0));
  // A token that the greedy text has somewhere, ended at its first place after the prompt.
  const int32_t stop = whole[8];
  const auto at = std::find(whole.begin() + 3, whole.end(), stop);
  const auto text = one_device().generate({.top_k = 0, .stop_at = stop}, request(0));
  EXPECT_EQ(text, std::vector<int32_t>(whole.begin(), at));
  // In the prompt it ends nothing.
  Sampler::Request r = request(0);
  r.prompt = {stop};
  EXPECT_GE(one_device().generate({.top_k = 0, .stop_at = stop}, r).size(), 1u);
}

TEST_F(SamplerTest, AMeshGivesTheSameText) {
  Trained both(kBoth);
  Sampler mesh = both.sampler({.top_k = 5}).value_or_throw();
  Sampler one = one_device().sampler({.top_k = 5}).value_or_throw();
  for (const double temperature : {0.0, 1.0}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      EXPECT_EQ(mesh.generate(both.params, request(temperature, seed)).value_or_throw(),
                one.generate(one_device().params, request(temperature, seed)).value_or_throw())
          << temperature << " " << seed;
    }
  }
}

TEST_F(SamplerTest, BadRequests) {
  Sampler made = one_device().sampler({}).value_or_throw();
  const auto result = [&](std::vector<int32_t> prompt) {
    Sampler::Request r;
    r.prompt = std::move(prompt);
    return made.generate(one_device().params, r);
  };
  expect_failure(result({}), Code::kInvalidArgument, {"the prompt has no tokens"});
  expect_failure(result(std::vector<int32_t>(16, 1)), Code::kInvalidArgument,
                 {"the prompt has 16 tokens", "at most 15"});
  expect_failure(result({1, 61}), Code::kInvalidArgument, {"token id 61", "vocabulary of 61"});
  expect_failure(result({-1}), Code::kInvalidArgument, {"token id -1"});
  EXPECT_TRUE(result(std::vector<int32_t>(15, 1)).ok());
  try {
    (void)one_device().sampler({.top_k = 62});
    ADD_FAILURE() << "top_k = 62 was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sample.top_k = 62"), std::string::npos);
  }
}

}  // namespace
}  // namespace espalier::test
