// Weights of attention whose rotary pairs lie side by side, as Meta and torchtitan store them, seen
// as Hugging Face stores them. A tensor (heads * K, ...) has a row for each element of each head:
// rows 2i and 2i + 1 of a head turn together there, i and i + K / 2 here.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "espalier/base/host_array.h"
#include "espalier/checkpoint/tensor_source.h"

namespace espalier {

// A source with the rows of some tensors in the order of halves. Copies share the source.
class RotaryHalves : public TensorSource {
 public:
  // `head_widths`: tensor -> K, even. A tensor whose rows are no multiple of it stays as it is.
  RotaryHalves(std::shared_ptr<const TensorSource> source,
               std::map<std::string, int64_t> head_widths);

  std::string where() const override { return source_->where(); }
  const std::vector<TensorInfo>& tensors() const override { return source_->tensors(); }
  const TensorInfo* find(std::string_view name) const override { return source_->find(name); }
  Status read_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                   std::span<std::byte> out) const override;

 private:
  std::shared_ptr<const TensorSource> source_;
  std::map<std::string, int64_t, std::less<>> widths_;
};

// The same of an array, whose rows must be a multiple of the even `head_width`.
HostArray rotary_halves(const HostArray& pairs, int64_t head_width);

}  // namespace espalier
