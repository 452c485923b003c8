"""Training steps of GPT-2 beside PyTorch's: the same sizes on the same machine, in turns.

    python benchmarks/gpt2_peer.py [BENCH_BINARY] [--cases NAME...] [--rounds N] [--set KEY=VALUE...]

BENCH_BINARY is the built gpt2_bench; without it PyTorch is timed alone. The peer is nanoGPT's model
and step, written anew: pre-LN blocks without biases, one product for queries, keys and values,
scaled_dot_product_attention, exact GELU, tied embeddings, AdamW that decays matrices only, the
gradient's norm clipped as the recipe does, float32, no torch.compile (nanoGPT's own choice for
CPUs). Both start from the same parameters and see the same random tokens, so their losses must
agree. Rounds alternate between the programs (A B A B), and each waits for every step. Needs torch,
numpy and safetensors.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
GPT2 = dict(recipe="gpt2-124m", vocab=50304, positions=1024, width=768, layers=12, heads=12,
            rate=6e-4, beta2=0.95, clip=1.0)
# Steps are those of a round.
CASES = {
    "shakespeare-char": dict(
        recipe="shakespeare-char", vocab=65, positions=64, width=128, layers=4, heads=4,
        rate=1e-3, beta2=0.99, clip=5.0, batch=12, length=64, steps=40, rounds=7),
    "gpt2-4x256": dict(GPT2, batch=4, length=256, steps=2, rounds=3),
    "gpt2-1x1024": dict(GPT2, batch=1, length=1024, steps=2, rounds=3),
}
# A step's losses differ by float32's rounding, which training then enlarges.
LOSS_TOLERANCE = 1e-3


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = Norm(width), Norm(width)
        self.attn = nn.ModuleDict(dict(
            c_attn=nn.Linear(width, 3 * width, bias=False),
            c_proj=nn.Linear(width, width, bias=False)))
        self.mlp = nn.ModuleDict(dict(
            c_fc=nn.Linear(width, 4 * width, bias=False),
            c_proj=nn.Linear(4 * width, width, bias=False)))

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2)
                   for part in self.attn["c_attn"](self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class Gpt2(nn.Module):
    def __init__(self, case):
        super().__init__()
        width, layers = case["width"], case["layers"]
        self.wte = nn.Embedding(case["vocab"], width)
        self.wpe = nn.Embedding(case["positions"], width)
        self.h = nn.ModuleList(Block(width, case["heads"]) for _ in range(layers))
        self.ln_f = Norm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                branches = math.sqrt(2 * layers) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 / branches)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    def save(self, folder):
        """As Hugging Face stores GPT-2: weights of linear layers transposed."""
        tensors = {}
        for name, value in self.state_dict().items():
            linear = ".attn." in name or ".mlp." in name
            tensors[f"transformer.{name}"] = (value.T if linear else value).contiguous()
        safetensors.torch.save_file(tensors, folder / "model.safetensors")


def cpu_seconds(process):
    """What a process has used so far, all its threads together."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Torch:
    def __init__(self, case):
        torch.manual_seed(0)
        self.case, self.row, self.process = case, 0, os.getpid()
        self.model = Gpt2(case)
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW(
            [dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)],
            lr=case["rate"], betas=(0.9, case["beta2"]))

    def batch(self):
        """The rows of RandomRows in benchmarks/training_bench.h."""
        batch, length = self.case["batch"], self.case["length"]
        state = np.arange(self.row + 1, self.row + batch + 1, dtype=np.uint64)
        self.row += batch
        tokens = np.empty((batch, length), np.int64)
        for i in range(length):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            tokens[:, i] = (state >> np.uint64(33)) % np.uint64(self.case["vocab"])
        targets = np.concatenate([tokens[:, 1:], np.zeros((batch, 1), np.int64)], axis=1)
        return torch.from_numpy(tokens), torch.from_numpy(targets)

    def run(self, steps):
        times, losses = [], []
        batches = [self.batch() for _ in range(steps)]
        for tokens, targets in batches:
            start = time.perf_counter()
            loss = self.model(tokens, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.case["clip"])
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            times.append(time.perf_counter() - start)
        return times, losses

    def close(self):
        pass


