"""BLEU and chrF of translators on several sets, one row a set.

    python recipes/tools/scores_by_domain.py MODEL [MODEL ...] --languages en de \
        --set everyday=mt_tatoeba_en_de/dev.tsv.gz --set chat=mt_chat_bcontrast/dev.en-de.tsv.gz [--most 1000]

Each set is a table with a header that names the two languages. BLEU is cased sacreBLEU with 13a tokens; sentences that
occur several times count once, with all their translations as references. The last column is the share of answers that
the model itself calls doubtful.
"""

import argparse
import sys

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.support.errors import UserError


def read_set(path, languages, most=None):
    """Sources and their references: lists of str and of lists of str, in the order of the table."""
    header, *rows = (line.split("\t") for line in read_lines(path))
    if not set(languages) <= set(header):
        raise UserError(f"{path} needs the columns {' and '.join(languages)}. Received: {', '.join(header)}")
    source, target = map(header.index, languages)
    references = {}
    for row in rows:
        if len(row) == len(header) and row[source].strip() and row[target].strip():
            references.setdefault(row[source], []).append(row[target])
    chosen = list(references.items())[:most]
    return [text for text, _ in chosen], [texts for _, texts in chosen]


def scores(translator, sources, references):
    """BLEU, chrF and the share of doubtful answers, three floats in percent; and the signatures."""
    from keras_attention.evaluation.translation_scores import bleu_tradition_b, chrf

    answers = translator.translate(sources, split=False)
    doubtful = 100 * sum(bool(answer.low_score) for answer in answers) / len(answers)
    (bleu, first), (chrf_score, second) = (metric(answers, references) for metric in (bleu_tradition_b, chrf))
    return (bleu, chrf_score, doubtful), (first, second)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--set", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--most", type=int, help="use only this many of the first sentences of a set")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    given = parser.parse_args(arguments)
    with silent_libraries():
        from keras_attention import load
        from keras_attention.zoo.card import table_text

    translators = {model: load(model) for model in given.models}
    rows, signatures = [], {}
    for name, _, path in (one.partition("=") for one in given.set):
        sources, references = read_set(path, given.languages, given.most)
        for model, translator in translators.items():
            measured, signed = scores(translator, sources, references)
            rows.append([name, len(sources), model.rstrip("/").rpartition("/")[2], *measured])
            print(f"{name} {model}: {measured[0]:.2f}", flush=True)
            signatures |= dict.fromkeys(signed)
    print(table_text(["set", "sentences", "model", "BLEU B", "chrF2", "% doubtful"], rows))
    print("\n".join(signatures))


if __name__ == "__main__":
    sys.exit(guarded(main, "scores_by_domain.py", debug="--debug" in sys.argv))
