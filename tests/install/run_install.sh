#!/usr/bin/env bash
# Installs a build into a folder of its own and uses it as somebody else would: runs the installed
# program, then configures, builds and tests every example against the installed package.
#
#   tests/install/run_install.sh BUILD_FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:?usage: run_install.sh BUILD_FOLDER}
compiler=$("$root/third_party/compiler.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "error: $*" >&2
  exit 1
}
# quietly COMMAND...: its output is shown only when it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && fail "failed: $*"; }; }

prefix=$work/prefix
quietly cmake --install "$build" --prefix "$prefix"
for file in share/espalier/text/gpt2.tiktoken lib/espalier/plugins/cpu/pjrt_c_api_cpu_plugin.so; do
  [[ -f $prefix/$file ]] || fail "cmake --install did not bring $file"
done
cd "$work"
if [[ -x $build/bin/espalier ]]; then
  quietly "$prefix/bin/espalier" --help
  echo '"hello world"' >text.jsonl
  ids=$("$prefix/bin/espalier" tokenize --tokenizer gpt2 text.jsonl | tr -d ' ')
  [[ $ids == "[31373,995]" ]] || fail "the installed program tokenizes 'hello world' as '$ids'"
fi

for example in "$root"/examples/*/CMakeLists.txt; do
  [[ -f $example ]] || fail "examples/ has no CMakeLists.txt"
  name=$(basename "$(dirname "$example")")
  quietly cmake -S "$(dirname "$example")" -B "$work/$name" -G Ninja \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix"
  quietly cmake --build "$work/$name"
  quietly ctest --test-dir "$work/$name" --no-tests=error --output-on-failure
  echo "examples/$name: built against the installed package, ran"
done
