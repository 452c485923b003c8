// Texts of a model: each token against the plain way, in which logits of the whole text are
// computed without a cache and the token is drawn on the host from them and jax.random's noise.
#include "espalier/generate/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "espalier/random/random.h"
#include "tests/support/error_of.h"
#include "tests/support/random_model.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

using Texts = std::vector<std::vector<int32_t>>;

const std::vector<MeshAxis> kBoth = {{"batch", 4}, {"model", 2}};

Sampler::Request request(double temperature, uint64_t seed = 0) {
  Sampler::Request out;
  out.prompt = {5, 28, 21};
  out.temperature = temperature;
  out.seed = seed;
  return out;
}

Sampler sampler(RandomModel& of, const SamplerOptions& options) {
  return Sampler(of.runtime, *of.model, of.layouts, of.rules, options);
}

Texts generate(RandomModel& of, const SamplerOptions& options, const Sampler::Request& request) {
  return sampler(of, options).generate(of.pointers(), request).value_or_throw();
}

// Draws on the host. `noise` comes from a compiled program, since it must have the device's bits.
class HostDraw {
 public:
  HostDraw(std::shared_ptr<Runtime> runtime, const SamplerOptions& options)
      : runtime_(std::move(runtime)), options_(options) {}

  int32_t operator()(const std::vector<float>& logits, double temperature, uint64_t seed,
                     int64_t count) {
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto larger = [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    };
    if (temperature == 0) return *std::min_element(ids.begin(), ids.end(), larger);
    const bool cut = options_.top_k > 0 || options_.top_p < 1;
    if (cut) std::stable_sort(ids.begin(), ids.end(), larger);
    if (options_.top_k > 0) ids.resize(static_cast<size_t>(options_.top_k));
    std::vector<float> scaled;
    for (const int32_t id : ids) {
      scaled.push_back(logits[static_cast<size_t>(id)] / static_cast<float>(temperature));
    }
    const std::vector<float> random = noise(seed, count, static_cast<int64_t>(ids.size()));
    // Sorted, the first is the largest.
    const auto weight = [&](float x) { return std::exp(static_cast<double>(x - scaled[0])); };
    double sum = 0, before = 0;
    for (const float x : scaled) sum += weight(x);
    size_t best = 0;
    for (size_t i = 0; i < ids.size() && (!cut || before < options_.top_p * sum); ++i) {
      before += weight(scaled[i]);
      if (scaled[i] + random[i] > scaled[best] + random[best]) best = i;
    }
    return ids[best];
  }

 private:
  std::vector<float> noise(uint64_t seed, int64_t count, int64_t width) {
    const HostArray number = HostArray::scalar(static_cast<int32_t>(count));
    DeviceArray key = DeviceArray::from_host(runtime_, random::key_data(seed), {}).value_or_throw();
    DeviceArray at = DeviceArray::from_host(runtime_, number, {}).value_or_throw();
    if (!program_) {
      ProgramSpec spec;
      spec.arguments = {{"key", key.layout()}, {"at", at.layout()}};
      spec.results = {{}};
      spec.trace([&](const Tensors& in) {
        return Tensors{random::gumbel(random::fold_in(in[0], in[1]), {width})};
      });
      program_ = compile(runtime_, std::move(spec)).value_or_throw();
    }
    const auto out = program_->run({&key, &at}).value_or_throw();
    const HostArray values = out[0].to_host().value_or_throw();
    return {values.as<float>().begin(), values.as<float>().end()};
  }

  std::shared_ptr<Runtime> runtime_;
  SamplerOptions options_;
  std::optional<Program> program_;  // of the noise; a text's draws are all of one width
};

// Token by token, each from the last max_len tokens.
std::vector<int32_t> plain_text(RandomModel& of, const SamplerOptions& options,
                                const Sampler::Request& r, int64_t length) {
  HostDraw draw(of.runtime, options);
  std::vector<int32_t> text = r.prompt;
  while (static_cast<int64_t>(text.size()) < length) {
    const auto seen = std::min<int64_t>(std::ssize(text), of.options.max_len);
    const std::vector<float> logits = of.next_logits({text.end() - seen, text.end()});
    text.push_back(draw(logits, r.temperature, r.seed, std::ssize(text)));
  }
  return text;
}

