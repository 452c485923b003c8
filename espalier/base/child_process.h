// Work that may end its process, done in a process of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// Runs `body` in a forked copy of this process and returns what it returned: text of any size, a
// failure, or what it threw. The child's standard error is caught, not shown. Where the child ends
// in another way (a signal, an exit of its own), the failure is kInternal, says how `what` ended
// and quotes the last lines of that standard error. The child dies with this process.
//
// Call it while the process has one thread: a fork copies the calling thread alone, and locks that
// others hold stay locked in the copy. In the child, memory and files are copies; `body` is run as
// if by this thread, and no destructors of static objects follow.
Result<std::string> run_in_child(std::string_view what,
                                 const std::function<Result<std::string>()>& body);

}  // namespace espalier
