#include "espalier/data/download.h"

#include <gtest/gtest.h>

#include <set>

#include "data_testing.h"
#include "espalier/base/sha256.h"
#include "espalier/data/known_sets.h"
#include "tests/support/shared.h"
#include "tests/unit/http_server.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::string long_content() {
  std::string out;
  for (int i = 0; i < 60000; ++i) out += std::to_string(i) + "\n";
  return out;
}

DownloadOptions quick(std::string sha256 = "") {
  DownloadOptions options;
  options.sha256 = std::move(sha256);
  options.pause = std::chrono::milliseconds(1);
  return options;
}

class DownloadTest : public testing::Test {
 protected:
  const std::string content_ = long_content();
  const std::string digest_ = sha256_hex(content_);
  TemporaryFolder folder_;
  const fs::path target_ = folder_ / "sub/file.txt";
  const fs::path part_ = folder_ / "sub/file.txt.part";
  const fs::path bad_ = folder_ / "sub/file.txt.bad";
};

TEST_F(DownloadTest, FetchesChecksAndNotesTheDigest) {
  Server server(content_);
  uint64_t done = 0, all = 0;
  DownloadOptions options = quick(digest_);
  options.progress = [&](uint64_t d, uint64_t a) {
    EXPECT_GE(d, done);
    done = d;
    all = a;
  };
  const auto got = download(server.url(), target_, options).value_or_throw();
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
  EXPECT_TRUE(got.checked);
  EXPECT_EQ(got.sha256, digest_);
  EXPECT_EQ(done, content_.size());
  EXPECT_EQ(all, content_.size());
  EXPECT_EQ(read_file(target_.string() + ".sha256").value_or_throw(), digest_ + "  file.txt\n");
  EXPECT_FALSE(fs::exists(part_));
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(DownloadTest, GoesOnWhereTheConnectionBroke) {
  Server server(content_);
  server.cut_after = 100000;
  const auto got = download(server.url(), target_, quick(digest_)).value_or_throw();
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), (content_.size() + 99999) / 100000);
  EXPECT_EQ(requests[0].find("Range:"), std::string::npos);
  EXPECT_NE(requests[1].find("Range: bytes=100000-"), std::string::npos);
  EXPECT_NE(requests[2].find("Range: bytes=200000-"), std::string::npos);
  EXPECT_TRUE(got.checked);
}

TEST_F(DownloadTest, GoesOnFromAnEarlierCallsPart) {
  Server server(content_);
  fs::create_directories(folder_ / "sub");
  folder_.write("sub/file.txt.part", content_.substr(0, 1234));
  const auto got = download(server.url(), target_, quick(digest_)).value_or_throw();
  EXPECT_EQ(got.resumed_at, 1234U);
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_NE(server.requests()[0].find("Range: bytes=1234-"), std::string::npos);
}

TEST_F(DownloadTest, StartsOverWhereTheServerIgnoresRanges) {
  Server server(content_);
  server.ranges = false;
  fs::create_directories(folder_ / "sub");
  folder_.write("sub/file.txt.part", std::string(content_.size() + 10, 'x'));
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
}

TEST_F(DownloadTest, TakesAPartThatIsWholeAndDropsOneThatIsTooLong) {
  Server server(content_);
  fs::create_directories(folder_ / "sub");
  folder_.write("sub/file.txt.part", content_);
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  fs::remove(target_);
  folder_.write("sub/file.txt.part", content_ + "more");
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
}

TEST_F(DownloadTest, AWrongDigestPutsTheFileAside) {
  Server server(content_);
  const std::string wrong(64, '0');
  expect_failure(download(server.url(), target_, quick(wrong)), Code::kDataLoss,
                 {target_.string(), digest_, wrong, ".bad"});
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(fs::exists(part_));
  EXPECT_TRUE(fs::exists(bad_));
  expect_failure(download(server.url(), target_, quick("123")), Code::kInvalidArgument,
                 {"64 hexadecimal digits", "123"});
}

