#include "espalier/generate/decode.h"

#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

const TensorType kScalar = {DType::kS32, {}};

// A program under construction: arguments by name, then its function.
class Builder {
 public:
  Builder(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec, std::string name)
      : runtime_(runtime), spec_(spec) {
    program_.name = std::move(name);
    program_.rules = spec.rules;
    // Rows are few and share a prompt: every device of a data-parallel mesh computes all of them.
    program_.rules.axes.erase("batch");
    cache_ = program_.rules.resolve(kv_axes(), runtime->mesh());
    for (size_t i = 0; i < spec.params.size(); ++i) {
      argument(spec.model->params()[i].name, spec.params[i]->type, spec.params[i]->spec);
    }
  }

  Builder& argument(const std::string& name, TensorType type, PartitionSpec split = {}) {
    program_.arguments.push_back({name, make_layout(std::move(type), std::move(split))});
    program_.donated.emplace_back();
    return *this;
  }
  // Its memory becomes that of a result.
  Builder& donated(const std::string& name, TensorType type, int64_t to, PartitionSpec split = {}) {
    argument(name, std::move(type), std::move(split));
    program_.donated.back() = to;
    return *this;
  }
  Builder& draw_arguments() {
    return argument("temperature", {DType::kF32, {}}).argument("keys", {DType::kU32, {rows(), 2}});
  }

  int64_t rows() const { return spec_.rows; }
  int64_t longest() const { return spec_.model->max_len(); }
  TensorType cache_type(int64_t batch, int64_t length) const {
    return {spec_.dtype, spec_.model->kv_shape().dims(batch, length)};
  }
  const PartitionSpec& cache_split() const { return cache_; }

  // `body` gets the arguments behind the parameters.
  Result<Program> compile(std::vector<PartitionSpec> results,
                          const std::function<Tensors(const Tensors& in, const Ctx& cx)>& body) {
    const auto n = static_cast<int64_t>(spec_.params.size());
    program_.trace([&](const Tensors& in) {
      const Ctx cx = Ctx(spec_.model->params(), {in.begin(), in.begin() + n})
                         .computing(spec_.dtype)
                         .on(std::make_shared<const Placement>(Placement{
                             runtime_->client().platform_name(), runtime_->mesh(), spec_.rules}));
      return body({in.begin() + n, in.end()}, cx);
    });
    program_.results = std::move(results);
    return espalier::compile(runtime_, std::move(program_));
  }

  // Ids from the hidden states (R, T, D) at place `at` of T; with R = 1 all rows draw from them.
  Tensor next(const Tensor& hidden, const Tensor& at, const Tensor& temperature, const Tensor& keys,
              const Tensor& count, const Ctx& cx) const {
    const Tensor zero = full_int(kScalar, 0);
    const Tensor last = dynamic_slice(hidden, {zero, at, zero}, {hidden.dim(0), 1, hidden.dim(2)});
    Tensor logits = spec_.model->logits(last, cx);
    logits = convert(reshape(logits, {hidden.dim(0), logits.dim(2)}), DType::kF32);
    logits = slice_dim(shard(logits, {"", ""}), 1, 0, spec_.vocab);
    return draw(broadcast_to(logits, {rows(), spec_.vocab}), spec_.draw, temperature, keys, count);
  }

 private:
  const std::shared_ptr<Runtime>& runtime_;
  const DecodeSpec& spec_;
  ProgramSpec program_;
  PartitionSpec cache_;
};

Tensor plus(const Tensor& x, int64_t n) { return x + full_int(x.type(), n); }

}  // namespace

Result<Program> compile_prefill(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec,
                                int64_t bucket, int64_t cache_length) {
  Builder b(runtime, spec, "prefill");
  b.argument("tokens", {DType::kS32, {1, bucket}}).argument("length", kScalar);
  b.argument("count", kScalar).draw_arguments();
  const PartitionSpec& split = b.cache_split();
  return b.compile({{}, {}, split, split}, [&](const Tensors& in, const Ctx& cx) -> Tensors {
    const Tensor empty = zeros(b.cache_type(1, bucket));
    KvCache cache{empty, empty, full_int(kScalar, 0)};
    const Tensor hidden = spec.model->hidden(in[0], cx.decoding(&cache));
    const Tensor ids = b.next(hidden, plus(in[1], -1), in[3], in[4], in[2], cx);
    const auto whole = [&](const Tensor& part) {
      const Tensor longer = pad(part, 0.0, {0, 0, 0, 0, 0}, {0, 0, 0, cache_length - bucket, 0});
      return shard(broadcast_to(longer, b.cache_type(b.rows(), cache_length).dims), kv_axes());
    };
    return {ids, plus(in[2], 1), whole(cache.keys), whole(cache.values)};
  });
}

Result<Program> compile_step(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec,
                             int64_t cache_length) {
  Builder b(runtime, spec, "decode");
  const TensorType whole = b.cache_type(b.rows(), cache_length);
  const PartitionSpec& split = b.cache_split();
  b.argument("ids", {DType::kS32, {b.rows()}}).donated("count", kScalar, 1);
  b.donated("cache.keys", whole, 2, split).donated("cache.values", whole, 3, split);
  b.draw_arguments();
  return b.compile({{}, {}, split, split}, [&](const Tensors& in, const Ctx& cx) -> Tensors {
    KvCache cache{in[2], in[3], plus(in[1], -1)};
    const Tensor tokens = reshape(in[0], {b.rows(), 1});
    const Tensor hidden = spec.model->hidden(tokens, cx.decoding(&cache));
    const Tensor ids = b.next(hidden, full_int(kScalar, 0), in[4], in[5], in[1], cx);
    return {ids, plus(in[1], 1), shard(cache.keys, kv_axes()), shard(cache.values, kv_axes())};
  });
}

Result<Program> compile_window(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec) {
  Builder b(runtime, spec, "window");
  b.donated("window", {DType::kS32, {b.rows(), b.longest()}}, 2).donated("count", kScalar, 1);
  b.draw_arguments();
  return b.compile({{}, {}, {}}, [&](const Tensors& in, const Ctx& cx) -> Tensors {
    const Tensor hidden = spec.model->hidden(in[0], cx);
    const Tensor last = full_int(kScalar, b.longest() - 1);
    const Tensor ids = b.next(hidden, last, in[2], in[3], in[1], cx);
    const Tensor kept = slice_dim(in[0], 1, 1, b.longest());
    return {ids, plus(in[1], 1), concatenate({kept, reshape(ids, {b.rows(), 1})}, 1)};
  });
}

}  // namespace espalier
