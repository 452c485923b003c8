"""Tokenizing speed beside tiktoken's: the same text, one thread, runs interleaved.

    python benchmarks/tokenizer_peer.py BENCH_BINARY [TEXT_FILE] [--deps .deps] [--runs 9] [--mib 8]

BENCH_BINARY is the built tokenizer_bench; the text is repeated up to the given size. Without a file
it is stories made by the program built beside it (../bin/espalier). Needs the package tiktoken. Each program encodes once to warm up, then is timed once a round, in turns, in CPU
seconds: other work on the machine disturbs those less.
"""

import argparse
import base64
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import tiktoken

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMES = {
    "gpt2": (
        "gpt2.tiktoken",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        "<|endoftext|>",
    ),
    "llama3": (
        "llama3.model",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "<|begin_of_text|>",
    ),
}


def load_peer(name, deps):
    file, pattern, special = SCHEMES[name]
    lines = (deps / "text" / file).read_bytes().split(b"\n")
    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in lines if line)}
    return tiktoken.Encoding(
        name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={special: len(ranks)}
    )


def spread(values):
    return f"{statistics.median(values):8.2f} ({min(values):.2f} to {max(values):.2f})"


def compare(name, bench, text, path, deps, runs):
    peer = load_peer(name, deps)
    environment = dict(os.environ, ESPALIER_DEPS=str(deps))
    size = len(text.encode()) / 1e6
    peer_count = len(peer.encode(text, allowed_special="all"))
    ours, theirs = [], []
    for _ in range(runs):
        answer = subprocess.run(
            [bench, "--once", name, path],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        if int(answer[1]) != peer_count:
            raise SystemExit(f"{name}: {answer[1]} ids here, {peer_count} from tiktoken")
        ours.append(size / float(answer[0]))
        start = time.process_time()
        peer.encode(text, allowed_special="all")
        theirs.append(size / (time.process_time() - start))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    print(f"{name}: {size:.1f} MB of text, {peer_count} ids, {runs} rounds, one thread")
    print(f"  espalier MB/s {spread(ours)}")
    print(f"  tiktoken MB/s {spread(theirs)}")
    print(f"  median ratio  {ratio:8.2f}")


def make_text(bench):
    """Stories, made by the program of the same build."""
    program = pathlib.Path(bench).resolve().parent.parent / "bin" / "espalier"
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "prepare", "stories", "--tokenizer", "char", "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (path,) = pathlib.Path(folder).glob("*.txt")
        return path.read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("text", nargs="?")
    parser.add_argument("--deps", type=pathlib.Path, default=ROOT / ".deps")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--mib", type=float, default=8)
    arguments = parser.parse_args()
    if arguments.text:
        text = pathlib.Path(arguments.text).read_text(encoding="utf-8")
    else:
        text = make_text(arguments.bench)
    text *= max(1, round(arguments.mib * 2**20 / len(text.encode())))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        for name, (rank_file, _, _) in SCHEMES.items():
            if not (arguments.deps / "text" / rank_file).exists():
                print(f"{name}: skipped, {rank_file} is not in {arguments.deps / 'text'}")
                continue
            compare(name, arguments.bench, text, file.name, arguments.deps, arguments.runs)


if __name__ == "__main__":
    main()
