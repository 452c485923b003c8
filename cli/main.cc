// The program: one subcommand per file of this folder.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "cli/bad_usage.h"
#include "cli/compile.h"
#include "cli/devices.h"
#include "cli/eval.h"
#include "cli/export.h"
#include "cli/generate.h"
#include "cli/plan.h"
#include "cli/plot.h"
#include "cli/prepare.h"
#include "cli/tokenize.h"
#include "cli/train.h"
#include "cli/verify.h"
#include "espalier/base/log.h"

namespace {

constexpr int kFailed = 1, kBadUsage = 2;

int run(int argc, char** argv) {
  CLI::App app("Espalier pretrains language models on a mesh of devices.", "espalier");
  app.set_version_flag("--version", ESPALIER_VERSION);
  app.require_subcommand(1);
  espalier::add_train(app);
  espalier::add_compile(app);
  espalier::add_plan(app);
  espalier::add_generate(app);
  espalier::add_eval(app);
  espalier::add_export(app);
  espalier::add_verify(app);
  espalier::add_prepare(app);
  espalier::add_tokenize(app);
  espalier::add_plot(app);
  espalier::add_devices(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return espalier::report_bad_usage(app, error);
  } catch (const espalier::Error& error) {
    espalier::err().error("{}", error.what());
    return error.code() == espalier::Code::kInvalidArgument ? kBadUsage : kFailed;
  }
}

// For as long as nothing else handles the signal: training ends with a checkpoint instead.
void end_at_once(int number) {
  const std::string_view line = number == SIGINT ? "interrupted\n" : "terminated\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(128 + number);
}

}  // namespace

int main(int argc, char** argv) {
  // A file over the limit of its size is then a failed write, with a message, and no sudden end.
  std::signal(SIGXFSZ, SIG_IGN);
  // What is printed is for people: a reader that goes away must not end a run.
  std::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM}) {
    // Whoever started us with the signal ignored (nohup, a shell's background) wants it so.
    if (std::signal(number, SIG_IGN) != SIG_IGN) std::signal(number, end_at_once);
  }
  int status = kFailed;
  try {
    status = run(argc, argv);
  } catch (const std::exception& error) {
    espalier::err().error("{}", error.what());
  }
  std::fflush(nullptr);
  // All of ours is gone by now. A plugin's threads may still run while its static objects would be
  // destroyed, which has ended finished processes with an abort: leave without that.
  std::_Exit(status);
}
