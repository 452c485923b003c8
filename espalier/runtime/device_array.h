// DeviceArray: one global array, held in pieces by the devices of a mesh.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "espalier/ir/tensor.h"
#include "espalier/runtime/runtime.h"

namespace espalier {

// Global shape and how it is split. Shared by arrays, so that comparing is mostly of pointers.
struct ArrayLayout {
  TensorType type;
  PartitionSpec spec;
  bool operator==(const ArrayLayout&) const = default;
};
using LayoutPtr = std::shared_ptr<const ArrayLayout>;
LayoutPtr make_layout(TensorType type, PartitionSpec spec = {});
std::string to_string(const ArrayLayout& layout);  // "f32[8, 4] split [[batch], []]"

// Move-only: its buffers are owned. Moved-from and donated arrays are empty. Reading from several
// threads is safe.
class DeviceArray {
 public:
  DeviceArray() = default;
  // `shards` in the order of the mesh's devices.
  DeviceArray(std::shared_ptr<const Runtime> runtime, LayoutPtr layout, std::vector<Buffer> shards)
      : runtime_(std::move(runtime)), layout_(std::move(layout)), shards_(std::move(shards)) {}

  // Starts the transfers and returns. `lease` is kept until the host memory is no longer read;
  // without one the array itself is. Every device gets its own piece only.
  static Result<DeviceArray> from_host(const std::shared_ptr<Runtime>& runtime,
                                       const HostArray& host, const PartitionSpec& spec,
                                       std::shared_ptr<const void> lease = nullptr);

  // Made from pieces that `fill` writes (row-major, `bytes` of them): each distinct piece is asked
  // for once, so no host memory ever holds more than one.
  using FillPiece =
      std::function<Status(const Dims& offset, const Dims& dims, std::span<std::byte> bytes)>;
  static Result<DeviceArray> from_pieces(const std::shared_ptr<Runtime>& runtime, LayoutPtr layout,
                                         const FillPiece& fill);

  bool empty() const { return shards_.empty(); }
  const TensorType& type() const { return layout_->type; }
  const PartitionSpec& spec() const { return layout_->spec; }
  const LayoutPtr& layout() const { return layout_; }
  const Runtime* runtime() const { return runtime_.get(); }  // null where empty
  const std::vector<Buffer>& shards() const { return shards_; }
  std::vector<Buffer>& shards() { return shards_; }

  // Waits for the value and gathers it.
  Result<HostArray> to_host() const;
  // Waits, then visits each distinct piece once.
  using VisitPiece =
      std::function<Status(const Dims& offset, const Dims& dims, std::span<const std::byte> bytes)>;
  Status for_each_piece(const VisitPiece& visit) const;
  // Waits until the value is there, or its computation failed.
  Status wait() const;
  // Bytes on one device.
  Result<size_t> bytes_on_device(size_t device) const;

 private:
  std::shared_ptr<const Runtime> runtime_;
  LayoutPtr layout_;
  std::vector<Buffer> shards_;
};

}  // namespace espalier
