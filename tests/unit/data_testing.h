// Helpers of the data tests: a folder that goes away, and a tokenizer that needs no file.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/text/tokenizer.h"

namespace espalier {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  // Writes a file into the folder and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    write_file(path_ / name, text).value_or_throw();
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Ids are bytes plus `shift`; the end of text is 256 + shift. With a shift, ids need 32 bits.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(int32_t shift = 0) : shift_(shift) {}
  std::string_view name() const override { return "bytes"; }
  int32_t vocab_size() const override { return 257 + shift_; }
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + shift_);
    return ids;
  }
  Result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) out += static_cast<char>(id - shift_);
    return out;
  }
  std::optional<int32_t> special(std::string_view) const override { return end_of_text(); }
  std::optional<int32_t> end_of_text() const override { return 256 + shift_; }
  Result<std::string> serialize() const override { return std::string("bytes"); }
  size_t cut_after(std::string_view, size_t near) const override { return near; }

 private:
  int32_t shift_;
};

// Expects a failure of `code` whose message holds every one of `parts`.
template <class T>
void expect_failure(const Result<T>& result, Code code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().code, code) << result.failure().message;
  for (const std::string& part : parts) {
    EXPECT_NE(result.failure().message.find(part), std::string::npos)
        << "'" << part << "' is not in: " << result.failure().message;
  }
}

}  // namespace espalier
