#include "espalier/data/published_weights.h"

#include <set>

#include "espalier/base/sha256.h"
#include "tests/unit/data_testing.h"
#include "tests/unit/http_server.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

std::string numbers(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += std::to_string(i) + "\n";
  return out;
}

class PublishedWeights : public testing::Test {
 protected:
  PublishedModel model() const {
    return {"tiny",
            "community/tiny",
            "0123abcd",
            {{"config.json", config_digest_}, {"model.safetensors", weights_digest_}}};
  }
  std::map<std::string, std::string> contents() const {
    return {{"/community/tiny/resolve/0123abcd/config.json", config_},
            {"/community/tiny/resolve/0123abcd/model.safetensors", weights_}};
  }
  Result<std::vector<FetchedFile>> fetch(const HttpServer& server, const FileProgress& progress) {
    DownloadOptions options;
    options.pause = std::chrono::milliseconds(1);
    return download_weights(model(), folder_ / "tiny", server.url(), options, progress);
  }

  const std::string config_ = "{\"model_type\": \"gpt2\"}", weights_ = numbers(20000);
  const std::string config_digest_ = sha256_hex(config_);
  std::string weights_digest_ = sha256_hex(weights_);
  TemporaryFolder folder_;
};

TEST_F(PublishedWeights, EveryFileIsFetchedCheckedAndKept) {
  HttpServer server(contents());
  std::map<std::string, uint64_t> seen;
  const FileProgress progress = [&](const fs::path& path) {
    return [&seen, path](uint64_t done, uint64_t) { seen[path.filename().string()] = done; };
  };
  const auto files = fetch(server, progress).value_or_throw();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, folder_ / "tiny" / fs::path("config.json"));
  EXPECT_TRUE(files[0].got.checked);
  EXPECT_EQ(files[1].got.sha256, weights_digest_);
  EXPECT_EQ(read_file(files[0].path).value_or_throw(), config_);
  EXPECT_EQ(read_file(files[1].path).value_or_throw(), weights_);
  EXPECT_EQ(seen, (std::map<std::string, uint64_t>{{"config.json", config_.size()},
                                                   {"model.safetensors", weights_.size()}}));
  EXPECT_EQ(server.requests().size(), 2U);
  for (const FetchedFile& file : fetch(server, nullptr).value_or_throw()) {
    EXPECT_TRUE(file.got.already_there) << file.path;
  }
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST_F(PublishedWeights, ABrokenDownloadIsResumed) {
  HttpServer server(contents(), 50000);
  const auto files = fetch(server, nullptr).value_or_throw();
  EXPECT_EQ(read_file(files[1].path).value_or_throw(), weights_);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 1 + (weights_.size() + 49999) / 50000);
  EXPECT_NE(requests[2].find("Range: bytes=50000-"), std::string::npos);
}

TEST_F(PublishedWeights, OtherFilesThanThePublishedOnesAreRefused) {
  HttpServer server(contents());
  weights_digest_ = std::string(64, '0');
  expect_failure(fetch(server, nullptr), Code::kDataLoss,
                 {"model.safetensors", weights_digest_, ".bad"});
  EXPECT_FALSE(fs::exists(folder_ / "tiny" / fs::path("model.safetensors")));
  HttpServer empty({});
  const TemporaryFolder other;
  expect_failure(download_weights(model(), other.path(), empty.url()), Code::kNotFound,
                 {"/community/tiny/resolve/0123abcd/config.json", "404"});
}

TEST(PublishedModels, HaveRevisionsAndDigests) {
  std::set<std::string_view> digests;
  for (const char* name : {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}) {
    const PublishedModel& model = *find_published_model(name).value_or_throw();
    EXPECT_EQ(model.repository, "openai-community/" + std::string(name));
    EXPECT_EQ(model.revision.size(), 40U);
    ASSERT_EQ(model.files.size(), 2U);
    EXPECT_EQ(model.files[0].name, "config.json");
    EXPECT_EQ(model.files[1].name, "model.safetensors");
    for (const PublishedFile& file : model.files) {
      EXPECT_EQ(file.sha256.size(), 64U) << name;
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), std::string::npos) << name;
      digests.insert(file.sha256);
    }
  }
  EXPECT_EQ(digests.size(), 8U);
  EXPECT_EQ(published_models().size(), 4U);
  expect_failure(find_published_model("gpt3"), Code::kInvalidArgument, {"'gpt3'", "gpt2-xl"});
}

}  // namespace
}  // namespace espalier
