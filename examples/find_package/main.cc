// Uses the installed library: makes an array on the host and says what it is.
#include <cstdio>
#include <vector>

#include "espalier/base/host_array.h"

int main() {
  const auto array = espalier::HostArray::from<float>({2, 3}, std::vector<float>(6, 1.0f));
  std::printf("a float32 array of %s\n", espalier::to_string(array.dims()).c_str());
}
