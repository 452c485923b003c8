// The recipe reader: overrides, types, checks, unknown keys with their places, and writing back.
#include "espalier/config/recipe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "espalier/base/file.h"

namespace espalier {
namespace {

struct DataConfig {
  std::string source = "text";
  int64_t seq_len = 128;
  uint64_t seed = 7;
  std::optional<std::string> path;
  bool shuffle = true;
  bool operator==(const DataConfig&) const = default;
};
template <class V>
void bind(V& v, DataConfig& c) {
  v("source", c.source, one_of({"text", "tokens"}));
  v("seq_len", c.seq_len, at_least(1), at_most(4096));
  v("seed", c.seed);
  v("path", c.path, not_empty());
  v("shuffle", c.shuffle);
}

struct LayoutConfig {
  NamedInts axes = {{"data", 1}};
  NamedLists rules;
  NamedSpecs params;
  bool operator==(const LayoutConfig&) const = default;
};
template <class V>
void bind(V& v, LayoutConfig& c) {
  v("axes", c.axes, at_least(1), not_empty());
  v("rules", c.rules);
  v("params", c.params);
}

struct RateConfig {
  double rate = 3e-4;
  std::vector<double> betas = {0.9, 0.95};
  std::vector<int64_t> steps;
  std::vector<std::string> names = {"a"};
  std::optional<int64_t> warmup;
  bool operator==(const RateConfig&) const = default;
};
template <class V>
void bind(V& v, RateConfig& c) {
  v("rate", c.rate, greater_than(0));
  v("betas", c.betas, between(0, 1));
  v("steps", c.steps);
  v("names", c.names);
  v("warmup", c.warmup, at_least(0));
}

struct NameConfig {
  std::string name;
  bool operator==(const NameConfig&) const = default;
};
template <class V>
void bind(V& v, NameConfig& c) {
  v("name", c.name, required());
}

struct RetryConfig {
  int64_t count = 3;
  bool operator==(const RetryConfig&) const = default;
};
template <class V>
void bind(V& v, RetryConfig& c) {
  v("count", c.count, at_least(1));
}

struct ServiceConfig {
  std::string project;
  std::optional<std::string> id;
  RetryConfig retry;
  bool operator==(const ServiceConfig&) const = default;
};
template <class V>
void bind(V& v, ServiceConfig& c) {
  v("project", c.project);
  v("id", c.id);
  v.sub_table("retry", c.retry);
}

struct LoggingConfig {
  bool plot = true;
  ServiceConfig service;
  NamedLists tags;
  bool operator==(const LoggingConfig&) const = default;
};
template <class V>
void bind(V& v, LoggingConfig& c) {
  v("plot", c.plot);
  v.sub_table("service", c.service);
  v("tags", c.tags);
}

struct Configs {
  DataConfig data;
  LayoutConfig layout;
  RateConfig optimizer;
  LoggingConfig logging;
  bool operator==(const Configs&) const = default;
};

Status read_all(Recipe& recipe, Configs& c) {
  ESPALIER_TRY(read_table(recipe, "data", c.data));
  ESPALIER_TRY(read_table(recipe, "sharding", c.layout));
  ESPALIER_TRY(read_table(recipe, "optimizer", c.optimizer));
  ESPALIER_TRY(read_table(recipe, "logging", c.logging));
  return recipe.finish();
}

Result<Configs> read(std::string_view text, const std::vector<std::string>& overrides = {}) {
  ESPALIER_ASSIGN(Recipe recipe, Recipe::parse(text, "run.toml", overrides));
  Configs c;
  ESPALIER_TRY(read_all(recipe, c));
  return c;
}

// The message of a recipe that must be refused as bad input.
std::string problem(std::string_view text, const std::vector<std::string>& overrides = {}) {
  auto result = read(text, overrides);
  if (result) return "accepted";
  EXPECT_EQ(result.failure().code, Code::kInvalidArgument);
  return result.failure().message;
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
  }
}

TEST(Recipe, ReadsEveryType) {
  const auto c = read(R"(
[data]
source = "tokens"
seq_len = 64
seed = 9223372036854775807
path = "a b"
shuffle = false
[sharding]
axes = {zebra = 2, alpha = 4}
[sharding.rules]
seq = []
embed = ["fsdp", "dp"]
batch = "data"
none = ""
[sharding.params]
"layers.*.wq" = ["tp", ["fsdp", "dp"], ""]
[optimizer]
rate = 1
betas = [0.5, 1]
steps = [3, 1]
names = ["x", "y"]
warmup = 0
)");
  ASSERT_TRUE(c.ok()) << c.failure().message;
  EXPECT_EQ(c->data, (DataConfig{"tokens", 64, 9223372036854775807u, "a b", false}));
  EXPECT_EQ(c->layout.axes, (NamedInts{{"zebra", 2}, {"alpha", 4}}));
  EXPECT_EQ(
      c->layout.rules,
      (NamedLists{{"seq", {}}, {"embed", {"fsdp", "dp"}}, {"batch", {"data"}}, {"none", {}}}));
  EXPECT_EQ(c->layout.params, (NamedSpecs{{"layers.*.wq", {{"tp"}, {"fsdp", "dp"}, {}}}}));
  EXPECT_EQ(c->optimizer, (RateConfig{1.0, {0.5, 1.0}, {3, 1}, {"x", "y"}, 0}));
}

TEST(Recipe, MissingTablesAndKeysKeepDefaults) {
  const auto c = read("[data]\nseq_len = 5\n");
  ASSERT_TRUE(c.ok());
  Configs expected;
  expected.data.seq_len = 5;
  EXPECT_EQ(*c, expected);
}

TEST(Recipe, LoadReadsAFileAndNamesAMissingOne) {
  const auto folder = std::filesystem::temp_directory_path() / "espalier_recipe_test";
  ASSERT_TRUE(make_folders(folder).ok());
  ASSERT_TRUE(write_file(folder / "r.toml", "[data]\nseq_len = 0\n").ok());
  auto recipe = Recipe::load(folder / "r.toml");
  ASSERT_TRUE(recipe.ok());
  DataConfig data;
  expect_parts(read_table(*recipe, "data", data).failure().message,
               {(folder / "r.toml").string() + ":2:11"});
  std::filesystem::remove_all(folder);
  const auto missing = Recipe::load(folder / "r.toml");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, Code::kNotFound);
}

