#!/usr/bin/env bash
# recipes/gpt2-124m.toml as a user would run it: prepare a text, take a step, checkpoint, resume for
# another, sample, evaluate.
#
#   tests/recipes/run_gpt2.sh [--full] PROGRAM
#
# Without --full a small model of its kind on 8 virtual devices, for continuous integration. With it
# the published 124M parameters and rows of 1024 tokens on one device, with a small batch: some
# minutes and 5 GB of memory.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
full=false
if [[ ${1:-} == --full ]]; then
  full=true
  shift
fi
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

if $full; then
  sizes=(--set 'mesh.axes={}' --set data.batch_size=1 --set train.accumulate=2)
  max_tokens=64
else
  sizes=(--set model.n_layer=2 --set model.n_head=4 --set model.n_embd=64
    --set model.n_positions=128 --set data.seq_len=128 --set data.batch_size=16
    --set train.accumulate=2)
  max_tokens=32
fi
train=("$program" train "$root/recipes/gpt2-124m.toml" --run run --set data.path=data
  --set train.log_every=1 --set train.eval_every=0 --set train.checkpoint_every=1
  --set "sample.max_tokens=$max_tokens" "${sizes[@]}")

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
expect_steps() {
  local steps
  steps=$(grep -c '"step":' run/metrics.jsonl)
  [[ $steps == "$1" ]] || fail "$steps logged steps, expected $1"
}

cat "$root"/docs/*.md >text.txt
"$program" prepare text.txt --tokenizer gpt2 --out data
"${train[@]}" --set train.steps=1
expect_steps 1
"${train[@]}" --set train.steps=2 --resume
expect_steps 2
[[ $(readlink run/checkpoints/latest) == 2 ]] || fail "latest is not step 2"
"$program" generate --run run --prompt "The mesh" --max-tokens "$max_tokens" >sample.txt
grep -q '^The mesh' sample.txt || fail "the sample does not begin with its prompt"
"$program" eval --run run --data text.txt
# An untrained model gives each of the 50,304 ids about the same probability: ln 50304 = 10.83.
awk -F'"loss":' 'NR == 1 { split($2, v, ","); exit !(v[1] > 10.6 && v[1] < 11.2) }' \
  run/metrics.jsonl || fail "the first loss is not near 10.83"
cat run/metrics.jsonl
