// DocumentStream: the documents in text files, piece by piece, so that none needs to fit in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/data/text_file.h"

namespace espalier {

struct DocumentOptions {
  std::string text_key = "text";  // of a JSON line's object
  bool trim = true;               // of texts with separators: drop white space around documents
  // As Hugging Face's "openwebtext" reads its tars: only members named .txt, three or more line
  // breaks made two, white space (Unicode's) around each text dropped.
  bool web_text = false;
  size_t piece_bytes = size_t{1} << 20;
  // A place p >= near where the text may be cut into pieces, or its size: none (Tokenizer's
  // cut_after). Unset: any place between characters.
  std::function<size_t(std::string_view, size_t)> cut_after = nullptr;
};

// A stretch of a document; the pieces of a document joined are its text.
struct Piece {
  std::string text;   // valid UTF-8
  bool ends = false;  // the document ends here
  std::string where;  // the text's name for messages: file, and member of a tar
  uint64_t position =
      0;  // of a text: the byte where the piece begins; JSON lines: the line, from 1
  bool is_line = false;
};

// Goes through the files in order. A text is one document, or where it holds "<|endoftext|>" the
// documents between these, blank ones left out. In JSON lines every line is an object whose
// text_key is a document; blank lines are passed over. A text is read as JSON lines where its name
// ends in .jsonl or .ndjson, or where it has neither that nor .txt and its first line is such an
// object.
//
// Memory: a block of a file, and two pieces; more only where a text has no place to be cut, a JSON
// line is longer, or web_text holds a whole document. Where a text's first separator is behind its
// first piece, white space at its start stays.
//
// Not valid UTF-8: kInvalidArgument naming file, member and byte. A JSON line that is wrong or has
// no such text: kInvalidArgument naming file, member and line. See TextFile for the rest. Not
// thread-safe.
class DocumentStream {
 public:
  DocumentStream(std::vector<std::filesystem::path> files, DocumentOptions options);
  ~DocumentStream();
  DocumentStream(const DocumentStream&) = delete;
  DocumentStream& operator=(const DocumentStream&) = delete;

  // False after the last piece.
  Result<bool> next(Piece& piece);
  // Whether the text that is being read is a whole document so far: neither JSON lines nor with a
  // separator before this place.
  bool whole_text() const { return !lines_ && !separated_; }

  uint64_t bytes_read() const;                     // of the files, as they lie on the disk
  uint64_t bytes_in_all() const { return size_; }  // likewise

 private:
  Result<bool> open_next_text();
  Status read_more();
  Result<bool> next_line(Piece& piece);
  Result<bool> next_stretch(Piece& piece);
  Result<bool> next_web_text(Piece& piece);
  Status is_json_lines(bool& yes);
  // Takes carry_[begin_, end) as the piece's text and drops what is before `after`.
  void take(size_t begin, size_t end, size_t after, bool ends, Piece& piece);
  std::string_view unread() const {
    return std::string_view(carry_).substr(begin_, valid_ - begin_);
  }

  std::vector<std::filesystem::path> files_;
  DocumentOptions options_;
  size_t next_file_ = 0;
  std::optional<TextFile> file_;
  uint64_t size_ = 0, closed_bytes_ = 0;

  // Of the text that is being read.
  bool in_text_ = false, lines_ = false, separated_ = false, text_ended_ = false;
  bool document_begun_ = false;  // a piece of the document was given
  std::string carry_;            // bytes read, of which [0, begin_) are done with
  size_t begin_ = 0;
  size_t valid_ = 0;       // carry_[0, valid_) is checked UTF-8
  size_t searched_ = 0;    // no separator or line break begins in carry_[begin_, searched_)
  size_t wanted_ = 0;      // bytes at which a cut is sought
  uint64_t carry_at_ = 0;  // position of carry_[0] in the text
  uint64_t line_ = 0;      // lines given or passed over
};

// What web_text does to a text. `text` is valid UTF-8.
std::string clean_web_text(std::string_view text);

}  // namespace espalier