TEST(Recipe, BadTomlNamesLineAndColumn) {
  expect_parts(problem("[data]\nseq_len = = 3\n"), {"run.toml:2:11", "not valid TOML"});
  expect_parts(problem("[data]\nseq_len = 1\nseq_len = 2\n"), {"run.toml:3:", "not valid TOML"});
  expect_parts(problem("[data]\npath = 2020-01-01\n"), {"run.toml:2:8", "dates"});
}

TEST(Recipe, UnknownKeyNamesTheNearest) {
  expect_parts(problem("[data]\n\nseqlen = 3\n"),
               {"run.toml:3:1", "unknown key 'data.seqlen'", "did you mean 'data.seq_len'?"});
  expect_parts(problem("[data]\nshufle = true\n"), {"'data.shuffle'"});
  // Even one that is nothing like any key names some key.
  expect_parts(problem("[optimizer]\nzzz = 3\n"),
               {"unknown key 'optimizer.zzz'", "did you mean '"});
  // A key of another table that was read already.
  expect_parts(problem("[optimizer]\nseq_len = 3\n"), {"did you mean 'data.seq_len'?"});
  // An unknown key is told before a wrong type.
  expect_parts(problem("[data]\nseq_len = \"x\"\nshufle = 1\n"), {"unknown key 'data.shufle'"});
}