TEST_F(DownloadTest, TheDigestOfARedirectIsCompared) {
  Server server(content_);
  server.redirect_digest = digest_;
  const auto got = download(server.url("/start"), target_, quick()).value_or_throw();
  EXPECT_TRUE(got.checked);
  fs::remove(target_);

  Server wrong(content_);
  wrong.redirect_digest = std::string(64, 'a');
  expect_failure(download(wrong.url("/start"), target_, quick()), Code::kDataLoss, {"aaaa"});

  Server silent(content_);
  EXPECT_FALSE(download(silent.url(), target_, quick()).value_or_throw().checked);
}

TEST_F(DownloadTest, AFileThatIsThereIsKeptUnlessItWasAltered) {
  Server server(content_);
  EXPECT_TRUE(download(server.url(), target_, quick()).ok());
  EXPECT_TRUE(download(server.url(), target_, quick()).value_or_throw().already_there);
  EXPECT_EQ(server.requests().size(), 1U);
  folder_.write("sub/file.txt", "altered");
  expect_failure(download(server.url(), target_, quick()), Code::kDataLoss, {"the disk", digest_});
  EXPECT_TRUE(fs::exists(bad_));
  // Put aside, it can be fetched again.
  EXPECT_FALSE(download(server.url(), target_, quick()).value_or_throw().already_there);
}

TEST_F(DownloadTest, TriesAgainWhereTheServerIsBusyAndGivesUpInTheEnd) {
  Server server(content_);
  server.failures = 2;
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  EXPECT_EQ(server.requests().size(), 3U);
  fs::remove(target_);

  Server busy(content_);
  busy.failures = 1000;
  expect_failure(download(busy.url(), target_, quick(digest_)), Code::kUnavailable, {"503"});
  EXPECT_EQ(busy.requests().size(), 5U);

  Server missing(content_);
  missing.status = 404;
  expect_failure(download(missing.url(), target_, quick(digest_)), Code::kNotFound, {"404"});
  EXPECT_EQ(missing.requests().size(), 1U);
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(DownloadTest, RefusesOtherProtocols) {
  const fs::path file = folder_.write("local.txt", "local");
  EXPECT_FALSE(download("file://" + file.string(), target_, quick()).ok());
  EXPECT_FALSE(fs::exists(target_));
}

TEST(KnownFiles, AreNamedAndHaveTheirPlaces) {
  const std::pair<const char*, size_t> sets[] = {
      {"tinystories", 2}, {"shakespeare", 1}, {"openwebtext", 21}, {"fineweb10B", 104}};
  for (const auto& [set, count] : sets) {
    const auto files = known_files(set);
    ASSERT_EQ(files.size(), count) << set;
    EXPECT_TRUE(known_url(set).starts_with("https://")) << set;
    EXPECT_FALSE(known_url(set).ends_with("/")) << set;
    std::set<std::string> names;
    for (const KnownFile& file : files) {
      names.insert(file.file);
      EXPECT_EQ(file.data_set, set);
      EXPECT_TRUE(file.sha256.empty() || file.sha256.size() == 64U) << file.file;
      EXPECT_EQ(file.sha256.empty(), file.size == 0) << file.file;
    }
    EXPECT_EQ(names.size(), count) << set;
  }
  EXPECT_TRUE(known_files("tinystories")[0].size > 0);
  EXPECT_EQ(known_files("openwebtext").back().file, "urlsf_subset20.tar");
  EXPECT_EQ(known_files("fineweb10B").back().file, "fineweb_train_000103.bin");
  EXPECT_TRUE(known_files("other").empty());
  EXPECT_EQ(known_url("other"), "");
}

TEST(KnownFiles, ShakespearesDigestIsThatOfTheSharedCopy) {
  const auto copy = shared_file("data/tinyshakespeare.txt");
  if (!copy) GTEST_SKIP() << "no ../shared/data/tinyshakespeare.txt";
  const KnownFile known = known_files("shakespeare")[0];
  EXPECT_EQ(sha256_of_file(*copy).value_or_throw(), known.sha256);
  EXPECT_EQ(fs::file_size(*copy), known.size);
}

}  // namespace
}  // namespace espalier
