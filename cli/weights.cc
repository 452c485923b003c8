#include "cli/weights.h"

#include <memory>

#include "cli/byte_progress.h"
#include "espalier/base/log.h"
#include "espalier/data/published_weights.h"
#include "espalier/train/config.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

std::function<void(uint64_t, uint64_t)> show_progress(const fs::path& path) {
  std::error_code none;
  const auto kept = fs::file_size(path.string() + ".part", none);
  const auto bar = std::make_shared<ByteProgress>("downloading " + path.filename().string(),
                                                  none ? uint64_t{0} : uint64_t{kept});
  return [bar](uint64_t done, uint64_t all) { (*bar)(done, all); };
}

}  // namespace

void prepare_weights(const std::vector<std::string>& names, const fs::path& given_folder,
                     const std::string& url) {
  if (names.size() != 1) {
    throw Error("prepare weights takes one name, got " + std::to_string(names.size()) +
                "; each model has a folder of its own: espalier prepare weights gpt2");
  }
  const PublishedModel& model = *find_published_model(names[0]).value_or_throw();
  const fs::path folder =
      given_folder.empty() ? fs::path(TrainConfig().weights_dir) / names[0] : given_folder;
  const std::string base = url.empty() ? std::string(hub_url()) : url;
  const auto files = download_weights(model, folder, base, {}, show_progress).value_or_throw();
  for (const FetchedFile& file : files) {
    out().info("{}: {}, SHA-256 {}", file.path.string(),
               file.got.already_there ? "already there" : "downloaded", file.got.sha256);
  }
  out().info("  use: espalier generate --hf {}", given_folder.empty() ? names[0] : folder.string());
}

}  // namespace espalier
