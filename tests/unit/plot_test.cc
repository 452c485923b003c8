// Loss curves: what gnuplot draws, awkward names, and every refusal.
#include "espalier/train/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

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
  std::string draw(const std::vector<fs::path>& runs, const PlotOptions& options = PlotOptions()) {
    const Status status = plot_runs(runs, out_, options);
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

// The numbers at an SVG picture's tics.
std::vector<double> tics(const std::string& svg) {
  std::vector<double> out;
  const std::regex label(">\\s*(-?[0-9.]+)\\s*</");
  for (std::sregex_iterator at(svg.begin(), svg.end(), label), end; at != end; ++at) {
    out.push_back(std::stod((*at)[1]));
  }
  return out;
}

TEST_F(Plot, TheAxisOfLossesNeverBeginsBelowZero) {
  // Losses that come near zero: a margin, and rounding to the next tic, would lead below it.
  std::vector<fs::path> runs;
  for (const char* name : {"a", "b", "c"}) {
    runs.push_back(folder_ / name);
    ASSERT_TRUE(make_folders(runs.back()).ok());
    auto writer = MetricsWriter::create(runs.back() / "metrics.jsonl").value_or_throw();
    for (int64_t step = 1; step <= 100; ++step) {
      StepMetrics m;
      m.step = step;
      m.loss = 4.0 / static_cast<double>(step);
      if (step % 10 == 0) m.val_loss = m.loss * 1.1;
      ASSERT_TRUE(writer.write(m).ok());
    }
  }
  const std::string svg = draw(runs);
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  const auto numbers = tics(svg);
  ASSERT_GT(numbers.size(), 5u);
  for (const double number : numbers) EXPECT_GE(number, 0);
}

TEST_F(Plot, ARunHasOneColor) {
  const std::string svg = draw({make_run("first", 200), make_run("second", 200)});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  const auto count = [&](const std::string& color) {
    size_t found = 0;
    for (size_t at = svg.find(color); at != std::string::npos; at = svg.find(color, at + 1))
      ++found;
    return found;
  };
  // Lines, points and the legend's samples of both curves.
  EXPECT_GE(count("rgb(  0, 114, 178)"), 4u);
  EXPECT_GE(count("rgb(213,  94,   0)"), 4u);
  EXPECT_EQ(count("rgb(  0, 158, 115)"), 0u);
  EXPECT_NE(svg.find(" opacity='0."), std::string::npos);
}

TEST_F(Plot, LabelsStandInTheLegend) {
  const fs::path a = make_run("first", 40), b = make_run("second", 40), c = make_run("third", 40);
  const std::string svg = draw({a, b, c}, {.labels = {"AdamW", ""}});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  for (const char* text : {"AdamW train", "AdamW val", "second train", "third val"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find("first train"), std::string::npos);
  const Status many = plot_runs({a}, out_, {.labels = {"x", "y"}});
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.failure().code, Code::kInvalidArgument);
}

TEST_F(Plot, SmoothingDrawsTheLossTwice) {
  const fs::path run = make_run("run", 40);
  const std::string plain = draw({run}), svg = draw({run}, {.smooth = 0.9});
  if (svg.empty()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_GT(svg.size(), plain.size());
  EXPECT_EQ(plain.find(" opacity='0."), std::string::npos);
  EXPECT_NE(svg.find(" opacity='0."), std::string::npos);
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    EXPECT_EQ(plot_runs({run}, out_, {.smooth = bad}).failure().code, Code::kInvalidArgument);
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
  const Status missing = plot_runs({run}, out_, {.gnuplot = "espalier-no-such-gnuplot"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, Code::kFailedPrecondition);
  EXPECT_NE(missing.failure().message.find("apt-get install gnuplot-nox"), std::string::npos);
  const Status failing = plot_runs({run}, out_, {.gnuplot = "false"});
  ASSERT_FALSE(failing.ok());
  EXPECT_EQ(failing.failure().code, Code::kInternal);
  EXPECT_NE(failing.failure().message.find("status 1"), std::string::npos);
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace espalier
