#include "espalier/generate/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace espalier {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

constexpr int64_t kSmallestBucket = 16;

// What prompts are padded to, and caches rounded up to, so that few programs serve all lengths.
int64_t bucket_of(int64_t length, int64_t longest) {
  int64_t bucket = kSmallestBucket;
  while (bucket < length) bucket *= 2;
  return std::min(bucket, longest);
}

}  // namespace

Sampler::Sampler(std::shared_ptr<Runtime> runtime, const LanguageModel& model,
                 std::vector<LayoutPtr> params, const ShardingRules& rules,
                 const SamplerOptions& options)
    : runtime_(std::move(runtime)), stop_at_(options.stop_at) {
  spec_.model = &model;
  spec_.params = std::move(params);
  spec_.rules = rules;
  spec_.vocab = model.vocab_size();
  if (options.vocab > 0) spec_.vocab = std::min(spec_.vocab, options.vocab);
  spec_.rows = options.batch;
  spec_.dtype = options.dtype;
  spec_.draw = {std::min(options.top_k, spec_.vocab), options.top_p};
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw Error(
        fmt::format("top_p (--top-p) must be above 0 and at most 1, got {}", options.top_p));
  }
  if (options.batch < 1) {
    throw Error(fmt::format("a batch has at least 1 text, got {}", options.batch));
  }
}

Status Sampler::check(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const auto bad = [](std::string message) {
    return Failure{Code::kInvalidArgument, std::move(message)};
  };
  if (prompt == 0) return bad("the prompt has no tokens; give a text to continue");
  if (prompt >= max_len() && !request.slide) {
    return bad(fmt::format(
        "the prompt has {} tokens, but the model takes {} with at least one that follows, so a "
        "prompt has at most {}; shorten it, or let the window slide (--slide)",
        prompt, max_len(), max_len() - 1));
  }
  if (std::max(prompt, request.max_tokens) > std::numeric_limits<int32_t>::max()) {
    return bad(fmt::format("a text has at most {} tokens, asked for {}",
                           std::numeric_limits<int32_t>::max(),
                           std::max(prompt, request.max_tokens)));
  }
  for (const int32_t id : request.prompt) {
    if (id >= 0 && id < spec_.model->vocab_size()) continue;
    return bad(fmt::format("the prompt has token id {}, outside the model's vocabulary of {}", id,
                           spec_.model->vocab_size()));
  }
  return {};
}

template <class Make>
Result<Program*> Sampler::kept(std::optional<Program>& place, const Make& make) {
  if (!place) {
    const Stopwatch watch;
    ESPALIER_ASSIGN(place, make());
    times_.compile_seconds += watch.seconds();
  }
  return &*place;
}

Result<Program*> Sampler::prefill(const Lengths& lengths) {
  return kept(prefill_[lengths],
              [&] { return compile_prefill(runtime_, spec_, lengths.bucket, lengths.cache); });
}
Result<Program*> Sampler::step(int64_t cache_length) {
  return kept(step_[cache_length], [&] { return compile_step(runtime_, spec_, cache_length); });
}
Result<Program*> Sampler::window() {
  return kept(window_, [&] { return compile_window(runtime_, spec_); });
}

// The texts that are made together. The programs' rows past the wanted ones run along unread.
class Sampler::Batch {
 public:
  Batch(Sampler& sampler, std::span<DeviceArray* const> params, const Request& request,
        const OnToken& on_token, int64_t first, int64_t wanted)
      : sampler_(sampler),
        params_(params),
        request_(request),
        on_token_(on_token),
        first_(first),
        texts_(static_cast<size_t>(wanted), request.prompt),
        ended_(texts_.size(), false) {}

  // Makes texts of `length` tokens where they do not end before.
  Status run(int64_t length) {
    const auto prompt = static_cast<int64_t>(request_.prompt.size());
    if (length <= prompt) return {};
    ESPALIER_TRY(put_draw_arguments());
    cache_length_ = bucket_of(std::min(length, sampler_.max_len()), sampler_.max_len());
    ESPALIER_TRY(read_prompt(prompt));
    const double compiled = times().compile_seconds;
    const Stopwatch watch;
    for (int64_t count = prompt + 1; count < length && !done(); ++count) {
      if (count > sampler_.max_len() && window_.empty()) {
        ESPALIER_TRY(read_newest());
        if (done()) break;
        ESPALIER_TRY(open_window());
      }
      // The next tokens are on their way before the newest are read.
      const bool unread = std::exchange(unread_, false);
      DeviceArray newest = std::move(ids_);
      ESPALIER_TRY(count > sampler_.max_len() ? move_window() : step(newest));
      if (unread) ESPALIER_TRY(read(newest, times().decode_tokens));
      unread_ = true;
    }
    if (!done()) ESPALIER_TRY(read_newest());
    times().decode_seconds += watch.seconds() - (times().compile_seconds - compiled);
    return {};
  }

  std::vector<std::vector<int32_t>>& texts() { return texts_; }

 private:
  bool done() const { return std::find(ended_.begin(), ended_.end(), false) == ended_.end(); }
  int64_t rows() const { return sampler_.spec_.rows; }
  SampleTimes& times() { return sampler_.times_; }

  Result<DeviceArray> put(const HostArray& array) const {
    return DeviceArray::from_host(sampler_.runtime_, array, {});
  }
  Result<DeviceArray> put(int64_t number) const {
    return put(HostArray::scalar(static_cast<int32_t>(number)));
  }

