"""Reads what tests/unit/tensorboard_test.cc wrote, with TensorBoard's own readers.

Usage: tensorboard_test.py FOLDER. Exit status 0: as expected, 1: not, 77: no tensorboard here.
"""

import sys

try:
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
except ImportError:
    sys.exit(77)

# Steps 1 to 6 were written, then a run resumed after step 4 wrote step 5 anew.
LOSSES = [(1, 9.0), (2, 8.0), (3, 7.0), (4, 6.0), (5, 0.5)]
TEXTS = [(3, "kept text"), (5, "second text \u00e9")]


def main(folder):
    # What scripts use to read a run: scalars as such. It never drops texts of an earlier session.
    events = event_accumulator.EventAccumulator(folder)
    events.Reload()
    losses = [(e.step, e.value) for e in events.Scalars("train/loss")]
    assert losses == LOSSES, losses
    assert "samples" in events.Tags()["tensors"], events.Tags()

    # What the TensorBoard server uses: everything is a tensor that belongs to a plugin.
    events = plugin_event_accumulator.EventAccumulator(folder)
    events.Reload()
    losses = [(e.step, e.tensor_proto.float_val[0]) for e in events.Tensors("train/loss")]
    assert losses == LOSSES, losses
    texts = [(e.step, e.tensor_proto.string_val[0].decode()) for e in events.Tensors("samples")]
    assert texts == TEXTS, texts
    assert "train/loss" in events.PluginTagToContent("scalars")
    assert "samples" in events.PluginTagToContent("text")


if __name__ == "__main__":
    main(sys.argv[1])
