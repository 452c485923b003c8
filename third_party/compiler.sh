#!/usr/bin/env bash
# Prints the C++ compiler to use: $CXX where it is set, else the first g++ of version 12 or later.
# Exits 1, printing nothing, where there is none.
set -euo pipefail
if [[ -n ${CXX:-} ]]; then
  echo "$CXX"
  exit
fi
for compiler in g++ g++-14 g++-13 g++-12; do
  version=$("$compiler" -dumpversion 2>/dev/null) || continue
  if ((${version%%.*} >= 12)); then
    echo "$compiler"
    exit
  fi
done
exit 1
