// The oracle's manual regions and collectives: all devices of the mesh in step.
#include <cmath>

#include "espalier/ops/shard_map.h"
#include "tests/support/oracle_array.h"

namespace espalier::test {
namespace {

size_t axis_at(const Mesh& mesh, const std::string& name) {
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    if (mesh.axes()[i].name == name) return i;
  }
  throw Error("[oracle] no mesh axis " + name);
}

// Index of a device along several axes, the first one most significant.
int64_t index_along(const Mesh& mesh, const std::vector<std::string>& axes, int64_t device) {
  int64_t out = 0;
  for (const std::string& axis : axes) {
    const size_t i = axis_at(mesh, axis);
    out = out * mesh.axes()[i].size + mesh.coordinates(device)[i];
  }
  return out;
}

// The device at `index` along the axes among those that share the other coordinates with `device`.
size_t peer(const Mesh& mesh, const std::vector<std::string>& axes, int64_t device, int64_t index) {
  std::vector<bool> free(mesh.axes().size());
  for (const std::string& axis : axes) free[axis_at(mesh, axis)] = true;
  for (int64_t other = 0; other < mesh.size(); ++other) {
    bool same = index_along(mesh, axes, other) == index;
    for (size_t i = 0; i < free.size(); ++i) {
      same &= free[i] || mesh.coordinates(other)[i] == mesh.coordinates(device)[i];
    }
    if (same) return static_cast<size_t>(other);
  }
  throw Error("[oracle] no such device");
}

// Part `index` of `parts` along a dim.
Array piece(const Array& in, size_t dim, int64_t index, int64_t parts) {
  TensorType type = in.type;
  type.dims[dim] /= parts;
  Array out(type);
  each_index(type.dims, [&](const Dims& at) {
    Dims from = at;
    from[dim] += index * type.dims[dim];
    out.at(at) = in.at(from);
  });
  return out;
}

Array joined(const Arrays& parts, size_t dim) {
  TensorType type = parts[0].type;
  const int64_t each = type.dims[dim];
  type.dims[dim] *= static_cast<int64_t>(parts.size());
  Array out(type);
  each_index(type.dims, [&](const Dims& at) {
    Dims from = at;
    from[dim] %= each;
    out.at(at) = parts[static_cast<size_t>(at[dim] / each)].at(from);
  });
  return out;
}

Array sum_over(const Mesh& mesh, const std::vector<std::string>& axes, const Lanes& in,
               int64_t device) {
  Array out(in[0].type);
  for (int64_t i = 0; i < mesh.size(axes); ++i) {
    const Array& one = in[peer(mesh, axes, device, i)];
    for (size_t k = 0; k < out.cells.size(); ++k) {
      out.cells[k] = plus(out.type.dtype, out.cells[k], one.cells[k]);
    }
  }
  return out;
}

Dims piece_start(const Mesh& mesh, const PartitionSpec& spec, const Dims& piece, int64_t device) {
  Dims out(piece.size(), 0);
  for (size_t i = 0; i < spec.size(); ++i) {
    out[i] = piece[i] * index_along(mesh, spec[i], device);
  }
  return out;
}

Lanes split(const Mesh& mesh, const PartitionSpec& spec, const Array& global,
            const TensorType& local) {
  Lanes out;
  for (int64_t device = 0; device < mesh.size(); ++device) {
    const Dims start = piece_start(mesh, spec, local.dims, device);
    Array mine(local);
    each_index(local.dims, [&](const Dims& at) {
      Dims from = at;
      for (size_t i = 0; i < at.size(); ++i) from[i] += start[i];
      mine.at(at) = global.at(from);
    });
    out.push_back(std::move(mine));
  }
  return out;
}

Array assemble(const Mesh& mesh, const PartitionSpec& spec, const Lanes& pieces,
               const TensorType& global) {
  Array out(global);
  std::vector<bool> written(out.cells.size());
  for (int64_t device = 0; device < mesh.size(); ++device) {
    const Array& mine = pieces[static_cast<size_t>(device)];
    const Dims start = piece_start(mesh, spec, mine.type.dims, device);
    each_index(mine.type.dims, [&](const Dims& at) {
      Dims to = at;
      for (size_t i = 0; i < at.size(); ++i) to[i] += start[i];
      const size_t k = out.offset(to);
      const Cell& cell = mine.at(at);
      const bool same = equal(global.dtype, out.cells[k], cell) ||
                        (std::isnan(out.cells[k].real) && std::isnan(cell.real));
      if (written[k] && !same) {
        throw Error("[oracle] a result of shard_map that should be equal on several devices is " +
                    std::to_string(out.cells[k].real) + " on one and " + std::to_string(cell.real) +
                    " on device " + std::to_string(device));
      }
      out.cells[k] = cell;
      written[k] = true;
    });
  }
  for (const bool w : written) {
    if (!w) throw Error("[oracle] a result of shard_map has an element that no device gave");
  }
  return out;
}

std::vector<Lanes> run_region(const ShardMap& op, const Node& node, const std::vector<Lanes>& in) {
  const auto devices = static_cast<size_t>(op.mesh.size());
  std::vector<Lanes> local;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].size() != 1) throw Error("[oracle] has no nested manual regions");
    local.push_back(split(op.mesh, op.in_specs[i], in[i][0], op.body->params[i].type()));
  }
  const std::vector<Lanes> results = run(*op.body, local, devices);
  std::vector<Lanes> out;
  for (size_t i = 0; i < results.size(); ++i) {
    out.push_back({assemble(op.mesh, op.out_specs[i], results[i], node.types[i])});
  }
  return out;
}

}  // namespace