TEST(Recipe, UnknownTablesAndTopLevelKeys) {
  expect_parts(problem("[optimiser]\nrate = 1.0\n"),
               {"run.toml:1:", "unknown table 'optimiser'", "did you mean 'optimizer'?"});
  expect_parts(problem("seq_len = 3\n"), {"run.toml:1:1", "'data.seq_len'"});
  expect_parts(problem("zzz = 3\n"), {"unknown key 'zzz'"});
  expect_parts(problem("data = 3\n"), {"run.toml:1:8", "'data' must be a table", "the integer 3"});
}

TEST(Recipe, WrongTypesNameKeyAndBothTypes) {
  expect_parts(problem("[data]\nseq_len = \"abc\"\n"),
               {"run.toml:2:11", "'data.seq_len' must be an integer", "found the text \"abc\""});
  expect_parts(problem("[data]\nseq_len = 1e3\n"), {"an integer", "found the number 1000"});
  expect_parts(problem("[data]\nseed = -1\n"), {"an integer of at least 0", "integer -1"});
  expect_parts(problem("[data]\nshuffle = 1\n"), {"true or false", "integer 1"});
  expect_parts(problem("[data]\npath = false\n"), {"a text in quotes", "found false"});
  expect_parts(problem("[optimizer]\nrate = \"1\"\n"), {"a number", "text \"1\""});
  expect_parts(problem("[optimizer]\nsteps = [1, \"a\"]\n"), {"a list of integers", "[1, \"a\"]"});
  expect_parts(problem("[optimizer]\nnames = \"a\"\n"), {"a list of texts"});
  expect_parts(problem("[sharding]\naxes = {a = 1.5}\n"), {"names with integers", "{a = 1.5}"});
  expect_parts(problem("[sharding]\nrules = {a = 1}\n"), {"a text or a list of texts"});
  expect_parts(problem("[sharding]\nparams = {a = \"tp\"}\n"), {"patterns"});
  expect_parts(problem("[sharding]\nparams = {a = [[[]]]}\n"), {"patterns"});
}

TEST(Recipe, ChecksNameTheRange) {
  expect_parts(problem("[data]\nseq_len = 0\n"),
               {"run.toml:2:11", "'data.seq_len' must be at least 1, found the integer 0"});
  expect_parts(problem("[data]\nseq_len = 5000\n"), {"at most 4096"});
  expect_parts(problem("[data]\nsource = \"token\"\n"), {"one of", "nearest: \"tokens\""});
  expect_parts(problem("[data]\npath = \"\"\n"), {"'data.path' must be something", "empty"});
  expect_parts(problem("[optimizer]\nrate = 0\n"), {"greater than 0"});
  expect_parts(problem("[optimizer]\nrate = nan\n"), {"greater than 0"});
  expect_parts(problem("[optimizer]\nbetas = [0.5, 2]\n"), {"between 0 and 1"});
  expect_parts(problem("[optimizer]\nwarmup = -1\n"), {"at least 0"});
  expect_parts(problem("[sharding]\naxes = {a = 1, b = 0}\n"), {"at least 1"});
  expect_parts(problem("[sharding]\naxes = {}\n"), {"empty"});
}

TEST(Recipe, RequiredKeys) {
  for (const char* text : {"", "[model]\n"}) {
    auto recipe = Recipe::parse(text, "run.toml");
    NameConfig name;
    const Status status = read_table(*recipe, "model", name);
    ASSERT_FALSE(status.ok());
    expect_parts(status.failure().message, {"run.toml", "'model.name' is missing"});
  }
}

