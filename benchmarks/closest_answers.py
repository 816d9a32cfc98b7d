"""What translators make of the sentences they learned from: of all their hypotheses the closest to the reference.

    python benchmarks/closest_answers.py SOURCE TARGET --models NAME NAME ... --out closest.tsv

A translator that learns from these pairs too (`--extra closest.tsv` of the recipes) sees a second translation of every
sentence, near its reference and written as networks write. How close is said by sacrebleu's BLEU of a sentence; of
equals the first is taken. Sentences that all models leave without an answer are left out.

Source: Kim & Rush (2016), Sequence-Level Knowledge Distillation, section 3.3 (interpolation),
https://arxiv.org/abs/1606.07947; there with the hypotheses of one teacher.
"""

import argparse
import os
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli import guarded
from keras_attention.commands.silence import silent_libraries
from keras_attention.data.parallel_text import read_parallel
from keras_attention.whole_file import whole_file


def closest(reference, hypotheses):
    """The hypothesis that is most like the reference, the first of equals, and its BLEU in [0, 100]."""
    from sacrebleu.metrics import BLEU

    score = BLEU(effective_order=True).sentence_score
    values = [score(text, [reference]).score for text in hypotheses]
    best = max(values)
    return hypotheses[values.index(best)], best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE", help="a file with one sentence a line, also .gz or .xz")
    parser.add_argument("target", metavar="TARGET", help="a file with their translations")
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--beam", type=int, default=5, help="hypotheses of each model")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    sources, targets = read_parallel(arguments.source, arguments.target)
    with silent_libraries():
        from keras_attention.zoo.finding import find_entry
        from keras_attention.zoo.loading import load_translator

    hypotheses = [[] for _ in sources]
    for name in arguments.models:
        found = load_translator(find_entry(name)).hypotheses(
            sources,
            n_best=arguments.beam,
            beam_size=arguments.beam,
            progress=lambda done, total, name=name: print(f"\r{name}: {done:,} of {total:,}", end="", file=sys.stderr),
        )
        print(file=sys.stderr)
        for some, answers in zip(hypotheses, found, strict=True):
            some += [answer.text for answer in answers if answer.text.strip()]
    taken = [
        (source, *closest(target, some))
        for source, target, some in zip(sources, targets, hypotheses, strict=True)
        if some
    ]
    with whole_file(arguments.out) as file:
        file.writelines(f"{source}\t{text}\n" for source, text, _ in taken)
    mean = statistics.mean([value for *_, value in taken] or [0.0])
    print(f"{len(taken):,} of {len(sources):,} pairs, mean BLEU of a sentence {mean:.1f}")


if __name__ == "__main__":
    sys.exit(guarded(main, "closest_answers.py", debug="--debug" in sys.argv))
