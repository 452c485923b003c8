#include "espalier/checkpoint/names.h"

#include <algorithm>
#include <unordered_map>

#include "espalier/mesh/sharding_rules.h"

namespace espalier {
namespace {

constexpr size_t kShown = 5;

bool fits(const TensorInfo& found, const TensorInfo& expected) {
  const bool type =
      found.dtype == expected.dtype || (is_floating(found.dtype) && is_floating(expected.dtype));
  return type && found.dims == expected.dims;
}

std::string type_of(const TensorInfo& tensor) {
  return hlo_name(tensor.dtype) + to_string(tensor.dims);
}

std::vector<std::string> names_of(const std::vector<const TensorInfo*>& tensors) {
  std::vector<std::string> out;
  out.reserve(tensors.size());
  for (const TensorInfo* tensor : tensors) out.push_back(tensor->name);
  return out;
}

// "\n  KIND tensor 'NAME'DETAIL" for the first few, and how many more there are.
template <class Detail>
std::string list(const char* kind, const std::vector<const TensorInfo*>& tensors, Detail detail) {
  std::string out;
  for (size_t i = 0; i < std::min(kShown, tensors.size()); ++i) {
    out += std::string("\n  ") + kind + " tensor '" + tensors[i]->name + "'" + detail(*tensors[i]);
  }
  if (tensors.size() > kShown) {
    out += "\n  and " + std::to_string(tensors.size() - kShown) + " more " + kind + " tensors";
  }
  return out;
}

std::string nearest(const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string> found = nearest_names(name, names, 1);
  return found.empty() ? "" : "; nearest is '" + found[0] + "'";
}

}  // namespace

Status check_names(const TensorSource& source, const std::vector<TensorInfo>& expected,
                   const std::vector<std::string>& ignored) {
  std::unordered_map<std::string_view, const TensorInfo*> wanted;
  std::vector<const TensorInfo*> unknown, missing, misshapen;
  std::vector<std::string> wanted_names;
  for (const TensorInfo& tensor : expected) {
    wanted.emplace(tensor.name, &tensor);
    wanted_names.push_back(tensor.name);
    const TensorInfo* found = source.find(tensor.name);
    if (found == nullptr) {
      missing.push_back(&tensor);
    } else if (!fits(*found, tensor)) {
      misshapen.push_back(found);
    }
  }
  for (const TensorInfo& tensor : source.tensors()) {
    const bool known = wanted.contains(tensor.name) ||
                       std::any_of(ignored.begin(), ignored.end(), [&](const std::string& pattern) {
                         return pattern_matches(pattern, tensor.name);
                       });
    if (!known) unknown.push_back(&tensor);
  }
  if (unknown.empty() && missing.empty() && misshapen.empty()) return {};

  const std::vector<std::string> unknown_names = names_of(unknown);
  const std::string problems =
      list("unknown", unknown, [&](const TensorInfo& t) { return nearest(t.name, wanted_names); }) +
      list(
          "missing", missing,
          [&](const TensorInfo& t) { return ", " + type_of(t) + nearest(t.name, unknown_names); }) +
      list("misshapen", misshapen, [&](const TensorInfo& t) {
        return " is " + type_of(t) + ", but the model has " + type_of(*wanted.at(t.name));
      });
  return Failure{Code::kInvalidArgument,
                 "the tensors in '" + source.where() + "' are not those of the model:" + problems +
                     "\nuse the model's own configuration (its config.json, or the run's recipe), "
                     "or other weights"};
}

Result<RenamedSource> RenamedSource::create(std::shared_ptr<const TensorSource> source,
                                            const std::map<std::string, std::string>& names) {
  std::map<std::string_view, std::string_view> ours;  // the source's name -> ours
  for (const auto& [name, theirs] : names) {
    const auto [at, fresh] = ours.emplace(theirs, name);
    if (!fresh) {
      return Failure{Code::kInvalidArgument, "tensor '" + theirs + "' in '" + source->where() +
                                                 "' cannot be both '" + std::string(at->second) +
                                                 "' and '" + name + "'"};
    }
  }
  RenamedSource out(std::move(source));
  for (const TensorInfo& tensor : out.source_->tensors()) {
    const auto renamed = ours.find(tensor.name);
    TensorInfo shown = tensor;
    if (renamed != ours.end()) shown.name = renamed->second;
    const auto [at, fresh] = out.index_.emplace(shown.name, out.tensors_.size());
    if (!fresh) {
      return Failure{Code::kInvalidArgument, "tensors '" + out.source_->tensors()[at->second].name +
                                                 "' and '" + tensor.name + "' in '" + out.where() +
                                                 "' are both called '" + shown.name +
                                                 "'; remove one of them from the file"};
    }
    out.tensors_.push_back(std::move(shown));
  }
  return out;
}

const TensorInfo* RenamedSource::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status RenamedSource::read_view(std::string_view name, const Dims& view, const Dims& offset,
                                const Dims& shape, std::span<std::byte> out) const {
  const auto found = index_.find(name);
  if (found == index_.end()) return unknown_tensor(name, tensors_, where());
  return source_->read_view(source_->tensors()[found->second].name, view, offset, shape, out);
}

std::map<std::string, std::string> names_without_prefix(const TensorSource& source,
                                                        std::string_view prefix) {
  std::map<std::string, std::string> out;
  for (const TensorInfo& tensor : source.tensors()) {
    if (tensor.name.starts_with(prefix))
      out.emplace(tensor.name.substr(prefix.size()), tensor.name);
  }
  return out;
}

}  // namespace espalier
