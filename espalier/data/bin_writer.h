// BinWriter: train.bin, val.bin and meta.json (bins.h), which appear together when all is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/file.h"
#include "espalier/base/sha256.h"
#include "espalier/data/bins.h"

namespace espalier {

enum class Split { kTrain, kVal };

// Which documents go to val.bin: of each 1 / fraction documents that follow each other, one that
// is drawn by the seed; so the number is the fraction of all, rounded down or up. A pure function
// of its arguments. `fraction` is in [0, 1].
class ValDraw {
 public:
  ValDraw(double fraction, uint64_t seed) : fraction_(fraction), seed_(seed) {}
  Split operator()(uint64_t document) const;

 private:
  double fraction_;
  uint64_t seed_;
};

// Destroyed without commit(), it leaves the folder as it was. Not thread-safe.
class BinWriter {
 public:
  // Makes the folder where there is none, and removes what a killed writer left in it. Another
  // writer at work there is kFailedPrecondition.
  // `asked` gives sources, seed, val_fraction and end_of_text; the rest is filled in.
  static Result<BinWriter> create(const std::filesystem::path& folder,
                                  std::shared_ptr<const Tokenizer> tokenizer, BinMeta asked);

  // Appends tokens, as bytes of this width; `ends`: a document ends with them.
  Status append(Split split, std::string_view bytes, int64_t max_id, bool ends);
  int64_t token_bytes() const { return meta_.token_bytes; }

  // Puts the three files in their places; killed meanwhile, it leaves a meta.json by which opening
  // the folder fails (incomplete_bins_json). Where no document went to val.bin, a fraction above 0
  // was asked for and there are two documents or more, one drawn by the seed is moved there.
  Result<BinMeta> commit();

 private:
  struct File {
    AtomicFile file;
    Sha256 digest{};
    int64_t bytes = 0, documents = 0;
  };
  struct Range {
    int64_t begin = 0, end = 0;  // bytes
  };
  struct Lock {
    int fd = -1;
    explicit Lock(int f) : fd(f) {}
    Lock(Lock&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock();
  };

  BinWriter(std::filesystem::path folder, Lock lock, File train, File val,
            std::shared_ptr<const Tokenizer> tokenizer, BinMeta meta)
      : folder_(std::move(folder)),
        lock_(std::move(lock)),
        train_(std::move(train)),
        val_(std::move(val)),
        tokenizer_(std::move(tokenizer)),
        meta_(std::move(meta)) {}
  Status move_chosen_document();
  // Copies bytes [begin, end) of `from` behind those of `to`.
  static Status copy(const File& from, Range range, File& to);
  static Status append_bytes(File& to, std::string_view bytes);

  std::filesystem::path folder_;
  Lock lock_;
  File train_, val_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  BinMeta meta_;
  int64_t document_begin_ = 0;  // of train.bin's document that is being written
  Range chosen_;                // one of train.bin's documents so far, drawn evenly
};

}  // namespace espalier
