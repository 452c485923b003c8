#include "espalier/checkpoint/tensor_files.h"

namespace espalier {

Status TensorFiles::add(SafetensorsFile file) {
  for (const TensorInfo& tensor : file.tensors()) {
    const auto [at, fresh] = index_.try_emplace(tensor.name, Place{files_.size(), tensors_.size()});
    if (!fresh) {
      return Failure{Code::kDataLoss, "tensor '" + tensor.name + "' is in both '" +
                                          files_[at->second.file].path().string() + "' and '" +
                                          file.path().string() +
                                          "'; get the files again, or remove the wrong one"};
    }
    tensors_.push_back(tensor);
  }
  files_.push_back(std::move(file));
  return {};
}

const TensorInfo* TensorFiles::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second.tensor];
}

Result<const SafetensorsFile*> TensorFiles::holder(std::string_view name,
                                                   const std::string& where) const {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) return unknown_tensor(name, tensors_, where);
  return &files_[found->second.file];
}

}  // namespace espalier
