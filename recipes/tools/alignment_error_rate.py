"""How well the attention of a translator aligns words: its alignment error rate (Och & Ney 2003).

    python recipes/tools/alignment_error_rate.py MODEL [MODEL ...] --pairs enfr.src-tgt.txt --gold enfr.gold.txt

A line of --pairs is "source ||| target", both split into words by blanks. The same line of --gold has the links that
people drew, of source and target word, counted from 1: "3-5" for a sure one, "3p5" for a possible one.

The given translation is read, not the model's own (forced decoding). Each target word is linked to the source word to
which its pieces attend most. A row "written" takes the attention of the step that predicts a piece, and a row "read"
that of the next step, which reads the piece (Chen et al. 2020, https://arxiv.org/abs/2004.14837). The best head is
chosen on the first sentences (--choose), and all rows are measured on the others. The row "--align" has the heads that
the training chose without alignments by hand, see `publishing.alignment_heads`.
"""

import argparse
import re
from itertools import product

import numpy as np

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.publishing.alignment_heads import word_weights
from keras_attention.support.errors import UserError

STEPS = ("written", "read")
LINK = re.compile(r"(\d+)([-p])(\d+)")


def read_gold(pairs_path, gold_path):
    """List of (source words, target words, sure links, possible links); links are sets of (source, target) from 0."""
    pairs, gold = list(read_lines(pairs_path)), list(read_lines(gold_path))
    if len(pairs) != len(gold):
        raise UserError(f"{pairs_path} has {len(pairs):,} lines, {gold_path} {len(gold):,}. Expected: as many in both")
    sentences = []
    for number, (pair, line) in enumerate(zip(pairs, gold, strict=True), 1):
        sides, links = [side.split() for side in pair.split("|||")], [LINK.fullmatch(link) for link in line.split()]
        if len(sides) != 2 or not all(links):
            raise UserError(f"Line {number}: expected 'source ||| target' and links such as 1-1 and 2p3.")
        alignments = [((int(link[1]) - 1, int(link[3]) - 1), link[2]) for link in links]
        if any(not (0 <= s < len(sides[0]) and 0 <= t < len(sides[1])) for (s, t), _ in alignments):
            raise UserError(f"{gold_path}, line {number}: a link to a word that is not there.")
        sure = {link for link, kind in alignments if kind == "-"}
        sentences.append((*sides, sure, {link for link, _ in alignments}))
    return sentences


def error_rate(alignments, sentences):
    """1 - (|A and sure| + |A and possible|) / (|A| + |sure|), in percent; sure links are possible ones, too."""
    hits = total = 0
    for links, (_, _, sure, possible) in zip(alignments, sentences, strict=True):
        hits += len(links & sure) + len(links & possible)
        total += len(links) + len(sure)
    return 100 * (1 - hits / total)


def links_of(weights):
    """The links of target words to the source words with the largest weights (T, S)."""
    return {(int(source), target) for target, source in enumerate(weights.argmax(axis=-1))}


def diagonal(source, target):
    """Links along the diagonal: what attention has to beat."""
    return {(min(len(source) - 1, t * len(source) // len(target)), t) for t in range(len(target))}


def rates(translator, sentences, choose):
    """The alignment error rates of the sentences after the first `choose`: dict from a description to percent."""
    weights = word_weights(translator, [sentence[:2] for sentence in sentences])
    used = [(one, sentence) for one, sentence in zip(weights, sentences, strict=True) if one is not None]
    if len(used) <= choose:
        raise UserError(f"Only {len(used)} sentences consist of the model's pieces. Expected: more than {choose}")
    chosen, tested = used[:choose], used[choose:]

    def rate(some, view):
        return error_rate([links_of(view(one)) for one, _ in some], [sentence for _, sentence in some])

    rates_by_name = {"diagonal": error_rate([diagonal(*one[:2]) for _, one in tested], [one for _, one in tested])}
    layers, heads = used[0][0].shape[:2]
    for step, name in enumerate(STEPS):
        rates_by_name[f"{name}, all heads"] = rate(tested, lambda one, at=step: one[:, :, at].mean(axis=(0, 1)))
        for layer in range(layers if layers > 1 else 0):
            view = lambda one, at=step, of=layer: one[of, :, at].mean(axis=0)  # noqa: E731
            rates_by_name[f"{name}, layer {layer + 1}"] = rate(tested, view)
        views = {
            (of, h): (lambda one, at=step, of=of, h=h: one[of, h, at]) for of, h in product(range(layers), range(heads))
        }
        if len(views) > 1:
            layer, head = best = min(views, key=lambda place: rate(chosen, views[place]))
            rates_by_name[f"{name}, layer {layer + 1} head {head + 1}, the best"] = rate(tested, views[best])
    if aligning := translator.alignment_heads:
        rates_by_name["--align"] = rate(tested, lambda one: np.mean([one[of, h, 1] for of, h in aligning], axis=0))
    return rates_by_name


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--pairs", required=True, help="file of sentence pairs")
    parser.add_argument("--gold", required=True, help="file of links by hand")
    parser.add_argument("--choose", type=int, default=100, help="sentences on which the best head is chosen")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    given = parser.parse_args(arguments)
    sentences = read_gold(given.pairs, given.gold)
    with silent_libraries():
        from keras_attention import load
        from keras_attention.zoo.card import table_text

    rows = []
    for model in given.models:
        measured = rates(load(model), sentences, given.choose)
        rows += [[model, name, f"{value:.1f}"] for name, value in measured.items()]
    print(table_text(["model", "attention", "alignment error rate"], rows))


if __name__ == "__main__":
    raise SystemExit(guarded(main, "alignment_error_rate.py"))