bool evaluate_manual(const Node& node, const std::vector<Lanes>& in, std::vector<Lanes>& out) {
  if (const auto* op = node.as<ShardMap>()) {
    out = run_region(*op, node, in);
    return true;
  }
  const Mesh* mesh = nullptr;
  std::function<Array(int64_t)> on_device;
  if (const auto* op = node.as<AllReduce>()) {
    mesh = &op->mesh;
    on_device = [&, op](int64_t d) { return sum_over(*mesh, op->axes, in[0], d); };
  } else if (const auto* op = node.as<AllGather>()) {
    mesh = &op->mesh;
    on_device = [&, op](int64_t d) {
      Arrays parts;
      for (int64_t i = 0; i < mesh->size(op->axes); ++i) {
        parts.push_back(in[0][peer(*mesh, op->axes, d, i)]);
      }
      return joined(parts, static_cast<size_t>(op->dim));
    };
  } else if (const auto* op = node.as<ReduceScatter>()) {
    mesh = &op->mesh;
    on_device = [&, op](int64_t d) {
      return piece(sum_over(*mesh, op->axes, in[0], d), static_cast<size_t>(op->dim),
                   index_along(*mesh, op->axes, d), mesh->size(op->axes));
    };
  } else if (const auto* op = node.as<CollectivePermute>()) {
    mesh = &op->mesh;
    on_device = [&, op](int64_t d) {
      for (const auto& [from, to] : op->pairs) {
        if (to == index_along(*mesh, {op->axis}, d)) return in[0][peer(*mesh, {op->axis}, d, from)];
      }
      return Array(in[0][0].type);
    };
  } else if (const auto* op = node.as<AllToAll>()) {
    mesh = &op->mesh;
    on_device = [&, op](int64_t d) {
      const int64_t n = mesh->size(op->axis), mine = index_along(*mesh, {op->axis}, d);
      Arrays parts;
      for (int64_t i = 0; i < n; ++i) {
        parts.push_back(piece(in[0][peer(*mesh, {op->axis}, d, i)],
                              static_cast<size_t>(op->split_dim), mine, n));
      }
      return joined(parts, static_cast<size_t>(op->concat_dim));
    };
  } else {
    return false;
  }
  if (in[0].size() != static_cast<size_t>(mesh->size())) {
    throw Error("[oracle] a collective outside of a manual region");
  }
  out.resize(1);
  for (int64_t d = 0; d < mesh->size(); ++d) out[0].push_back(on_device(d));
  return true;
}

}  // namespace espalier::test
