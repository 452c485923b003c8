#include "espalier/runtime/device_array.h"

#include <map>

namespace espalier {
namespace {

size_t bytes_of(DType dtype, const Dims& dims) {
  return static_cast<size_t>(num_elements(dims)) * byte_size(dtype);
}

// Copies a block between a whole row-major array and a dense piece of it, a row at a time.
template <class Copy>
void for_each_row(const Dims& global, const ShardSlice& piece, size_t element, Copy copy) {
  if (num_elements(piece.dims) == 0) return;
  const size_t rank = global.size();
  // Trailing dims that are whole make the rows longer.
  size_t outer = rank;
  size_t row = element;
  while (outer > 0) {
    --outer;
    row *= static_cast<size_t>(piece.dims[outer]);
    if (piece.dims[outer] != global[outer]) break;
  }
  std::vector<size_t> stride(rank, element);
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * static_cast<size_t>(global[i]);
  size_t base = 0;
  for (size_t i = 0; i < rank; ++i) base += stride[i] * static_cast<size_t>(piece.offset[i]);
  Dims index(outer, 0);
  for (size_t at = 0;; at += row) {
    size_t from = base;
    for (size_t i = 0; i < outer; ++i) from += stride[i] * static_cast<size_t>(index[i]);
    copy(from, at, row);
    size_t i = outer;
    while (i > 0 && ++index[i - 1] == piece.dims[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

// Devices by the piece they hold.
std::map<Dims, std::vector<size_t>> devices_by_piece(const Mesh& mesh, const ArrayLayout& layout,
                                                     size_t devices) {
  std::map<Dims, std::vector<size_t>> out;
  for (size_t d = 0; d < devices; ++d) {
    out[shard_slice(mesh, layout.spec, layout.type.dims, static_cast<int64_t>(d), "array").offset]
        .push_back(d);
  }
  return out;
}

}  // namespace

LayoutPtr make_layout(TensorType type, PartitionSpec spec) {
  return std::make_shared<const ArrayLayout>(ArrayLayout{std::move(type), std::move(spec)});
}

std::string to_string(const ArrayLayout& layout) {
  return to_string(layout.type) + " split " + to_string(layout.spec);
}

Result<DeviceArray> DeviceArray::from_host(const std::shared_ptr<Runtime>& runtime,
                                           const HostArray& host, const PartitionSpec& spec,
                                           std::shared_ptr<const void> lease) {
  LayoutPtr layout = make_layout({host.dtype(), host.dims()}, spec);
  if (lease == nullptr) lease = std::make_shared<HostArray>(host);
  const size_t element = byte_size(host.dtype());
  std::map<Dims, std::pair<const std::byte*, std::shared_ptr<const void>>> packed;
  std::vector<Buffer> shards;
  for (size_t d = 0; d < runtime->devices().size(); ++d) {
    const ShardSlice piece =
        shard_slice(runtime->mesh(), spec, host.dims(), static_cast<int64_t>(d), "array");
    auto& [data, owner] = packed[piece.offset];
    if (data == nullptr) {
      // A piece that is one run of the array is sent from where it lies.
      size_t runs = 0, first = 0;
      for_each_row(host.dims(), piece, element, [&](size_t from, size_t, size_t) {
        if (runs++ == 0) first = from;
      });
      if (runs <= 1) {
        data = host.data() + first;
        owner = lease;
      } else {
        auto copy = std::make_shared<HostArray>(host.dtype(), piece.dims);
        for_each_row(host.dims(), piece, element, [&](size_t from, size_t to, size_t n) {
          std::memcpy(copy->data() + to, host.data() + from, n);
        });
        data = copy->data();
        owner = copy;
      }
    }
    ESPALIER_ASSIGN(
        HostTransfer transfer,
        runtime->client().buffer_from_host(data, host.dtype(), piece.dims, *runtime->devices()[d],
                                           HostSemantics::kUntilTransferCompletes));
    ESPALIER_TRY(transfer.done.on_ready([keep = owner](Status) {}));
    shards.push_back(std::move(transfer.buffer));
  }
  return DeviceArray(runtime, std::move(layout), std::move(shards));
}

Result<DeviceArray> DeviceArray::from_pieces(const std::shared_ptr<Runtime>& runtime,
                                             LayoutPtr layout, const FillPiece& fill) {
  std::vector<Buffer> shards(runtime->devices().size());
  const Dims dims = shard_dims(runtime->mesh(), layout->spec, layout->type.dims, "array");
  for (const auto& [offset, devices] :
       devices_by_piece(runtime->mesh(), *layout, runtime->devices().size())) {
    HostArray piece(layout->type.dtype, dims);
    ESPALIER_TRY(fill(offset, dims, {piece.data(), piece.bytes()}));
    for (const size_t d : devices) {
      ESPALIER_ASSIGN(shards[d], runtime->client().buffer_from_host(piece, *runtime->devices()[d]));
    }
  }
  return DeviceArray(runtime, std::move(layout), std::move(shards));
}

Status DeviceArray::for_each_piece(const VisitPiece& visit) const {
  const Dims dims = shard_dims(runtime_->mesh(), layout_->spec, layout_->type.dims, "array");
  std::vector<std::byte> memory(bytes_of(layout_->type.dtype, dims));
  for (const auto& [offset, devices] :
       devices_by_piece(runtime_->mesh(), *layout_, shards_.size())) {
    ESPALIER_ASSIGN(const Event done, shards_[devices[0]].to_host(memory.data(), memory.size()));
    ESPALIER_TRY(done.await());
    ESPALIER_TRY(visit(offset, dims, memory));
  }
  return {};
}

Result<HostArray> DeviceArray::to_host() const {
  HostArray out(layout_->type.dtype, layout_->type.dims);
  const size_t element = byte_size(out.dtype());
  ESPALIER_TRY(for_each_piece(
      [&](const Dims& offset, const Dims& dims, std::span<const std::byte> bytes) -> Status {
        for_each_row(out.dims(), {offset, dims}, element, [&](size_t to, size_t from, size_t n) {
          std::memcpy(out.data() + to, bytes.data() + from, n);
        });
        return {};
      }));
  return out;
}

Status DeviceArray::wait() const {
  for (const Buffer& shard : shards_) {
    ESPALIER_ASSIGN(const Event ready, shard.ready_event());
    ESPALIER_TRY(ready.await());
  }
  return {};
}

Result<size_t> DeviceArray::bytes_on_device(size_t device) const {
  return shards_.at(device).on_device_bytes();
}

}  // namespace espalier
