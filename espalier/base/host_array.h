// HostArray: a dense row-major array in host memory, aligned to 64 bytes.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "espalier/base/dtype.h"

namespace espalier {

// Copies share the same storage; clone() makes an independent one. Reading from several threads is
// safe; writing needs exclusion by the caller.
class HostArray {
 public:
  HostArray() = default;
  // Zero-filled array.
  HostArray(DType dtype, Dims dims);

  template <class T>
  static HostArray from(const Dims& dims, std::span<const T> values) {
    HostArray out(DTypeOf<T>::value, dims);
    if (static_cast<int64_t>(values.size()) != out.size()) {
      throw Error("HostArray::from needs " + std::to_string(out.size()) + " values for shape " +
                  to_string(dims) + ", got " + std::to_string(values.size()));
    }
    std::memcpy(out.data(), values.data(), out.bytes());
    return out;
  }
  template <class T>
  static HostArray from(const Dims& dims, const std::vector<T>& values) {
    return from<T>(dims, std::span<const T>(values));
  }
  template <class T>
  static HostArray scalar(T value) {
    return from<T>({}, std::span<const T>(&value, 1));
  }

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t size() const { return num_elements(dims_); }  // elements
  size_t bytes() const { return static_cast<size_t>(size()) * byte_size(dtype_); }
  std::byte* data() { return storage_.get(); }
  const std::byte* data() const { return storage_.get(); }

  // Typed view; throws Error when T is not the array's element type. Not of a temporary, whose
  // memory may be gone with it.
  template <class T>
  std::span<T> as() & {
    check(DTypeOf<T>::value);
    return {reinterpret_cast<T*>(data()), static_cast<size_t>(size())};
  }
  template <class T>
  std::span<const T> as() const& {
    check(DTypeOf<T>::value);
    return {reinterpret_cast<const T*>(data()), static_cast<size_t>(size())};
  }
  template <class T>
  std::span<const T> as() const&& = delete;

  HostArray clone() const;
  // Same elements under another shape with the same element count; shares storage.
  HostArray reshaped(Dims dims) const;
  // Elements converted to another type (through double or int64).
  HostArray converted(DType dtype) const;

 private:
  void check(DType dtype) const;
  DType dtype_ = DType::kF32;
  Dims dims_ = {0};
  std::shared_ptr<std::byte> storage_;
};

}  // namespace espalier
