"""Translates training sentences with several models, and keeps the hypothesis closest to each reference.

    python recipes/tools/closest_answers.py train.en train.de --models NAME NAME ... --out closest.tsv
    python recipes/tools/closest_answers.py train.de train.en --models NAME ... --as-source-of train.de --out new.tsv

A translator that also trains on these pairs (`--extra closest.tsv` of the recipes) sees a second translation of every
sentence, close to its reference but in a network's style. The second command creates new sources for the same
translations instead, with models of the other direction. Closeness is measured by sacrebleu's sentence BLEU; the first
of several equal hypotheses is kept. Sentences without any hypothesis are left out.

Sources: Kim & Rush (2016), Sequence-Level Knowledge Distillation, section 3.3 (interpolation),
https://arxiv.org/abs/1606.07947, there with the hypotheses of one teacher; Nguyen et al. (2020), Data Diversification,
https://arxiv.org/abs/1911.01986, for both directions.
"""

import argparse
import os
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.data.translation.parallel_corpus import read_parallel
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.flags import OneLineParser


def closest(reference, hypotheses):
    """The hypothesis closest to the reference (the first of equals), and its BLEU in [0, 100]."""
    from sacrebleu.metrics import BLEU

    score = BLEU(effective_order=True).sentence_score
    values = [score(text, [reference]).score for text in hypotheses]
    best = max(values)
    return hypotheses[values.index(best)], best


def main():
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE", help="a file with one sentence a line, also .gz or .xz")
    parser.add_argument("target", metavar="TARGET", help="a file with their translations")
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--as-source-of", metavar="FILE", help="write the answers before the lines of this file")
    parser.add_argument("--beam", type=int, default=5, help="hypotheses of each model")
    parser.add_argument("--out", required=True)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    sources, targets = read_parallel(arguments.source, arguments.target)
    written = read_parallel(arguments.source, arguments.as_source_of)[1] if arguments.as_source_of else None
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    hypotheses = [[] for _ in sources]
    for name in arguments.models:
        hypotheses_of_model = load_pipeline(name, "translate").hypotheses(
            sources,
            n_best=arguments.beam,
            beam_size=arguments.beam,
            split=False,
            progress=lambda done, total, name=name: print(f"\r{name}: {done:,} of {total:,}", end="", file=sys.stderr),
        )
        print(file=sys.stderr)
        for some, answers in zip(hypotheses, hypotheses_of_model, strict=True):
            some += [answer.text for answer in answers if answer.text.strip()]
    answered = [(row, *closest(targets[row], some)) for row, some in enumerate(hypotheses) if some]
    pairs = [(text, written[row]) if written else (sources[row], text) for row, text, _ in answered]
    with whole_file(arguments.out) as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)
    mean = statistics.mean([value for *_, value in answered] or [0.0])
    print(f"{len(pairs):,} of {len(sources):,} pairs, mean BLEU of a sentence {mean:.1f}")


if __name__ == "__main__":
    sys.exit(guarded(main, "closest_answers.py", debug="--debug" in sys.argv))