class Ours:
    """A gpt2_bench that serves, starting from the parameters of `weights`."""

    def __init__(self, bench, case, weights, extra):
        keys = dict(zip(
            ("model.vocab_size", "model.n_positions", "model.n_embd", "model.n_layer",
             "model.n_head", "data.batch_size", "data.seq_len", "optimizer.learning_rate",
             "optimizer.beta2", "optimizer.clip_norm"),
            (case[k] for k in ("vocab", "positions", "width", "layers", "heads", "batch", "length",
                               "rate", "beta2", "clip"))))
        keys.update({"optimizer.schedule": "constant", "optimizer.warmup_steps": 0,
                     "optimizer.decay_steps": 0, "optimizer.min_learning_rate": 0,
                     "mesh.axes": "{}", "train.accumulate": 1, "train.dtype": "float32"})
        self.child = subprocess.Popen(
            [bench, "--serve", "--recipe", RECIPES / f"{case['recipe']}.toml",
             "--weights", weights, *(f"{k}={v}" for k, v in keys.items()), *extra],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = self.child.pid
        self.compile_s = self.answer()["cold_compile_s"]

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit("gpt2_bench ended: see its message above")
        return json.loads(line)

    def run(self, steps):
        self.child.stdin.write(f"{steps}\n")
        self.child.stdin.flush()
        answer = self.answer()
        return answer["steps_s"], answer["losses"]

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def spread(values):
    return (f"{statistics.median(values) * 1e3:.1f} ms "
            f"({min(values) * 1e3:.1f} to {max(values) * 1e3:.1f})")


def check_losses(name, ours, theirs):
    for step, (a, b) in enumerate(zip(ours, theirs)):
        if not abs(a - b) <= LOSS_TOLERANCE * abs(b):
            raise SystemExit(f"{name}: the loss of step {step} is {a} here, {b} in PyTorch")


def compare(name, bench, rounds, extra):
    case = CASES[name]
    peer = Torch(case)
    programs = {"pytorch": peer}
    if bench:
        with tempfile.TemporaryDirectory() as folder:
            peer.model.save(pathlib.Path(folder))
            programs = {"espalier": Ours(bench, case, folder, extra), "pytorch": peer}
    losses = {label: program.run(2)[1] for label, program in programs.items()}  # warms up
    times = {label: [] for label in programs}
    medians = {label: [] for label in programs}
    cpu = {label: [] for label in programs}
    for _ in range(rounds or case["rounds"]):
        for label, program in programs.items():
            before = cpu_seconds(program.process)
            seconds, now = program.run(case["steps"])
            cpu[label].append((cpu_seconds(program.process) - before) / case["steps"])
            times[label] += seconds
            medians[label].append(statistics.median(seconds))
            losses[label] += now
    print(f"{name}: batch {case['batch']} x {case['length']}, "
          f"{len(medians['pytorch'])} rounds of {case['steps']} steps, "
          f"{torch.get_num_threads()} threads")
    for label, program in programs.items():
        print(f"  {label:9} step {spread(times[label])}, CPU time {spread(cpu[label])}, "
              f"loss {losses[label][0]:.5f} to {losses[label][-1]:.5f}")
        program.close()
    if bench:
        ratio, cpu_ratio = (
            statistics.median(a / b for a, b in zip(each["espalier"], each["pytorch"]))
            for each in (medians, cpu))
        print(f"  ratio of step times {ratio:.3f}, of the fastest "
              f"{min(times['espalier']) / min(times['pytorch']):.3f}, "
              f"of CPU times {cpu_ratio:.3f}; compiled in {programs['espalier'].compile_s:.1f} s")
        check_losses(name, losses["espalier"], losses["pytorch"])
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", nargs="?")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--set", nargs="+", default=[], help="keys for gpt2_bench")
    arguments = parser.parse_args()
    for name in arguments.cases:
        compare(name, arguments.bench, arguments.rounds, arguments.set)


if __name__ == "__main__":
    main()
