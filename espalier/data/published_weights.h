// Published models: where their files are and what their digests are, and fetching them.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/data/download.h"

namespace espalier {

struct PublishedFile {
  std::string_view name, sha256;
};

// A model on the Hugging Face hub at one revision of its repository, so that its files and their
// digests are fixed.
struct PublishedModel {
  std::string_view name;        // as in `espalier prepare weights NAME`
  std::string_view repository;  // "openai-community/gpt2"
  std::string_view revision;    // of the repository: a commit's id
  std::vector<PublishedFile> files;
};

// gpt2, gpt2-medium, gpt2-large and gpt2-xl, each config.json and model.safetensors.
std::span<const PublishedModel> published_models();
// kInvalidArgument for an unknown name: the message lists the known ones.
Result<const PublishedModel*> find_published_model(std::string_view name);
// Where they are fetched from unless told otherwise, without a slash at its end.
std::string_view hub_url();

struct FetchedFile {
  std::filesystem::path path;
  Downloaded got;
};

// Called before a file's download, with its path; gives the progress function of this file.
using FileProgress =
    std::function<std::function<void(uint64_t, uint64_t)>(const std::filesystem::path&)>;

// Downloads URL/REPOSITORY/resolve/REVISION/FILE into FOLDER/FILE for every file of the model, as
// download() does: files that are there are kept if their digests are right, a broken one is
// resumed. Of `options` the digest and the progress are set for each file. Stops at the first
// failure; what it has fetched by then stays.
Result<std::vector<FetchedFile>> download_weights(const PublishedModel& model,
                                                  const std::filesystem::path& folder,
                                                  const std::string& url,
                                                  DownloadOptions options = {},
                                                  const FileProgress& progress = nullptr);

}  // namespace espalier
