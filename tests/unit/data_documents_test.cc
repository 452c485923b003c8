// Documents in text files, packed and in tars: what is read, and what bad files say.
#include "espalier/data/documents.h"

#include <gtest/gtest.h>

#include "data_archives.h"
#include "data_testing.h"
#include "espalier/data/source_text.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

using Texts = std::vector<std::string>;

Result<Texts> documents(const std::vector<fs::path>& files, const DocumentOptions& options = {}) {
  DocumentStream stream(files, options);
  Texts out;
  Piece piece;
  bool open = false;
  while (true) {
    ESPALIER_ASSIGN(const bool given, stream.next(piece));
    if (!given) break;
    if (!open) out.emplace_back();
    out.back() += piece.text;
    open = !piece.ends;
  }
  EXPECT_FALSE(open) << "the last document has no end";
  EXPECT_EQ(stream.bytes_read(), stream.bytes_in_all());
  return out;
}

class DocumentsTest : public testing::Test {
 protected:
  Texts read(const std::string& name, std::string_view content,
             const DocumentOptions& options = {}) {
    return documents({folder_.write(name, content)}, options).value_or_throw();
  }
  void expect_bad(const std::string& name, std::string_view content, Code code,
                  std::vector<std::string> parts) {
    const fs::path path = folder_.write(name, content);
    parts.push_back(path.string());
    expect_failure(documents({path}), code, parts);
  }
  TemporaryFolder folder_;
};

TEST_F(DocumentsTest, ATextIsOneDocumentAsItStands) {
  EXPECT_EQ(read("a.txt", " two\r\n lines \n"), Texts{" two\r\n lines \n"});
  EXPECT_EQ(read("no extension", "text"), Texts{"text"});
  EXPECT_EQ(read("empty.txt", ""), Texts{});
}

TEST_F(DocumentsTest, SeparatorsSplitAsStoriesAre) {
  const std::string text =
      "  one \n<|endoftext|>\n\n<|endoftext|>\ntwo <|endo\n<|endoftext|><|endoftext|> three\n ";
  EXPECT_EQ(read("a.txt", text), (Texts{"one", "two <|endo", "three"}));
  EXPECT_EQ(read("a.txt", text + "<|endoftext|>\n"), (Texts{"one", "two <|endo", "three"}));
  for (const bool trim : {false, true}) {
    DocumentOptions options;
    options.trim = trim;
    Texts expected;
    for (const std::string_view story : split_stories(text, trim)) expected.emplace_back(story);
    EXPECT_EQ(read("a.txt", text, options), expected);
  }
}

TEST_F(DocumentsTest, PiecesJoinedAreTheText) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += (i % 7 == 0 ? "  \n\n" : " wörd€") + std::to_string(i);
  std::string separated = text;
  for (size_t at = 999; at < separated.size(); at = separated.find(' ', at + 12345)) {
    separated.replace(at, 1, " <|endoftext|>");
  }
  for (const size_t bytes : {16, 100, 4096, 1 << 20}) {
    DocumentOptions options;
    options.piece_bytes = bytes;
    EXPECT_EQ(read("a.txt", text, options), Texts{text}) << bytes;
    Texts expected;
    for (const std::string_view story : split_stories(separated, true)) {
      expected.emplace_back(story);
    }
    ASSERT_GT(expected.size(), 20U);
    EXPECT_EQ(read("a.txt", separated, options), expected) << bytes;
  }
  // Cut only at the end: the pieces grow until they hold it.
  DocumentOptions uncut;
  uncut.piece_bytes = 100;
  uncut.cut_after = [](std::string_view rest, size_t) { return rest.size(); };
  EXPECT_EQ(read("a.txt", text, uncut), Texts{text});
}

