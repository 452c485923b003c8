// Loss curves: what gnuplot draws, awkward names, and every refusal.
#include "espalier/train/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "espalier/base/file.h"
#include "espalier/train/metrics.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

class Plot : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    ASSERT_TRUE(make_folders(folder_).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path make_run(const std::string& name, int64_t steps, bool finite = true) {
    const fs::path run = folder_ / name;
    EXPECT_TRUE(make_folders(run).ok());
    auto writer = MetricsWriter::create(run / "metrics.jsonl").value_or_throw();
    for (int64_t step = 1; step <= steps; ++step) {
      StepMetrics m;
      m.step = step;
      m.loss = finite ? 1 + 3 * std::exp(-static_cast<double>(step) / 50)
                      : std::numeric_limits<double>::quiet_NaN();
      if (finite && step % 20 == 0) m.val_loss = m.loss + 0.1;
      EXPECT_TRUE(writer.write(m).ok());
    }
    return run;
  }

  // Draws, or returns nothing after skipping where gnuplot is missing.
  std::string draw(const std::vector<fs::path>& runs) {
    const Status status = plot_runs(runs, out_);
    if (!status.ok() && status.failure().message.find("apt-get install") != std::string::npos) {
      return "";
    }
    EXPECT_TRUE(status.ok()) << status.failure().message;
    return read_file(out_).value_or_throw();
  }

  fs::path folder_ = fs::temp_directory_path() / "espalier_plot_test";
  fs::path out_ = folder_ / "loss.svg";
};

TEST_F(Plot, NamesRunsAndAxes) {
  const std::string svg = draw({make_run("first_run", 200), make_run("second", 100) / ""});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  for (const char* text : {"first_run train", "first_run val", "second train", "second val",
                           ">step<", "loss (nats per token)"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
}

TEST_F(Plot, NamesAreNeverRunAsCommands) {
  const std::string svg = draw({make_run("a'b`touch hacked`\"$HOME\nnext", 30)});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_FALSE(fs::exists("hacked"));
  EXPECT_NE(svg.find("touch hacked"), std::string::npos);
  EXPECT_NE(svg.find("$HOME next"), std::string::npos);
}

TEST_F(Plot, RunsOfOneNameAreToldApart) {
  const fs::path a = make_run("x/run", 30), b = make_run("y/run", 30);
  const std::string svg = draw({a, b});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_NE(svg.find(a.string() + " train"), std::string::npos);
  EXPECT_NE(svg.find(b.string() + " train"), std::string::npos);
}

TEST_F(Plot, ALongRunStaysASmallPicture) {
  const std::string svg = draw({make_run("long", 20000)});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_LT(svg.size(), 200000u);
}

TEST_F(Plot, OneStepIsDrawn) {
  const std::string svg = draw({make_run("one", 1)});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_NE(svg.find("one train"), std::string::npos);
}

TEST_F(Plot, RefusalsSayWhatToDo) {
  EXPECT_EQ(plot_runs({}, out_).failure().code, Code::kInvalidArgument);
  const Status missing = plot_runs({folder_ / "nothing"}, out_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, Code::kNotFound);
  EXPECT_NE(missing.failure().message.find((folder_ / "nothing").string()), std::string::npos);
  EXPECT_EQ(plot_runs({make_run("empty", 0)}, out_).failure().code, Code::kFailedPrecondition);
  EXPECT_EQ(plot_runs({make_run("nan", 5, false)}, out_).failure().code, Code::kFailedPrecondition);
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Plot, MissingOrFailingGnuplot) {
  const fs::path run = make_run("run", 10);
  const Status missing = plot_runs({run}, out_, "espalier-no-such-gnuplot");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, Code::kFailedPrecondition);
  EXPECT_NE(missing.failure().message.find("apt-get install gnuplot-nox"), std::string::npos);
  const Status failing = plot_runs({run}, out_, "false");
  ASSERT_FALSE(failing.ok());
  EXPECT_EQ(failing.failure().code, Code::kInternal);
  EXPECT_NE(failing.failure().message.find("status 1"), std::string::npos);
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace espalier