// Made once; it goes before the process ends, since the plugin's own globals do not outlive main().
class SamplerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { one_ = std::make_unique<RandomModel>(RandomModelOptions()); }
  static void TearDownTestSuite() { one_.reset(); }
  static RandomModel& one() { return *one_; }

 private:
  static std::unique_ptr<RandomModel> one_;
};
std::unique_ptr<RandomModel> SamplerTest::one_;

TEST_F(SamplerTest, GreedyIsTheRepeatedLikeliestToken) {
  for (const std::string model : {"minigpt", "gpt2", "gpt2 rope", "llama3"}) {
    for (const auto& [layers, attention] :
         {std::pair("scan", "dense"), std::pair("unroll", "dense"), std::pair("scan", "flash")}) {
      RandomModelOptions options;
      options.model = model;
      options.layers = layers;
      options.attention = attention;
      RandomModel of(options);
      SCOPED_TRACE(model + " " + layers + " " + attention);
      const auto want = plain_text(of, {}, request(0), 40);
      EXPECT_GT(std::set(want.begin() + 3, want.end()).size(), 5u) << "the text says little";
      EXPECT_EQ(generate(of, {.top_k = 0}, request(0)), Texts{want});
    }
  }
}

TEST_F(SamplerTest, DrawsAreThoseOfTheHost) {
  for (const auto& [top_k, top_p, temperature] :
       {std::tuple(int64_t{0}, 1.0, 1.0), std::tuple(int64_t{7}, 1.0, 0.7),
        std::tuple(int64_t{0}, 0.8, 1.5), std::tuple(int64_t{20}, 0.5, 2.0),
        std::tuple(int64_t{61}, 1.0, 1.0), std::tuple(int64_t{0}, 1e-9, 3.0)}) {
    SamplerOptions options{.top_k = top_k, .top_p = top_p};
    options.batch = 3;
    Sampler::Request r = request(temperature, 12);
    r.samples = 3;
    const Texts texts = generate(one(), options, r);
    for (size_t i = 0; i < 3; ++i, ++r.seed) {
      EXPECT_EQ(texts[i], plain_text(one(), options, r, 40))
          << top_k << " " << top_p << " " << temperature << " " << r.seed;
    }
    EXPECT_EQ(texts[0] == texts[1], top_p < 1e-3);
  }
  // More than there are: all.
  const Sampler::Request r = request(1, 12);
  EXPECT_EQ(generate(one(), {.top_k = 200}, r), generate(one(), {.top_k = 61}, r));
}

TEST_F(SamplerTest, TheNucleusHasTheLikeliestTokensThatMakeUpTopP) {
  Sampler::Request r = request(1);
  r.max_tokens = 4;
  r.samples = 400;
  const std::vector<float> logits = one().next_logits(r.prompt);
  std::vector<double> p(logits.begin(), logits.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x);
  for (double& x : p) x /= sum;
  std::vector<double> sorted = p;
  std::sort(sorted.rbegin(), sorted.rend());
  // Halfway into the third token's share: three tokens are needed to make it up.
  const double top_p = sorted[0] + sorted[1] + sorted[2] / 2;
  std::set<int32_t> seen;
  for (const auto& text : generate(one(), {.top_k = 0, .top_p = top_p, .batch = 50}, r)) {
    seen.insert(text[3]);
  }
  std::set<int32_t> want;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] >= sorted[2]) want.insert(static_cast<int32_t>(i));
  }
  EXPECT_EQ(seen, want);
}

TEST_F(SamplerTest, ASampleDoesNotDependOnTheOthers) {
  Sampler::Request r = request(1, 40);
  r.samples = 5;
  Texts alone;
  Sampler single = sampler(one(), {.top_p = 0.9});
  for (uint64_t i = 0; i < 5; ++i) {
    alone.push_back(single.generate(one().pointers(), request(1, 40 + i)).value_or_throw()[0]);
  }
  EXPECT_EQ(std::set(alone.begin(), alone.end()).size(), 5u);
  for (const int64_t batch : {1, 2, 3, 5, 8}) {
    EXPECT_EQ(generate(one(), {.top_p = 0.9, .batch = batch}, r), alone) << batch;
  }
  // Seeds count on past 32 bits.
  r = request(1, 0xffffffff);
  r.samples = 2;
  EXPECT_EQ(generate(one(), {.batch = 2}, r)[1],
            generate(one(), {}, request(1, uint64_t{1} << 32))[0]);
}