TEST_F(DocumentsTest, JsonLinesGiveTheTextOfTheirKey) {
  const std::string lines =
      "{\"id\": 1, \"text\": \"one\\n\\u20ac\"}\n\n{\"text\": \"\"}\r\n"
      "{\"text\": \"<|endoftext|> is ordinary\", \"meta\": {}}";
  const Texts expected = {"one\n€", "", "<|endoftext|> is ordinary"};
  EXPECT_EQ(read("a.jsonl", lines), expected);
  EXPECT_EQ(read("a.ndjson", lines), expected);
  EXPECT_EQ(read("a.json", lines), expected);
  EXPECT_EQ(read("a", "\n" + lines), expected);
  EXPECT_EQ(read("a.jsonl.gz", packed("gzip", lines)), expected);
  EXPECT_EQ(read("renamed.gz", packed("gzip", lines)), expected);
  // A .txt is a text whatever it holds, and braces alone are no JSON line.
  EXPECT_EQ(read("a.txt", "{\"text\": \"one\"}"), Texts{"{\"text\": \"one\"}"});
  EXPECT_EQ(read("code", "{ return 1; }\n"), Texts{"{ return 1; }\n"});
  DocumentOptions other;
  other.text_key = "body";
  EXPECT_EQ(read("a.jsonl", "{\"body\": \"b\", \"text\": \"t\"}\n", other), Texts{"b"});
}

TEST_F(DocumentsTest, EveryPackingIsToldFromItsBytes) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + " ";
  for (const std::string filter : {"gzip", "xz", "zstd", "bzip2"}) {
    EXPECT_EQ(read("a.txt." + filter, packed(filter, text)), Texts{text}) << filter;
    EXPECT_EQ(read("misnamed.txt", packed(filter, packed("xz", text))), Texts{text}) << filter;
    const std::string tar = tar_of({{"folder/1.txt", "one"}, {"folder/2.txt", text}});
    EXPECT_EQ(read("b.tar." + filter, packed(filter, tar)), (Texts{"one", text})) << filter;
  }
  // gzip's members follow each other, and tapes are padded with zeros.
  EXPECT_EQ(read("a.gz", packed("gzip", "one ") + packed("gzip", "two") + std::string(100, '\0')),
            Texts{"one two"});
}

TEST_F(DocumentsTest, TarsAreOpenedInsideEachOther) {
  const std::string inner1 = packed("xz", tar_of({{"0001.txt", "one"}, {"0002.txt", "two"}}));
  const std::string inner2 =
      packed("xz", tar_of({{"0003.txt", "three<|endoftext|>four"}, {"._0004.txt", "metadata"}}));
  const std::string tar = tar_of({{"openwebtext/urlsf_subset00-1_data.xz", inner1},
                                  {"openwebtext/urlsf_subset00-2_data.xz", inner2},
                                  {"lines.jsonl", "{\"text\": \"five\"}\n{\"text\": \"six\"}\n"},
                                  {"empty.txt", ""}});
  const Texts expected = {"one", "two", "three", "four", "five", "six"};
  EXPECT_EQ(read("set.tar", tar), expected);
  EXPECT_EQ(read("set.tgz", packed("gzip", tar)), expected);
  const fs::path other = folder_.write("other.txt", "before");
  EXPECT_EQ(documents({other, folder_ / "set.tar", other}).value_or_throw(),
            (Texts{"before", "one", "two", "three", "four", "five", "six", "before"}));
  std::string deep = "deep";
  for (int i = 0; i < 4; ++i) deep = tar_of({{"more", deep}});
  expect_bad("deep.tar", deep, Code::kInvalidArgument, {"more than 3 tars"});
}

TEST_F(DocumentsTest, WebTextIsCleanedAndOnlyOfTextFiles) {
  EXPECT_EQ(clean_web_text("\n\n \xc2\xa0 a\n\n\n\nb\n\nc\n d\xe3\x80\x80\n\n\n"),
            "a\n\nb\n\nc\n d");
  EXPECT_EQ(clean_web_text(" \n\n\n "), "");
  DocumentOptions web;
  web.web_text = true;
  EXPECT_EQ(
      read("set.tar",
           packed("xz", tar_of({{"1.txt", "\n a\n\n\n\n<|endoftext|>b \n"}, {"readme", "no"}})),
           web),
      Texts{"a\n\n<|endoftext|>b"});
}

