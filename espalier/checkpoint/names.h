// Names of tensors: which a file has too many, which it lacks, and files that call them otherwise.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/checkpoint/tensor_source.h"

namespace espalier {

// That the source has exactly the expected tensors, in these shapes. Unexpected ones whose names
// match one of `ignored` ('*' for any run of characters) may be there: buffers, tied weights. An
// expected floating type stands for any (see StoredType), others for themselves. kInvalidArgument
// lists unknown, missing and misshapen tensors, five of each and the number of the others, with the
// nearest names.
Status check_names(const TensorSource& source, const std::vector<TensorInfo>& expected,
                   const std::vector<std::string>& ignored = {});

// A source under other names. A tensor that is not renamed keeps its own. Copies share the source.
class RenamedSource : public TensorSource {
 public:
  // `names`: ours -> the source's. Names that the source lacks are as good as left out.
  // kInvalidArgument when two tensors would have one name, or one would have two.
  static Result<RenamedSource> create(std::shared_ptr<const TensorSource> source,
                                      const std::map<std::string, std::string>& names);

  std::string where() const override { return source_->where(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  Status read_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                   std::span<std::byte> out) const override;

 private:
  explicit RenamedSource(std::shared_ptr<const TensorSource> source) : source_(std::move(source)) {}
  std::shared_ptr<const TensorSource> source_;
  std::vector<TensorInfo> tensors_;                   // in the source's order, renamed
  std::map<std::string, size_t, std::less<>> index_;  // our name -> place in both lists of tensors
};

// Our names for the tensors whose names begin with `prefix`: the same without it.
std::map<std::string, std::string> names_without_prefix(const TensorSource& source,
                                                        std::string_view prefix);

}  // namespace espalier
