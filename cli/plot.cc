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
    PlotOptions plot;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plot", "Draw the loss curves of runs (needs gnuplot)");
  command->add_option("RUN", options->runs, "Folders of runs, each with a metrics.jsonl")
      ->required();
  command->add_option("-o,--out", options->out, "The SVG file to write")->capture_default_str();
  command
      ->add_option("--label", options->plot.labels,
                   "A run's name in the legend, once a run in their order; else its folder's")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--smooth", options->plot.smooth,
                   "0 to below 1: draw the training loss as a moving average, over itself in pale")
      ->capture_default_str();
  command->callback([options] {
    plot_runs({options->runs.begin(), options->runs.end()}, options->out, options->plot)
        .value_or_throw();
    out().info("wrote {}", options->out);
  });
}

}  // namespace espalier
