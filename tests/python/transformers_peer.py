"""Hugging Face's transformers as a peer for tests/parity/export_test.cc and llama_weights_test.cc.

FOLDER REFERENCE [TEXT]

Opens the folder as its config.json says and prints the largest difference of its logits from those in
the safetensors file REFERENCE (input_ids, logits), and how many tensors were missing or too many.
With TEXT, a file, also the ids that the folder's tokenizer makes of it.
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file


def main(folder, reference, text=None):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    model.eval()
    # Where the output layer is the token embedding, it has no tensor of its own.
    tied = model.config.tie_word_embeddings
    missing = [key for key in info["missing_keys"] if not (tied and key == "lm_head.weight")]
    expected = load_file(reference)
    with torch.no_grad():
        logits = model(expected["input_ids"].long()).logits
    print("missing", len(missing), *missing)
    print("unexpected", len(info["unexpected_keys"]), *info["unexpected_keys"])
    print("logits", (logits - expected["logits"]).abs().max().item())
    if text is not None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with open(text, encoding="utf-8", newline="") as file:
            print("ids", *tokenizer(file.read())["input_ids"])


if __name__ == "__main__":
    main(*sys.argv[1:])