TEST_F(DocumentsTest, DamagedAndTruncatedFilesAreRefused) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += static_cast<char>('a' + (i * i / 7 + i) % 26);
  for (const std::string filter : {"gzip", "xz", "zstd", "bzip2"}) {
    for (const bool in_tar : {false, true}) {
      SCOPED_TRACE(filter + (in_tar ? " of a tar" : ""));
      const std::string whole = packed(filter, in_tar ? tar_of({{"1.txt", text}}) : text);
      expect_bad("cut", whole.substr(0, whole.size() / 2), Code::kDataLoss,
                 {"damaged or cut short"});
      expect_bad("cut", whole.substr(0, whole.size() - 3), Code::kDataLoss,
                 {"damaged or cut short"});
      // zstd's checksum is an option of the one who packs, which libarchive's writer leaves off.
      if (filter == "zstd") continue;
      std::string altered = whole;
      altered[altered.size() / 2] = static_cast<char>(altered[altered.size() / 2] ^ 0x10);
      const fs::path path = folder_.write("altered", altered);
      EXPECT_FALSE(documents({path}).ok());
    }
  }
  const std::string tar = tar_of({{"one.txt", text}, {"two.txt", text}});
  expect_bad("cut.tar", tar.substr(0, tar.size() - 150000), Code::kDataLoss,
             {"cut.tar", "damaged or cut short"});
  const std::string xz = packed("xz", text);
  const std::string inside = tar_of({{"a/b.xz", xz.substr(0, xz.size() / 2)}});
  expect_bad("inside.tar", inside, Code::kDataLoss, {"inside.tar: a/b.xz"});
  // gzip's own checksum, which libarchive does not compare: a stored block with a letter changed.
  std::string stored(
      "\x1f\x8b\x08\0\0\0\0\0\0\3\1\4\0\xfb\xff"
      "abcd",
      19);
  stored += std::string("\x11\xcd\x82\xed\4\0\0\0", 8);
  EXPECT_EQ(read("stored.gz", stored), Texts{"abcd"});
  stored[15] = 'x';
  expect_bad("stored.gz", stored, Code::kDataLoss, {"incorrect data check"});
}

TEST_F(DocumentsTest, SaysWhereTextIsNotUtf8) {
  const std::string text(300000, 'a');
  expect_bad("a.txt", text + "\xff" + text, Code::kInvalidArgument,
             {"not valid UTF-8 at byte 300000", "ff 61"});
  expect_bad("a.txt", text + "\xe2\x82", Code::kInvalidArgument, {"at byte 300000", "e2 82"});
  expect_bad("a.tar",
             tar_of({{"good.txt", "good"},
                     {"sub/bad.txt",
                      "b\xe4"
                      "d"}}),
             Code::kInvalidArgument, {"a.tar: sub/bad.txt", "at byte 1"});
  expect_bad("a.bin",
             std::string("\x7f"
                         "ELF\0\1",
                         6) +
                 text,
             Code::kInvalidArgument, {"neither text nor a tar"});
}

TEST_F(DocumentsTest, SaysWhichJsonLineIsWrong) {
  const std::string good = "{\"text\": \"good\"}\n";
  expect_bad("a.jsonl", good + good + "{\"text\": \"cut", Code::kInvalidArgument,
             {"line 3", "not JSON at column "});
  expect_bad("a.jsonl", good + "\n[1]\n", Code::kInvalidArgument, {"line 3", "not array"});
  expect_bad("a.jsonl", good + "{\"body\": \"x\", \"id\": 1}\n", Code::kInvalidArgument,
             {"line 2", "no key \"text\"", "\"body\", \"id\"", "--text-key"});
  expect_bad("a.jsonl", "{\"text\": 5}\n", Code::kInvalidArgument, {"line 1", "number"});
  expect_bad("a.jsonl", good + "{\"text\": \"\xff\"}\n", Code::kInvalidArgument,
             {"not valid UTF-8 at byte 27"});
}

TEST_F(DocumentsTest, SaysWhatIsNoFile) {
  expect_failure(documents({folder_ / "none.txt"}), Code::kNotFound, {"none.txt"});
  expect_failure(documents({folder_.path()}), Code::kInvalidArgument, {"is a folder"});
}

}  // namespace
}  // namespace espalier