TEST_F(SamplerTest, ASlidingWindowIsComputedAnew) {
  for (const std::string model : {"minigpt", "gpt2 rope"}) {
    RandomModelOptions small;
    small.model = model;
    small.max_len = 12;
    RandomModel of(small);
    for (const size_t prompt : {size_t{3}, size_t{12}, size_t{20}}) {
      SamplerOptions options{.top_k = 9};
      options.batch = 2;
      Sampler::Request r = request(0.8, 5);
      r.prompt.clear();
      for (size_t i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(i * i % 61));
      r.max_tokens = 30;
      r.slide = true;
      r.samples = 2;
      const Texts texts = generate(of, options, r);
      for (size_t i = 0; i < 2; ++i, ++r.seed) {
        EXPECT_EQ(texts[i], plain_text(of, options, r, 30)) << model << " " << prompt << " " << i;
      }
    }
  }
}

TEST_F(SamplerTest, PromptsOfEveryLength) {
  Sampler made = sampler(one(), {.top_k = 0});
  for (const size_t length : {1, 2, 15, 16, 17, 31, 32, 33, 38, 39}) {
    Sampler::Request r = request(0);
    r.prompt.assign(length, 0);
    for (size_t i = 0; i < length; ++i) r.prompt[i] = static_cast<int32_t>((7 * i + 3) % 61);
    const auto texts = made.generate(one().pointers(), r).value_or_throw();
    EXPECT_EQ(texts[0], plain_text(one(), {.top_k = 0}, r, 40)) << length;
    EXPECT_EQ(made.times().prompt_tokens, static_cast<int64_t>(length));
    EXPECT_EQ(made.times().first_tokens, 1);
    EXPECT_EQ(made.times().decode_tokens, 39 - static_cast<int64_t>(length));
  }
}

TEST_F(SamplerTest, AShorterTextIsTheBeginningOfALongerOne) {
  Sampler made = sampler(one(), {});
  const auto whole = made.generate(one().pointers(), request(1)).value_or_throw()[0];
  for (const int64_t wanted : {0, 1, 3, 4, 11, 16, 17, 32, 33, 40, 1000}) {
    Sampler::Request r = request(1);
    r.max_tokens = wanted;
    const auto text = made.generate(one().pointers(), r).value_or_throw()[0];
    const int64_t length = wanted == 0 || wanted > 40 ? 40 : std::max<int64_t>(wanted, 3);
    EXPECT_EQ(std::ssize(text), length) << wanted;
    EXPECT_EQ(text, std::vector<int32_t>(whole.begin(), whole.begin() + length));
  }
}

TEST_F(SamplerTest, TheSeedDecides) {
  Sampler made = sampler(one(), {.top_k = 0});
  const auto text = [&](double temperature, uint64_t seed) {
    return made.generate(one().pointers(), request(temperature, seed)).value_or_throw();
  };
  EXPECT_EQ(text(2, 1), text(2, 1));
  EXPECT_NE(text(2, 1), text(2, 2));
  EXPECT_NE(text(2, 1), text(2, uint64_t{1} << 32 | 1));
  EXPECT_EQ(text(0, 1), text(0, 2));
  EXPECT_EQ(text(1e-4, 1), text(0, 1));  // nearly cold
}

