// Mesh: named axes over devices. PartitionSpec: which mesh axes split each dim of a tensor.
// Pure values: no plugin is needed to make or compare them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/dtype.h"

namespace espalier {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

// Device number d stands at row-major coordinates: the last axis varies fastest.
// A mesh without axes is one device.
class Mesh {
 public:
  Mesh() = default;
  // Throws Error when a size is below 1 or a name stands twice or is empty.
  explicit Mesh(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t size() const;  // number of devices
  bool has(std::string_view axis) const { return find(axis).has_value(); }
  // Size of an axis; throws Error, naming the axes there are, when there is none of that name.
  int64_t size(std::string_view axis) const;
  // Product of the sizes of several axes.
  int64_t size(const std::vector<std::string>& axes) const;
  // Coordinate of a device on each axis.
  std::vector<int64_t> coordinates(int64_t device) const;
  // Devices in groups that differ in the coordinates of the given axes alone, each group ordered
  // row-major by those axes in the order given.
  std::vector<std::vector<int64_t>> groups(const std::vector<std::string>& axes) const;

  // "{batch = 4, model = 2}"
  std::string to_string() const;
  bool operator==(const Mesh&) const = default;

 private:
  std::optional<size_t> find(std::string_view axis) const;
  std::vector<MeshAxis> axes_;
};

// For each dim of a tensor the mesh axes that split it, major first; an empty list: not split.
using PartitionSpec = std::vector<std::vector<std::string>>;

// "[[batch], [], [model]]"
std::string to_string(const PartitionSpec& spec);

// The piece of a global array that one device holds: `offset` and `dims` per dim. Throws Error
// naming `what`, dim, axes and size when a dim is not divided evenly.
struct ShardSlice {
  Dims offset;
  Dims dims;
  bool operator==(const ShardSlice&) const = default;
};
ShardSlice shard_slice(const Mesh& mesh, const PartitionSpec& spec, const Dims& global,
                       int64_t device, std::string_view what);
// Dims of one device's piece.
Dims shard_dims(const Mesh& mesh, const PartitionSpec& spec, const Dims& global,
                std::string_view what);

}  // namespace espalier
