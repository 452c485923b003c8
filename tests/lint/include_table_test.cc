// Who may include whom: checks every `#include "espalier/..."` of the library against the table of
// docs/architecture.md, and the two lines that must hold whatever the table says.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {
namespace fs = std::filesystem;

using Names = std::set<std::string>;

// Folder -> folders it may include besides its own. "x*" is x and all that x may include.
const std::map<std::string, std::vector<std::string>> kTable = {
    {"base", {}},
    {"config", {"base"}},
    {"mesh", {"base"}},
    {"ir", {"mesh*"}},
    {"hlo", {"ir*"}},
    {"ops", {"hlo*"}},
    {"transform", {"ops*"}},
    {"random", {"ops*"}},
    {"pjrt", {"base"}},
    {"kernels", {"ops*", "pjrt"}},
    {"runtime", {"transform*", "kernels*"}},
    {"nn", {"ops*", "random"}},
    {"models", {"nn*", "config"}},
    {"optim", {"ops*", "random", "config"}},
    {"text", {"base"}},
    {"data", {"text*", "config"}},
    {"checkpoint", {"runtime*"}},
    {"train", {"models*", "optim*", "data*", "checkpoint*"}},
    {"generate", {"models*", "runtime*", "text*"}},
};

// The folders that trace, differentiate and print with no plugin present.
const Names kNoPlugin = {"ops", "transform", "nn", "models", "optim"};

Names allowed(const std::string& folder) {
  Names out = {folder};
  for (std::string name : kTable.at(folder)) {
    if (name.back() == '*') {
      name.pop_back();
      out.merge(allowed(name));
    }
    out.insert(name);
  }
  return out;
}

// Path below the root -> text; the whole library, or a test's own.
using Sources = std::map<std::string, std::string>;

std::string folder_of(const std::string& path) {
  const size_t first = path.find('/');
  return path.substr(first + 1, path.find('/', first + 1) - first - 1);
}

// The quoted includes of ours in a text, as paths below the root.
std::vector<std::string> includes(const std::string& text) {
  static const std::regex kInclude(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*"(espalier/[^"]+)")re");
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
    out.push_back((*it)[1]);
  }
  return out;
}

// Adds to `reached` every file that `path` includes, directly or through others.
void reach(const Sources& sources, const std::string& path, Names& reached) {
  const auto source = sources.find(path);
  if (source == sources.end()) return;
  for (const std::string& header : includes(source->second)) {
    if (reached.insert(header).second) reach(sources, header, reached);
  }
}

// One line for each breach; empty when the sources keep the rules.
std::vector<std::string> breaches(const Sources& sources) {
  std::vector<std::string> out;
  for (const auto& [path, text] : sources) {
    const std::string folder = folder_of(path);
    if (!kTable.contains(folder)) {
      out.push_back(path + ": folder '" + folder + "' is not in the table");
      continue;
    }
    const Names may = allowed(folder);
    for (const std::string& header : includes(text)) {
      if (!may.contains(folder_of(header))) {
        out.push_back(path + ": " + folder + " may not include \"" + header + "\"");
      }
    }
    if (kNoPlugin.contains(folder)) {
      Names reached;
      reach(sources, path, reached);
      for (const std::string& header : reached) {
        if (folder_of(header) == "pjrt" || folder_of(header) == "runtime") {
          out.push_back(path + ": reaches \"" + header + "\"; " + folder +
                        " must work with no plugin present");
        }
      }
    }
    // Shardy propagates; the attribute by which an operation would bring its own rule stays out.
    if (text.find("sdy.sharding_rule") != std::string::npos) {
      out.push_back(path + ": no operation carries a sharding rule");
    }
  }
  return out;
}

Sources library() {
  Sources sources;
  const fs::path root = ESPALIER_SOURCE_DIR;
  for (const auto& entry : fs::recursive_directory_iterator(root / "espalier")) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc" && extension != ".inc") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    sources[entry.path().lexically_relative(root).generic_string()] = text.str();
  }
  return sources;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "\n" + line;
  return out;
}

TEST(IncludeTable, TheLibraryKeepsIt) {
  const Sources sources = library();
  ASSERT_GE(sources.size(), 10u) << "no sources under " << ESPALIER_SOURCE_DIR;
  const auto found = breaches(sources);
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(IncludeTable, EveryIncludedHeaderExists) {
  const Sources sources = library();
  for (const auto& [path, text] : sources) {
    for (const std::string& header : includes(text)) {
      const bool generated = header.ends_with(".pb.h");
      EXPECT_TRUE(generated || sources.contains(header)) << path << " includes " << header;
    }
  }
}

TEST(IncludeTable, AStarMeansAllThatTheFolderMayInclude) {
  EXPECT_EQ(allowed("ops"), (Names{"base", "hlo", "ir", "mesh", "ops"}));
  EXPECT_EQ(allowed("pjrt"), (Names{"base", "pjrt"}));
  EXPECT_TRUE(allowed("runtime").contains("pjrt"));
  EXPECT_TRUE(allowed("train").contains("runtime"));
  EXPECT_FALSE(allowed("models").contains("transform"));
}

TEST(IncludeTable, BreachesAreFound) {
  EXPECT_EQ(breaches({{"espalier/text/a.h", "#include \"espalier/base/error.h\"\n"}}).size(), 0u);
  EXPECT_EQ(breaches({{"espalier/text/a.h", "\n  # include \"espalier/ir/x.h\""}}).size(), 1u);
  EXPECT_EQ(breaches({{"espalier/base/a.h", "#include \"espalier/text/b.h\""}}).size(), 1u);
  EXPECT_EQ(breaches({{"espalier/fresh/a.h", ""}}).size(), 1u);
  EXPECT_EQ(breaches({{"espalier/ops/a.cc", "emit(\"sdy.sharding_rule\")"}}).size(), 1u);
}

TEST(IncludeTable, APluginIsFoundThroughOtherHeaders) {
  const Sources sources = {
      {"espalier/ops/a.cc", "#include \"espalier/hlo/b.h\"\n"},
      {"espalier/hlo/b.h", "#include \"espalier/pjrt/c.h\"\n"},
      {"espalier/pjrt/c.h", ""},
  };
  // One for hlo's own line, one for what ops reaches by it.
  const auto found = breaches(sources);
  ASSERT_EQ(found.size(), 2u) << joined(found);
  EXPECT_NE(found[1].find("espalier/ops/a.cc: reaches"), std::string::npos) << joined(found);
}

}  // namespace