TEST(Recipe, OverridesReplaceAddAndMakeTables) {
  const auto c = read("[data]\nseq_len = 5\n[sharding]\naxes = {x = 9, y = 3}\n",
                      {"data.seq_len=6", "data.path=/some/file.txt", "sharding.axes={b=8, a=1}",
                       "optimizer.rate = 1e-3", "sharding.rules.embed=[\"fsdp\"]",
                       "sharding.params.\"layers.*.wq\"=[\"tp\"]", "data.seq_len=7"});
  ASSERT_TRUE(c.ok()) << c.failure().message;
  EXPECT_EQ(c->data.seq_len, 7);
  EXPECT_EQ(c->data.path, "/some/file.txt");
  EXPECT_EQ(c->layout.axes, (NamedInts{{"b", 8}, {"a", 1}}));
  EXPECT_EQ(c->layout.rules, (NamedLists{{"embed", {"fsdp"}}}));
  EXPECT_EQ(c->layout.params, (NamedSpecs{{"layers.*.wq", {{"tp"}}}}));
  EXPECT_EQ(c->optimizer.rate, 1e-3);
  EXPECT_EQ(read("", {"data={seq_len=3}"})->data.seq_len, 3);
  EXPECT_EQ(read("", {"data.path=a#b=c d"})->data.path, "a#b=c d");
  EXPECT_EQ(read("", {"data.path=\"\u00e9\\n\""})->data.path, "\u00e9\n");
}

TEST(Recipe, BadOverridesAreNamed) {
  expect_parts(problem("", {"data.seq_len"}), {"--set data.seq_len", "table.key=VALUE"});
  expect_parts(problem("", {"data.seq_len="}), {"no VALUE"});
  expect_parts(problem("", {"=3"}), {"is no key"});
  expect_parts(problem("", {"data..x=3"}), {"is no key"});
  expect_parts(problem("", {"sharding.axes={a=1"}), {"--set sharding.axes={a=1", "not valid TOML"});
  expect_parts(problem("[data]\nseq_len=3\n", {"data.seq_len.x=3"}),
               {"data.seq_len is the integer"});
  expect_parts(problem("", {"data.seqlen=3"}), {"--set data.seqlen=3", "'data.seq_len'"});
  expect_parts(problem("", {"data.seq_len=abc"}), {"--set data.seq_len=abc", "must be an integer"});
}

TEST(Recipe, TablesInsideTables) {
  const auto c = read(R"(
[logging.service.retry]
count = 5
[logging.service]
project = "a b"
)",
                      {"logging.service.id=x1", "logging.plot=false"});
  ASSERT_TRUE(c.ok()) << c.failure().message;
  EXPECT_EQ(c->logging, (LoggingConfig{false, {"a b", "x1", {5}}, {}}));
  EXPECT_EQ(read("[logging]\nservice = {retry.count = 2}\n")->logging.service.retry.count, 2);
  EXPECT_EQ(read("[logging]\nplot = false\n")->logging.service, ServiceConfig());
  EXPECT_EQ(read("", {"logging.service={project=\"p\"}"})->logging.service.project, "p");
}

TEST(Recipe, MistakesInTablesInsideTablesNameTheWholeKey) {
  expect_parts(problem("[logging.service]\n\nproyect = \"x\"\n"),
               {"run.toml:3:1", "unknown key 'logging.service.proyect'",
                "did you mean 'logging.service.project'?", "[logging.service] takes: project, id"});
  expect_parts(
      problem("", {"logging.service.retry.cuont=1"}),
      {"--set logging.service.retry.cuont=1", "did you mean 'logging.service.retry.count'"});
  expect_parts(problem("[logging.servce]\nproject = \"x\"\n"),
               {"unknown key 'logging.servce'", "did you mean 'logging.service'?"});
  expect_parts(problem("[logging]\nproject = \"x\"\n"),
               {"did you mean 'logging.service.project'?"});
  expect_parts(problem("[service]\nproject = \"x\"\n"),
               {"unknown table 'service'", "did you mean 'logging.service'?"});
  expect_parts(problem("[logging.service]\nproject = 3\n"),
               {"run.toml:2:11", "'logging.service.project' must be a text in quotes"});
  expect_parts(problem("[logging.service.retry]\ncount = 0\n"),
               {"'logging.service.retry.count' must be at least 1"});
  expect_parts(problem("[logging]\nservice = true\n"),
               {"run.toml:2:11", "'logging.service' must be a table, found true"});
  // The name of a table that no recipe has is the nearest of the outermost ones.
  expect_parts(problem("[lodging]\n"), {"did you mean 'logging'?", "tables: data, sharding"});
}

