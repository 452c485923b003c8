// Packed texts and tars for the data tests, made by libarchive's writer.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

namespace archives {

inline la_ssize_t append(archive*, void* user, const void* bytes, size_t count) {
  static_cast<std::string*>(user)->append(static_cast<const char*>(bytes), count);
  return static_cast<la_ssize_t>(count);
}

inline void write(archive* writer, const std::string& name, std::string_view content,
                  int type = AE_IFREG) {
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, name.c_str());
  archive_entry_set_filetype(entry, static_cast<unsigned>(type));
  archive_entry_set_perm(entry, 0644);
  archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
  const bool written = archive_write_header(writer, entry) == ARCHIVE_OK &&
                       archive_write_data(writer, content.data(), content.size()) ==
                           static_cast<la_ssize_t>(content.size());
  archive_entry_free(entry);
  if (!written) throw Error(std::string("libarchive: ") + archive_error_string(writer));
}

}  // namespace archives

// `content` packed by "gzip", "xz", "zstd" or "bzip2".
inline std::string packed(const std::string& filter, std::string_view content) {
  std::string out;
  archive* writer = archive_write_new();
  archive_write_set_format_raw(writer);
  if (archive_write_add_filter_by_name(writer, filter.c_str()) < ARCHIVE_WARN) {
    throw Error("libarchive has no filter " + filter);
  }
  archive_write_set_bytes_in_last_block(writer, 1);
  archive_write_open(writer, &out, nullptr, &archives::append, nullptr);
  archives::write(writer, "data", content);
  archive_write_close(writer);
  archive_write_free(writer);
  return out;
}

using Members = std::vector<std::pair<std::string, std::string>>;

// A tar of files, in order, with a folder entry first.
inline std::string tar_of(const Members& members) {
  std::string out;
  archive* writer = archive_write_new();
  archive_write_set_format_pax_restricted(writer);
  archive_write_set_bytes_in_last_block(writer, 1);
  archive_write_open(writer, &out, nullptr, &archives::append, nullptr);
  archives::write(writer, "folder/", "", AE_IFDIR);
  for (const auto& [name, content] : members) archives::write(writer, name, content);
  archive_write_close(writer);
  archive_write_free(writer);
  return out;
}

}  // namespace espalier
