#include "espalier/mesh/mesh.h"

#include <map>

namespace espalier {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name.empty()) throw Error("mesh axis " + std::to_string(i) + " has no name");
    if (axes_[i].size < 1) {
      throw Error("mesh axis '" + axes_[i].name + "' needs a size of at least 1, got " +
                  std::to_string(axes_[i].size));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes_[j].name == axes_[i].name) {
        throw Error("mesh axis '" + axes_[i].name + "' stands twice");
      }
    }
  }
}

int64_t Mesh::size() const {
  int64_t n = 1;
  for (const MeshAxis& axis : axes_) n *= axis.size;
  return n;
}

std::optional<size_t> Mesh::find(std::string_view axis) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
  }
  return std::nullopt;
}

int64_t Mesh::size(std::string_view axis) const {
  if (const auto i = find(axis)) return axes_[*i].size;
  throw Error("the mesh " + to_string() + " has no axis '" + std::string(axis) + "'");
}

int64_t Mesh::size(const std::vector<std::string>& axes) const {
  int64_t n = 1;
  for (const std::string& axis : axes) n *= size(axis);
  return n;
}

std::vector<int64_t> Mesh::coordinates(int64_t device) const {
  std::vector<int64_t> out(axes_.size());
  for (size_t i = axes_.size(); i-- > 0;) {
    out[i] = device % axes_[i].size;
    device /= axes_[i].size;
  }
  return out;
}

std::vector<std::vector<int64_t>> Mesh::groups(const std::vector<std::string>& axes) const {
  const int64_t group_size = size(axes);
  std::map<std::vector<int64_t>, std::vector<int64_t>> by_rest;
  for (int64_t device = 0; device < size(); ++device) {
    std::vector<int64_t> rest = coordinates(device);
    int64_t rank = 0;
    for (const std::string& axis : axes) {
      const size_t i = *find(axis);
      rank = rank * axes_[i].size + rest[i];
      rest[i] = -1;
    }
    auto& group = by_rest[rest];
    group.resize(group_size);
    group[rank] = device;
  }
  std::vector<std::vector<int64_t>> out;
  for (auto& [rest, group] : by_rest) out.push_back(std::move(group));
  return out;
}

std::string Mesh::to_string() const {
  std::string out = "{";
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (i > 0) out += ", ";
    out += axes_[i].name + " = " + std::to_string(axes_[i].size);
  }
  return out + "}";
}

std::string to_string(const PartitionSpec& spec) {
  std::string out = "[";
  for (size_t i = 0; i < spec.size(); ++i) {
    if (i > 0) out += ", ";
    out += "[";
    for (size_t j = 0; j < spec[i].size(); ++j) out += (j > 0 ? ", " : "") + spec[i][j];
    out += "]";
  }
  return out + "]";
}

Dims shard_dims(const Mesh& mesh, const PartitionSpec& spec, const Dims& global,
                std::string_view what) {
  if (spec.size() > global.size()) {
    throw Error(std::string(what) + ": a sharding of " + std::to_string(spec.size()) +
                " dims for an array of shape " + to_string(global));
  }
  Dims out = global;
  for (size_t i = 0; i < spec.size(); ++i) {
    const int64_t parts = mesh.size(spec[i]);
    if (global[i] % parts != 0) {
      std::string axes;
      for (const std::string& axis : spec[i]) axes += (axes.empty() ? "'" : ", '") + axis + "'";
      throw Error(std::string(what) + ": dim " + std::to_string(i) + " of shape " +
                  to_string(global) + " is " + std::to_string(global[i]) + ", which mesh axis " +
                  axes + " of size " + std::to_string(parts) +
                  " does not divide; change the size, the mesh or the sharding rule");
    }
    out[i] = global[i] / parts;
  }
  return out;
}

ShardSlice shard_slice(const Mesh& mesh, const PartitionSpec& spec, const Dims& global,
                       int64_t device, std::string_view what) {
  ShardSlice out{Dims(global.size(), 0), shard_dims(mesh, spec, global, what)};
  const std::vector<int64_t> at = mesh.coordinates(device);
  for (size_t i = 0; i < spec.size(); ++i) {
    int64_t index = 0;
    for (const std::string& name : spec[i]) {
      for (size_t a = 0; a < mesh.axes().size(); ++a) {
        if (mesh.axes()[a].name == name) index = index * mesh.axes()[a].size + at[a];
      }
    }
    out.offset[i] = index * out.dims[i];
  }
  return out;
}

}  // namespace espalier