TEST(Recipe, OneTableForSeveralStructs) {
  auto recipe = Recipe::parse("[model]\nname = \"m\"\nrate = 2.0\nnmae = 1\n", "run.toml");
  NameConfig name;
  ASSERT_TRUE(read_part(*recipe, "model", name).ok());
  EXPECT_EQ(name.name, "m");
  RateConfig rate;
  const Status status = read_table(*recipe, "model", rate);
  EXPECT_EQ(rate.rate, 2.0);
  ASSERT_FALSE(status.ok());
  expect_parts(status.failure().message, {"'model.nmae'", "did you mean 'model.name'?"});
}

std::string write(const Configs& c) {
  RecipeWriter writer;
  writer.table("data", c.data);
  writer.table("sharding", c.layout);
  writer.table("optimizer", c.optimizer);
  writer.table("logging", c.logging);
  return writer.text();
}

TEST(RecipeWriter, RoundTrips) {
  Configs plain;
  Configs full;
  full.data = {"tokens", 1, 3, "quote \" back \\ line\n tab\t bell\x07 \u00e9", false};
  full.layout.axes = {{"z", 2}, {"a", 1}, {"with space", 3}};
  full.layout.rules = {{"seq", {}}, {"batch", {"x", "y"}}};
  full.layout.params = {{"layers.*.wq", {{"tp"}, {}, {"a", "b"}}}, {"*", {}}};
  full.optimizer = {1.0 / 3, {0.1, 1e-300, 1.0}, {-5}, {}, 3};
  full.logging = {false, {"p \" q", "id1", {9}}, {{"a", {"b"}}}};
  for (const Configs& c : {plain, full}) {
    const std::string text = write(c);
    const auto back = read(text);
    ASSERT_TRUE(back.ok()) << back.failure().message << "\n" << text;
    EXPECT_EQ(*back, c) << text;
    EXPECT_EQ(write(*back), text);
  }
}

TEST(RecipeWriter, KeepsExtremeDoubles) {
  for (const double value : {1e22, 1e-8, 5e-324, 1.7976931348623157e308, 100000.0, 123456789.125,
                             std::numeric_limits<double>::infinity()}) {
    Configs c;
    c.optimizer.rate = value;
    const auto back = read(write(c));
    ASSERT_TRUE(back.ok()) << back.failure().message;
    EXPECT_EQ(back->optimizer.rate, value);
  }
}

TEST(RecipeWriter, WritesTablesInsideTables) {
  RecipeWriter writer;
  writer.table("logging", LoggingConfig{true, {"p", std::nullopt, {4}}, {{"t", {"x"}}}});
  EXPECT_TRUE(
      writer.text().ends_with("\n[logging]\nplot = true\n"
                              "\n[logging.service]\nproject = \"p\"\n# id is not set\n"
                              "\n[logging.service.retry]\ncount = 4\n"
                              "\n[logging.tags]\nt = [\"x\"]\n"))
      << writer.text();
}

TEST(RecipeWriter, WritesEveryKeyInBindOrderOnce) {
  RecipeWriter writer;
  writer.table("data", DataConfig{}, DataConfig{});
  EXPECT_EQ(writer.text(),
            "# The recipe of a run with every key resolved; it can be run again as it is.\n"
            "\n[data]\nsource = \"text\"\nseq_len = 128\nseed = 7\n# path is not set\n"
            "shuffle = true\n");
  DataConfig large;
  large.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_THROW(writer.table("data", large), Error);
}

TEST(NearestName, CountsSwapsAsOne) {
  EXPECT_EQ(nearest_name("nmae", {"mean", "name"}), "name");
  EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace espalier
