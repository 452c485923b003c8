// A scanned Llama of 80 layers is as large a program as one of 2, and compiles in about the same
// time; unrolled layers are copies. Sizes are checked, times are printed.
#include <gtest/gtest.h>

#include "espalier/base/locate.h"
#include "espalier/pjrt/optimized_program.h"
#include "espalier/runtime/saved_program.h"
#include "espalier/train/compile_step.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

struct Size {
  int64_t text = 0;   // bytes of StableHLO
  int64_t saved = 0;  // bytes of the compiled program
};

class ScanSize : public testing::Test {
 protected:
  Size compiled(const std::string& layers, int count) {
    const std::string recipe =
        (fs::path(ESPALIER_SOURCE_DIR) / "recipes/llama3-debug.toml").string();
    const RunConfig config =
        load_run_config(recipe, {"model.dim=32", "model.n_heads=4", "model.hidden_dim=64",
                                 "model.vocab_size=64", "model.layers=" + layers,
                                 "model.n_layers=" + std::to_string(count), "data.source=synthetic",
                                 "sample.every=0", "data.seq_len=32", "mesh.axes={fsdp=4, tp=2}",
                                 "train.remat=everything"})
            .value_or_throw();
    const fs::path file = folder_ / (layers + std::to_string(count));
    const CompiledStep step =
        compile_step(set_up_step(config).value_or_throw(), std::nullopt, file).value_or_throw();
    const SavedProgram saved = SavedProgram::load(file).value_or_throw();
    std::cout << layers << ", " << count << " layers: compiled in " << step.compile_seconds
              << " s from " << step.module_bytes << " bytes to " << saved.bytes.size() << "\n";
    return {step.module_bytes, static_cast<int64_t>(saved.bytes.size())};
  }
  TemporaryFolder folder_;
};

TEST_F(ScanSize, HardlyGrowsWithLayers) {
  if (const auto path = plugin_path("cpu"); !path) GTEST_SKIP() << path.failure().message;
  const Size few = compiled("scan", 2), many = compiled("scan", 80);
  EXPECT_LT(many.text, few.text + few.text / 50);
  EXPECT_LT(many.saved, few.saved + few.saved / 20);
  const Size two = compiled("unroll", 2), eight = compiled("unroll", 8);
  EXPECT_GT(eight.text, 2 * two.text);
  EXPECT_GT(eight.saved, 2 * two.saved);
}

}  // namespace
}  // namespace espalier::test
