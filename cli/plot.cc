#include "cli/plot.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/base/log.h"
#include "espalier/train/plot.h"

namespace espalier {

void add_plot(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string out = "loss.svg";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plot", "Draw the loss curves of runs (needs gnuplot)");
  command->add_option("RUN", options->runs, "Folders of runs, each with a metrics.jsonl")
      ->required();
  command->add_option("-o,--out", options->out, "The SVG file to write")->capture_default_str();
  command->callback([options] {
    plot_runs({options->runs.begin(), options->runs.end()}, options->out).value_or_throw();
    out().info("wrote {}", options->out);
  });
}

}  // namespace espalier
