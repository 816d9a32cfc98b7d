"""Batches of texts of similar lengths, on the device."""

import numpy as np
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MULTIPLE = 8  # of the padded length: a GPU needs some time for each shape that it has not met before


class Corpus:
    """Token ids of many texts on the device; batches of texts of similar lengths."""

    def __init__(self, ids, lengths, segments=False):
        self.ids = torch.from_numpy(ids.astype(np.int32)).to(DEVICE)
        self.lengths = lengths
        self.padded = -(-lengths // MULTIPLE) * MULTIPLE
        self.offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.segments = segments

    def __len__(self):
        return len(self.lengths)

    def batches(self, tokens, draw, chosen=None):
        """Shuffled index arrays of texts of one padded length, each with at most `tokens` tokens and padding."""
        chosen = np.arange(len(self)) if chosen is None else chosen
        batches = [batch for _, batch in in_order(self, draw.permutation(chosen), tokens)]
        draw.shuffle(batches)
        return batches

    def places(self, chosen):
        """Where the tokens of the chosen texts are (B, T), and whether they are tokens or padding (B, T)."""
        offsets, lengths = (torch.from_numpy(x[chosen]).to(DEVICE) for x in (self.offsets, self.lengths))
        span = torch.arange(int(self.padded[chosen].max()), device=DEVICE)
        mask = span < lengths[:, None]
        return torch.where(mask, offsets[:, None] + span, 0), mask

    def batch(self, chosen, sep):
        places, mask = self.places(chosen)
        ids = self.ids[places].long() * mask
        segments = ((ids == sep).cumsum(1) - (ids == sep).long()).clamp(max=1) * mask if self.segments else None
        return ids, mask, segments


def in_order(corpus, chosen, tokens):
    """Batches of texts of one padded length, the shortest first, and how many texts came before each."""
    before = 0
    for length in np.unique(corpus.padded[chosen]):
        group, size = chosen[corpus.padded[chosen] == length], max(1, tokens // int(length))
        for begin in range(0, len(group), size):
            yield before + begin, group[begin : begin + size]
        before += len(group)


def endless(batches):
    while True:
        yield from batches()
