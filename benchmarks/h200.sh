#!/usr/bin/env bash
# Llama 3 8B, all 32 layers, on one NVIDIA H200: tokens a second and MFU at 8192 and 2048 positions,
# through cuDNN's attention, beside JAX's own step on the same card (PYTHON: one with jax[cuda12]
# 0.10.2, numpy and safetensors; unset: JAX is left out). Without a GPU the same steps are compiled
# for h200:1, and what the compiler tells is printed.
#
#   ./dev setup --cuda && ./dev build && benchmarks/h200.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
program=${ESPALIER:-build/bin/espalier}
bench=${LLAMA_BENCH:-build/bench/llama_bench}
recipe=recipes/llama3-8b-scan-fsdp.toml
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}

for case in '8192 4' '2048 16'; do
  read -r length batch <<<"$case"
  settings=(--set 'mesh.axes={fsdp=1}' --set "data.seq_len=$length" --set "data.batch_size=$batch")
  echo "== sequence $length, batch $batch"
  if [[ -e /dev/nvidiactl ]]; then
    "$program" train "$recipe" --plugin cuda "${settings[@]}" --set train.steps=12 \
      --profile 10:12 --run "runs/h200-$length-$(date +%Y%m%d-%H%M%S)"
  else
    "$program" compile "$recipe" --topology h200:1 "${settings[@]}"
  fi
done

if [[ -e /dev/nvidiactl && -n ${PYTHON:-} ]]; then
  cmake --build build --target llama_bench
  "$PYTHON" benchmarks/llama_peer.py "$bench" --cases 8b-8192 8b-2048
fi