  Status put_draw_arguments() {
    HostArray keys(DType::kU32, {rows(), 2});
    for (int64_t row = 0; row < rows(); ++row) {
      const uint64_t seed = request_.seed + static_cast<uint64_t>(first_ + row);
      const auto at = static_cast<size_t>(2 * row);
      keys.as<uint32_t>()[at] = static_cast<uint32_t>(seed >> 32);
      keys.as<uint32_t>()[at + 1] = static_cast<uint32_t>(seed);
    }
    ESPALIER_ASSIGN(keys_, put(keys));
    const auto temperature = static_cast<float>(request_.temperature);
    ESPALIER_ASSIGN(temperature_, put(HostArray::scalar(temperature)));
    return {};
  }

  // Runs a program on the parameters, `own`, temperature and keys, and keeps its ids and count.
  Result<std::vector<DeviceArray>> run(Program& program, std::initializer_list<DeviceArray*> own) {
    std::vector<DeviceArray*> arguments(params_.begin(), params_.end());
    arguments.insert(arguments.end(), own);
    arguments.insert(arguments.end(), {&temperature_, &keys_});
    ESPALIER_ASSIGN(std::vector<DeviceArray> out, program.run(arguments));
    ids_ = std::move(out[0]);
    count_ = std::move(out[1]);
    return out;
  }

  Status read_prompt(int64_t prompt) {
    const int64_t seen = std::min(prompt, sampler_.max_len());
    const int64_t bucket = bucket_of(seen, sampler_.max_len());
    ESPALIER_ASSIGN(Program* const program, sampler_.prefill({bucket, cache_length_}));
    const Stopwatch watch;
    HostArray padded(DType::kS32, {1, bucket});
    std::copy(request_.prompt.end() - seen, request_.prompt.end(), padded.as<int32_t>().begin());
    ESPALIER_ASSIGN(DeviceArray tokens, put(padded));
    ESPALIER_ASSIGN(DeviceArray length, put(seen));
    ESPALIER_ASSIGN(DeviceArray count, put(prompt));
    ESPALIER_ASSIGN(std::vector<DeviceArray> out, run(*program, {&tokens, &length, &count}));
    cache_keys_ = std::move(out[2]);
    cache_values_ = std::move(out[3]);
    ESPALIER_TRY(read(ids_, times().first_tokens));
    times().prompt_tokens += seen;
    times().prefill_seconds += watch.seconds();
    return {};
  }

  Status step(DeviceArray& newest) {
    ESPALIER_ASSIGN(Program* const program, sampler_.step(cache_length_));
    ESPALIER_ASSIGN(std::vector<DeviceArray> out,
                    run(*program, {&newest, &count_, &cache_keys_, &cache_values_}));
    cache_keys_ = std::move(out[2]);
    cache_values_ = std::move(out[3]);
    return {};
  }

  // The last tokens of each text; of one that has ended, or is not wanted, the first's.
  Status open_window() {
    cache_keys_ = {};
    cache_values_ = {};
    const int64_t longest = sampler_.max_len();
    HostArray window(DType::kS32, {rows(), longest});
    const auto going =
        static_cast<size_t>(std::find(ended_.begin(), ended_.end(), false) - ended_.begin());
    for (int64_t row = 0; row < rows(); ++row) {
      const auto own = static_cast<size_t>(row);
      const bool wanted = own < texts_.size() && !ended_[own];
      const std::vector<int32_t>& text = texts_[wanted ? own : going];
      std::copy(text.end() - longest, text.end(), window.as<int32_t>().begin() + row * longest);
    }
    ESPALIER_ASSIGN(window_, put(window));
    return {};
  }

  Status move_window() {
    ESPALIER_ASSIGN(Program* const program, sampler_.window());
    ESPALIER_ASSIGN(std::vector<DeviceArray> out, run(*program, {&window_, &count_}));
    window_ = std::move(out[2]);
    return {};
  }

  // Appends ids to the texts that go on; `tokens` counts them.
  Status read(const DeviceArray& ids, int64_t& tokens) {
    ESPALIER_ASSIGN(const HostArray host, ids.to_host());
    for (size_t row = 0; row < texts_.size(); ++row) {
      if (ended_[row]) continue;
      const int32_t id = host.as<int32_t>()[row];
      ++tokens;
      if (sampler_.stop_at_ == id) {
        ended_[row] = true;
        continue;
      }
      texts_[row].push_back(id);
      if (on_token_) on_token_(first_ + static_cast<int64_t>(row), id);
    }
    return {};
  }
  Status read_newest() {
    if (!std::exchange(unread_, false)) return {};
    return read(ids_, times().decode_tokens);
  }

  Sampler& sampler_;
  std::span<DeviceArray* const> params_;
  const Request& request_;
  const OnToken& on_token_;
  int64_t first_;             // sample of the first row
  int64_t cache_length_ = 0;  // for all tokens of a text, as far as a cache serves them
  std::vector<std::vector<int32_t>> texts_;
  std::vector<bool> ended_;
  DeviceArray keys_, temperature_;
  DeviceArray ids_, count_;  // the newest tokens, and how many each text has with them
  DeviceArray cache_keys_, cache_values_, window_;
  bool unread_ = false;  // ids_ are not in the texts yet
};

Result<std::vector<std::vector<int32_t>>> Sampler::generate(std::span<DeviceArray* const> params,
                                                            const Request& request,
                                                            const OnToken& on_token) {
  times_ = {};
  ESPALIER_TRY(check(request));
  int64_t length = request.max_tokens > 0 ? request.max_tokens : max_len();
  if (!request.slide) length = std::min(length, max_len());
  std::vector<std::vector<int32_t>> all;
  for (int64_t first = 0; first < request.samples; first += spec_.rows) {
    const int64_t wanted = std::min(spec_.rows, request.samples - first);
    Batch batch(*this, params, request, on_token, first, wanted);
    ESPALIER_TRY(batch.run(length));
    for (std::vector<int32_t>& text : batch.texts()) all.push_back(std::move(text));
  }
  return all;
}

}  // namespace espalier
