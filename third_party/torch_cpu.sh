#!/usr/bin/env bash
# Makes PyPI's torch, which is built for CUDA, run on the CPU without NVIDIA's libraries, three GB
# that it loads when it is imported and then does not use.
#
#   third_party/torch_cpu.sh VENV
#
# Every function that torch takes from them gets a body that answers "no device" (100 is
# cudaErrorNoDevice), or a text where it is asked for one, so torch finds no GPU. One library holds
# them all, and stands in torch's folder under the name of each library that it replaces.
set -euo pipefail
shopt -s failglob
lib=("$1"/lib/python3.*/site-packages/torch/lib)
compiler=$("$(dirname "${BASH_SOURCE[0]}")/compiler.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "${lib[0]}"
originals=(lib*.so)

# NAME VERSION, the version empty where the symbol has none
nm -D --undefined-only "${originals[@]}" | awk '
  $1 == "U" && $2 ~ /^(cu[A-Z_a-z]|nv|nccl|__cuda)/ { split($2, part, /@+/); print part[1], part[2] }
' | LC_ALL=C sort -u >"$work/symbols"
awk '
  BEGIN { print ".text" }
  !seen[$1]++ {
    printf ".globl %s\n.type %s, @function\n%s:\n", $1, $1, $1
    print $1 ~ /(String|Name)$/ ? "leaq message(%rip), %rax\nret" : "movl $100, %eax\nret"
  }
  END {
    print ".section .rodata\nmessage: .asciz \"CUDA is left out of this environment\""
    print ".section .note.GNU-stack"
  }' "$work/symbols" >"$work/stub.s"
awk '$2 { members[$2] = members[$2] " " $1 ";" }
  END { for (version in members) print version " {" members[version] " };" }
' "$work/symbols" >"$work/stub.map"
"$compiler" -shared -nostdlib -Wl,--version-script="$work/stub.map" -o nvidia_stub.so "$work/stub.s"
readelf -d "${originals[@]}" |
  sed -nE 's/.*NEEDED.*\[(lib(cu|nv|nccl)[^]]*)\]/\1/p' | LC_ALL=C sort -u |
  while read -r name; do ln -sf nvidia_stub.so "$name"; done
