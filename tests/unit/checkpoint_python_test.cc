// Files go both ways between this library and the safetensors package of Python.
#include <gtest/gtest.h>

#include <cstdlib>

#include "espalier/checkpoint/safetensors.h"
#include "espalier/checkpoint/weights_folder.h"
#include "tests/support/output_of.h"
#include "tests/unit/checkpoint_fixture.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

// The interpreter with the package, or "" and why there is none.
std::string find_python(std::string* reason) {
  const char* set = std::getenv("ESPALIER_TEST_PYTHON");
  const std::string python =
      set ? set
          : (fs::path(ESPALIER_SOURCE_DIR) / ".deps" / "test-venv" / "bin" / "python").string();
  *reason = "no Python at " + python + "; set ESPALIER_TEST_PYTHON";
  if (!set && !fs::exists(python)) return "";
  *reason = python + " has no safetensors and numpy packages";
  const std::string probe = "'" + python + "' -c 'import safetensors.numpy' 2>/dev/null";
  return std::system(probe.c_str()) == 0 ? python : "";
}

// The peer's output: one line a tensor.
std::string run_peer(const std::string& python, const std::string& action, const fs::path& file) {
  const fs::path script =
      fs::path(ESPALIER_SOURCE_DIR) / "tests" / "python" / "safetensors_peer.py";
  const std::string command =
      "'" + python + "' '" + script.string() + "' " + action + " '" + file.string() + "'";
  return test::output_of(command);
}

// The same lines from our reader.
std::string describe(const SafetensorsFile& file) {
  std::map<std::string, std::string> lines;
  for (const TensorInfo& t : file.tensors()) {
    const auto bytes = file.view(t.name).value_or_throw();
    std::string shape;
    for (int64_t d : t.dims) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    lines[t.name] = t.name + " " + safetensors_name(t.dtype) + " [" + shape + "] " +
                    digest_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).sha256 +
                    "\n";
  }
  std::string out;
  for (const auto& [name, line] : lines) out += line;
  return out;
}

TEST_F(CheckpointTest, PythonReadsWhatWeWrite) {
  std::string reason;
  const std::string python = find_python(&reason);
  if (python.empty()) GTEST_SKIP() << reason;
  save(1);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(root_ / "1")) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::open(entry.path());
    ASSERT_TRUE(file.ok()) << file.failure().message;
    EXPECT_EQ(run_peer(python, "read", entry.path()), describe(*file));
    ++files;
  }
  EXPECT_EQ(files, 3);
}

TEST_F(CheckpointTest, PythonReadsAnExportedFolder) {
  std::string reason;
  const std::string python = find_python(&reason);
  if (python.empty()) GTEST_SKIP() << reason;
  save(1);
  const auto reader = CheckpointReader::open(root_, "1").value_or_throw();
  // Two shards: each of these matrices has 12288 bytes.
  const std::vector<std::string> names = {"layers.0.weight", "layers.0.bias", "layers.1.weight"};
  const fs::path folder = folder_ / "export";
  write_weights_folder(folder, reader, names, 13000).value_or_throw();
  std::set<std::string> seen;
  for (const char* shard :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    const auto file = SafetensorsFile::open(folder / shard);
    ASSERT_TRUE(file.ok()) << file.failure().message;
    EXPECT_EQ(run_peer(python, "read", folder / shard), describe(*file));
    for (const TensorInfo& t : file->tensors()) seen.insert(t.name);
  }
  EXPECT_EQ(seen, std::set<std::string>(names.begin(), names.end()));
}

TEST_F(CheckpointTest, WeReadWhatPythonWrites) {
  std::string reason;
  const std::string python = find_python(&reason);
  if (python.empty()) GTEST_SKIP() << reason;
  const fs::path path = folder_ / "python.safetensors";
  const std::string said = run_peer(python, "write", path);
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.failure().message;
  EXPECT_EQ(file->tensors().size(), 6u);
  EXPECT_EQ(describe(*file), said);
  EXPECT_EQ(file->metadata().at("made"), "by Python");
  EXPECT_EQ(file->find("ids")->dims, (Dims{2, 2, 2}));
  EXPECT_EQ(file->find("mask")->dtype, DType::kBool);
}

}  // namespace
}  // namespace espalier
