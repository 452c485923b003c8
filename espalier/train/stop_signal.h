// StopSignal: asks a training loop to end after its running step.
#pragma once

namespace espalier {

// While one lives, the first SIGINT or SIGTERM is noted and no longer ends the process; a second
// one does. At most one at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();  // puts the earlier handlers back
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The number of the signal that came, 0 if none did.
  int received() const;
};

}  // namespace espalier
