#include "espalier/train/text_loss.h"

#include <algorithm>

#include "espalier/train/model_outputs.h"

namespace espalier {
namespace {

constexpr int32_t kIgnored = -1;  // no id: marks targets behind the end

}  // namespace

Result<TextLoss> text_loss(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                           std::span<DeviceArray* const> params, std::span<const int32_t> tokens,
                           int64_t seq_len, int64_t batch_size) {
  if (seq_len < 1 || seq_len > on.model.max_len()) {
    throw Error("windows of " + std::to_string(seq_len) + " tokens do not fit the model, which " +
                "takes 1 to " + std::to_string(on.model.max_len()));
  }
  if (batch_size < 1) throw Error("a batch has at least 1 window");
  if (tokens.size() < 2) {
    return Failure{Code::kInvalidArgument, "a text needs at least 2 tokens to have a loss, got " +
                                               std::to_string(tokens.size())};
  }
  const int64_t vocab = on.model.vocab_size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return Failure{Code::kInvalidArgument,
                   "token " + std::to_string(i) + " has the id " + std::to_string(tokens[i]) +
                       ", but the model has ids 0 to " + std::to_string(vocab - 1)};
  }
  const auto predicted = static_cast<int64_t>(tokens.size()) - 1;
  const int64_t length = std::min(seq_len, predicted);
  const int64_t windows = (predicted + length - 1) / length;
  const int64_t rows = padded_rows(std::min(batch_size, windows), on.rules, runtime->mesh());
  ESPALIER_ASSIGN(EvalStep step, EvalStep::create(runtime, on, rows, length, kIgnored));
  TextLoss out;
  double counted = 0;
  for (int64_t begin = 0; begin < predicted; begin += rows * length) {
    Batch batch;
    batch.tokens = HostArray(DType::kS32, {rows, length});
    batch.targets = HostArray(DType::kS32, {rows, length});
    const int64_t here = std::min(rows * length, predicted - begin);
    const auto x = batch.tokens.as<int32_t>(), y = batch.targets.as<int32_t>();
    std::fill(y.begin(), y.end(), kIgnored);
    std::copy_n(tokens.begin() + begin, here, x.begin());
    std::copy_n(tokens.begin() + begin + 1, here, y.begin());
    ESPALIER_ASSIGN(const EvalLoss loss, step.run(params, batch));
    out.nats += loss.sum;
    counted += loss.count;
  }
  out.tokens = predicted;
  if (counted != static_cast<double>(predicted)) {
    return Failure{Code::kInternal, "the evaluation counted " + std::to_string(counted) +
                                        " positions instead of " + std::to_string(predicted)};
  }
  return out;
}

}  // namespace espalier
