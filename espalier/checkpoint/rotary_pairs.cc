#include "espalier/checkpoint/rotary_pairs.h"

#include <algorithm>
#include <cstring>

namespace espalier {
namespace {

// Where row `row` of the order of halves stands in the order of pairs.
int64_t row_in_pairs(int64_t row, int64_t width) {
  const int64_t in_head = row % width, half = width / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

}  // namespace

RotaryHalves::RotaryHalves(std::shared_ptr<const TensorSource> source,
                           std::map<std::string, int64_t> head_widths)
    : source_(std::move(source)) {
  for (const auto& [name, width] : head_widths) {
    const TensorInfo* tensor = source_->find(name);
    if (tensor == nullptr || tensor->dims.empty() || tensor->dims[0] % width != 0) continue;
    widths_.emplace(name, width);
  }
}

Status RotaryHalves::read_view(std::string_view name, const Dims& view, const Dims& offset,
                               const Dims& shape, std::span<std::byte> out) const {
  const auto found = widths_.find(name);
  if (found == widths_.end()) return source_->read_view(name, view, offset, shape, out);
  const TensorInfo& tensor = *source_->find(name);
  ESPALIER_ASSIGN(const TensorInfo seen, viewed(tensor, view));
  ESPALIER_TRY(check_slice(seen, offset, shape, out.size()));
  const int64_t rows = tensor.dims[0],
                width = num_elements(tensor.dims) / std::max<int64_t>(rows, 1);
  const uint64_t element = byte_size(tensor.dtype);
  const uint64_t row_bytes = static_cast<uint64_t>(width) * element;
  return for_each_run(
      seen, offset, shape, [&](uint64_t from, uint64_t to, uint64_t bytes) -> Status {
        while (bytes > 0) {
          const uint64_t row = from / row_bytes, in_row = from % row_bytes;
          const uint64_t n = std::min(bytes, row_bytes - in_row);
          const Dims at = {row_in_pairs(static_cast<int64_t>(row), found->second),
                           static_cast<int64_t>(in_row / element)};
          ESPALIER_TRY(source_->read_view(
              name, {rows, width}, at, {1, static_cast<int64_t>(n / element)}, out.subspan(to, n)));
          from += n;
          to += n;
          bytes -= n;
        }
        return {};
      });
}

HostArray rotary_halves(const HostArray& pairs, int64_t head_width) {
  HostArray out(pairs.dtype(), pairs.dims());
  const int64_t rows = pairs.dims().at(0);
  const size_t bytes = pairs.bytes() / static_cast<size_t>(std::max<int64_t>(rows, 1));
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(out.data() + static_cast<size_t>(row) * bytes,
                pairs.data() + static_cast<size_t>(row_in_pairs(row, head_width)) * bytes, bytes);
  }
  return out;
}

}  // namespace espalier
