#include "espalier/data/published_weights.h"

namespace espalier {
namespace fs = std::filesystem;

// The digests of the weights are those of the repositories' Git LFS pointers, which the hub shows
// on each file's page; those of the configurations, which have no pointers, are as other projects
// that pin these files record them.
std::span<const PublishedModel> published_models() {
  static const std::vector<PublishedModel> models = {
      {"gpt2",
       "openai-community/gpt2",
       "607a30d783dfa663caf39e06633721c8d4cfcd7e",
       {{"config.json", "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4"},
        {"model.safetensors", "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707"}}},
      {"gpt2-medium",
       "openai-community/gpt2-medium",
       "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
       {{"config.json", "ef1a44d889ad1a0acc7731c78134f1b87d2d222f110e97dd10fd4117331caf22"},
        {"model.safetensors", "fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd"}}},
      {"gpt2-large",
       "openai-community/gpt2-large",
       "32b71b12589c2f8d625668d2335a01cac3249519",
       {{"config.json", "7fccdcfd6622055342a734c663ee0b61ff4fd697f42467595df0bf4448c8c170"},
        {"model.safetensors", "5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce"}}},
      {"gpt2-xl",
       "openai-community/gpt2-xl",
       "15ea56dee5df4983c59b2538573817e1667135e2",
       {{"config.json", "be48115d52314bc27327e160bf10197760db02ea689d10adb24db4102edf7a8a"},
        {"model.safetensors", "0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a"}}},
  };
  return models;
}

Result<const PublishedModel*> find_published_model(std::string_view name) {
  std::string known;
  for (const PublishedModel& model : published_models()) {
    if (model.name == name) return &model;
    known += (known.empty() ? "" : ", ") + std::string(model.name);
  }
  return Failure{Code::kInvalidArgument,
                 "no published weights are known as '" + std::string(name) + "'; known are " +
                     known + ". Others are read from a folder in Hugging Face's format"};
}

std::string_view hub_url() { return "https://huggingface.co"; }

Result<std::vector<FetchedFile>> download_weights(const PublishedModel& model,
                                                  const fs::path& folder, const std::string& url,
                                                  DownloadOptions options,
                                                  const FileProgress& progress) {
  const std::string base =
      url + "/" + std::string(model.repository) + "/resolve/" + std::string(model.revision) + "/";
  std::vector<FetchedFile> out;
  for (const PublishedFile& file : model.files) {
    const fs::path path = folder / file.name;
    options.sha256 = file.sha256;
    options.progress = progress ? progress(path) : nullptr;
    ESPALIER_ASSIGN(Downloaded got, download(base + std::string(file.name), path, options));
    out.push_back({path, std::move(got)});
  }
  return out;
}

}  // namespace espalier
