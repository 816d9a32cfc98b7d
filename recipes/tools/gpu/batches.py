"""Batches of texts of similar lengths, on the device."""

import numpy as np
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Corpus:
    """Token ids of many texts on the device; batches of texts of similar lengths."""

    def __init__(self, ids, lengths, segments=False):
        self.ids = torch.from_numpy(ids.astype(np.int32)).to(DEVICE)
        self.lengths = lengths
        self.offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.segments = segments

    def __len__(self):
        return len(self.lengths)

    def batches(self, tokens, draw, chosen=None):
        """Shuffled index arrays of texts of similar lengths, each with at most `tokens` tokens and padding."""
        chosen = np.arange(len(self)) if chosen is None else chosen
        order = chosen[np.argsort(self.lengths[chosen] + draw.random(len(chosen)) * 1.99, kind="stable")]
        found, begin = [], 0
        while begin < len(order):
            end = begin + max(1, tokens // int(self.lengths[order[begin : begin + tokens // 3]].max()))
            while end > begin + 1 and (end - begin) * int(self.lengths[order[begin:end]].max()) > tokens:
                end = begin + max(1, tokens // int(self.lengths[order[begin:end]].max()))
            found.append(order[begin:end])
            begin = end
        draw.shuffle(found)
        return found

    def places(self, chosen):
        """Where the tokens of the chosen texts are (B, T), and whether they are tokens or padding (B, T)."""
        offsets, lengths = (torch.from_numpy(x[chosen]).to(DEVICE) for x in (self.offsets, self.lengths))
        span = torch.arange(int(self.lengths[chosen].max()), device=DEVICE)
        mask = span < lengths[:, None]
        return torch.where(mask, offsets[:, None] + span, 0), mask

    def batch(self, chosen, sep):
        places, mask = self.places(chosen)
        ids = self.ids[places].long() * mask
        segments = ((ids == sep).cumsum(1) - (ids == sep).long()).clamp(max=1) * mask if self.segments else None
        return ids, mask, segments


def in_order(corpus, order, tokens):
    """Batches of texts in an order of rising lengths, with the position of the first."""
    begin = 0
    while begin < len(order):
        end = begin + max(1, tokens // int(corpus.lengths[order[begin]]))
        end = begin + max(1, tokens // int(corpus.lengths[order[min(end, len(order)) - 1]]))
        yield begin, order[begin:end]
        begin = end


def endless(batches):
    while True:
        yield from batches()
