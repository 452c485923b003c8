// TensorFiles: several safetensors files read as one set of tensors.
#pragma once

#include <unordered_map>

#include "espalier/checkpoint/safetensors.h"

namespace espalier {

// Copies share the mapped files. Safe to read from several threads once all files are added.
class TensorFiles {
 public:
  // kDataLoss when a file added before has a tensor of the same name: the message names both.
  Status add(SafetensorsFile file);

  // Of all files, in the order in which they were added.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const TensorInfo* find(std::string_view name) const;
  // The file that holds a tensor. kNotFound names the nearest tensors; `where` stands for the whole
  // set in it.
  Result<const SafetensorsFile*> holder(std::string_view name, const std::string& where) const;

 private:
  struct Place {
    size_t file, tensor;  // in files_, in tensors_
  };
  std::vector<SafetensorsFile> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, Place> index_;
};

}  // namespace espalier