TEST_F(SamplerTest, IdsPastTheTokenizersAreNotDrawn) {
  Sampler::Request r = request(50);
  r.samples = 20;
  std::set<int32_t> seen;
  for (const auto& text : generate(one(), {.top_k = 0, .vocab = 9, .batch = 20}, r)) {
    seen.insert(text.begin() + 3, text.end());
  }
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(SamplerTest, AStopTokenEndsItsTextAndIsNotInIt) {
  Sampler::Request r = request(1, 3);
  r.samples = 4;
  const Texts whole = generate(one(), {.top_k = 0, .batch = 4}, r);
  // A token that the first text has somewhere; others may have it elsewhere or not at all.
  const int32_t stop = whole[0][8];
  const auto cut = [&](const std::vector<int32_t>& text) {
    return std::vector<int32_t>(text.begin(), std::find(text.begin() + 3, text.end(), stop));
  };
  for (const int64_t batch : {1, 4}) {
    SamplerOptions options{.top_k = 0, .stop_at = stop};
    options.batch = batch;
    Sampler made = sampler(one(), options);
    Texts heard(4, r.prompt);
    const auto texts = made.generate(one().pointers(), r, [&](int64_t sample, int32_t id) {
      heard[static_cast<size_t>(sample)].push_back(id);
    });
    ASSERT_TRUE(texts.ok());
    int64_t drawn = 0;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ((*texts)[i], cut(whole[i])) << batch << " " << i;
      drawn += std::ssize((*texts)[i]) - 3 + (cut(whole[i]).size() < whole[i].size() ? 1 : 0);
    }
    EXPECT_EQ(heard, *texts);
    EXPECT_EQ(made.times().first_tokens + made.times().decode_tokens, drawn);
  }
  // In the prompt it ends nothing, and with a sliding window texts end as well.
  r.prompt = {stop};
  EXPECT_EQ(generate(one(), {.top_k = 0, .stop_at = stop, .batch = 4}, r).size(), 4u);
  r = request(1, 3);
  r.slide = true;
  r.max_tokens = 400;
  const auto ended = generate(one(), {.top_k = 0, .stop_at = stop}, r);
  EXPECT_EQ(ended[0], cut(whole[0]));
}

TEST_F(SamplerTest, AMeshGivesTheSameTexts) {
  for (const std::string model : {"minigpt", "gpt2 rope"}) {
    RandomModelOptions options;
    options.model = model;
    options.max_len = 24;
    RandomModel single(options);
    options.axes = kBoth;
    RandomModel mesh(options);
    for (const double temperature : {0.0, 1.0}) {
      Sampler::Request r = request(temperature, 1);
      r.samples = 3;
      r.slide = true;
      r.max_tokens = 30;
      const SamplerOptions how{.top_k = 5, .top_p = 0.9, .batch = 3};
      EXPECT_EQ(generate(mesh, how, r), generate(single, how, r)) << model << " " << temperature;
    }
  }
}

TEST_F(SamplerTest, Bfloat16) {
  RandomModelOptions options;
  options.model = "gpt2";
  options.dtype = DType::kBF16;
  RandomModel of(options);
  const auto text = generate(of, {.top_k = 0, .dtype = DType::kBF16}, request(0))[0];
  ASSERT_EQ(text.size(), 40u);
  for (size_t at = 3; at < 40; ++at) {
    const auto logits =
        of.next_logits({text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at)});
    const float best = *std::max_element(logits.begin(), logits.end());
    // Sums in another order: some units in the last of bfloat16's 8 bits.
    EXPECT_GE(logits[static_cast<size_t>(text[at])], best - 0.04 * std::abs(best)) << at;
  }
}

TEST_F(SamplerTest, BadRequests) {
  Sampler made = sampler(one(), {});
  const auto result = [&](std::vector<int32_t> prompt, bool slide = false) {
    Sampler::Request r;
    r.prompt = std::move(prompt);
    r.slide = slide;
    return made.generate(one().pointers(), r);
  };
  expect_failure(result({}), Code::kInvalidArgument, {"the prompt has no tokens"});
  const std::vector<int32_t> filling(40, 1);
  expect_failure(result(filling), Code::kInvalidArgument,
                 {"the prompt has 40 tokens", "the model takes 40", "at most 39", "--slide"});
  EXPECT_TRUE(result(filling, true).ok());
  expect_failure(result({1, 61}), Code::kInvalidArgument, {"token id 61", "vocabulary of 61"});
  expect_failure(result({-1}), Code::kInvalidArgument, {"token id -1"});
  EXPECT_TRUE(result(std::vector<int32_t>(39, 1)).ok());
  const auto refused = [&](const SamplerOptions& options) {
    return error_of([&] { (void)sampler(one(), options); });
  };
  EXPECT_NE(refused({.top_p = 0}).find("top_p"), std::string::npos);
  EXPECT_NE(refused({.top_p = 1.5}).find("got 1.5"), std::string::npos);
  EXPECT_NE(refused({.top_p = std::nan("")}).find("top_p"), std::string::npos);
  EXPECT_NE(refused({.batch = 0}).find("batch"), std::string::npos);
}

}  // namespace
}  // namespace espalier::test
