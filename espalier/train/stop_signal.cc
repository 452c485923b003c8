#include "espalier/train/stop_signal.h"

#include <csignal>

namespace espalier {
namespace {

volatile std::sig_atomic_t received_signal = 0;
struct sigaction old_interrupt, old_terminate;

void note(int number) {
  received_signal = number;
  // The next one ends the process, whichever it is.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGTERM, &action, &old_terminate);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGTERM, &old_terminate, nullptr);
}

int StopSignal::received() const { return received_signal; }

}  // namespace espalier
