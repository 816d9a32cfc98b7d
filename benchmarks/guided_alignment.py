"""Translators trained further with and without guided alignment: alignment error rate and BLEU.

    python benchmarks/guided_alignment.py --data pairs.tsv --languages en fr --from translator_small_en_fr \
        --pairs enfr.src-tgt.txt --gold enfr.gold.txt --dev dev.tsv.gz --models runs/guided --out guided_alignment.json

For each weight of `--guided-alignment` and each seed, recipes/transformer.py trains the model of `--from` for one epoch
of --data, with the same pairs, updates and settings, into the folder --models; a folder that is there is not trained
again. The error rate is that of `recipes/tools/alignment_error_rate.py`: "--align" uses the heads that the training
chose, "best head" the one with the lowest error rate on the first --choose sentences of --gold. Both are measured on
the other sentences, as is the row "IBM model 1", the alignments from which the guided head learns. BLEU is that of
`recipes/tools/scores_by_domain.py` on --dev, a table whose first line names the languages. Each result is stored in
--out at once. `--docs` writes the table into docs/attention.md.
"""

import argparse
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

from stored_results import cell, store_results, stored_results

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded

with silent_libraries():
    import keras_attention
    from keras_attention.data.translation.parallel_corpus import ParallelCorpus, read_tsv
    from keras_attention.data.translation.word_alignment import with_links
    from keras_attention.pipelines.marks import words_of
    from keras_attention.support.atomic_files import whole_file
    from keras_attention.support.errors import UserError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/attention.md"
MARKS = re.compile(r"(<!-- guided_alignment -->\n).*?(<!-- /guided_alignment -->)", re.DOTALL)
TRAINING = "--epochs 1 --learning-rate 2e-4 --warmup-steps 50 --schedule cosine --tokens-per-batch 2048 --num-buckets 3"
TRAINING += " --dropout 0.05 --max-tokens 80 --validation-split 0.02 --validate-every 1"
ALIGN, BEST, IBM, LONGEST = "--align", "best head", "IBM model 1", 250
COLUMNS = ("training", f"`{ALIGN}`", BEST, "BLEU", "seeds")


def tool(name):
    """What a tool of the recipes defines, as a dict."""
    return runpy.run_path(str(ROOT / "recipes/tools" / f"{name}.py"))


def trained(options, weight, seed):
    """The folder of the model with this weight and seed, trained unless it is there."""
    folder = options.models / f"weight_{weight}_seed_{seed}"
    if not (folder / "config.json").exists():
        source, target = options.languages
        flags = ["--data", options.data, "--source", source, "--target", target, "--from", options.start]
        flags += [*TRAINING.split(), "--guided-alignment", weight, "--seed", seed, "--out", folder, "--resume"]
        subprocess.run([sys.executable, ROOT / "recipes/transformer.py", *map(str, flags)], check=True)
    return folder


def measured(folder, sentences, options):
    """The alignment error rates and BLEU of a trained model, a dict."""
    translator = keras_attention.load(folder)
    rates = tool("alignment_error_rate")["rates"](translator, sentences, options.choose)
    domains = tool("scores_by_domain")
    (bleu, *_), _ = domains["scores"](translator, *domains["read_set"](options.dev, options.languages))
    if ALIGN not in rates:
        raise UserError(f"{folder}: the training found no heads that align words.")
    best = next(rate for name, rate in rates.items() if name.startswith("read") and name.endswith("the best"))
    scores = {ALIGN: rates[ALIGN], BEST: best, "BLEU": bleu}
    rounded = [{name: round(value, 2) for name, value in values.items()} for values in (scores, rates)]
    return {**rounded[0], "heads": translator.alignment_heads, "rates": rounded[1]}


def model_1_rate(sentences, options):
    """The alignment error rate of IBM model 1, learned from --data and from the sentences without their links."""
    translator = keras_attention.load(options.start)
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    texts = ([" ".join(one[side]) for one in sentences] for side in (0, 1))
    both = [[*first, *others] for first, others in zip(texts, read_tsv(options.data), strict=True)]
    corpus = with_links(ParallelCorpus.encode(*both, *tokenizers, LONGEST))
    pairs = []
    for number, sentence in enumerate(sentences):
        sides = (tokenizers[0], corpus.source[number]), (tokenizers[1], corpus.target[number])
        of_source, of_target = (words_of(one.tokens(ids[:-1])) for one, ids in sides)
        if (of_source[-1] + 1, of_target[-1] + 1) == (len(sentence[0]), len(sentence[1])):
            pairs.append(({(of_source[s], of_target[t]) for t, s in corpus.links[number].tolist()}, sentence))
    return tool("alignment_error_rate")["error_rate"](*zip(*pairs[options.choose :], strict=True))


def table(results):
    """The results as a table in Markdown: mean and range over the seeds."""
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for weight, of_seeds in sorted(results.items()):
        if weight == IBM:
            continue
        name = f"`--guided-alignment {weight}`" if float(weight) else "not guided"
        cells = [cell([one[column] for one in of_seeds.values()]) for column in (ALIGN, BEST, "BLEU")]
        lines.append(f"| {name} | {' | '.join(cells)} | {len(of_seeds)} |")
    return "\n".join([*lines, f"| {IBM} | {results[IBM]['']:.1f} | | | |"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="table of training pairs")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--from", dest="start", required=True, help="trained Transformer")
    parser.add_argument("--pairs", required=True, help="file of sentence pairs")
    parser.add_argument("--gold", required=True, help="file of links by hand")
    parser.add_argument("--dev", required=True, help="table for BLEU")
    parser.add_argument("--models", type=Path, required=True, help="folder for the trained models")
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.05])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--choose", type=int, default=100, help="sentences on which the best head is chosen")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/attention.md")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    options = parser.parse_args(arguments)
    sentences = tool("alignment_error_rate")["read_gold"](options.pairs, options.gold)
    files = {name: Path(getattr(options, name)).name for name in ("data", "start", "gold", "dev")}
    settings = {**files, "training": TRAINING, "choose": options.choose}
    results = stored_results(options.out, settings)
    if IBM not in results:
        results[IBM] = {"": round(model_1_rate(sentences, options), 2)}
        store_results(options.out, settings, results)
    for seed in options.seeds:
        for weight in options.weights:
            of_seeds = results.setdefault(str(weight), {})
            if str(seed) not in of_seeds:
                of_seeds[str(seed)] = measured(trained(options, weight, seed), sentences, options)
                store_results(options.out, settings, results)
    print(table(results))
    if options.docs:
        page, count = MARKS.subn(
            lambda marks: f"{marks[1]}\n{table(results)}\n\n{marks[2]}", PAGE.read_text(encoding="utf-8")
        )
        if not count:
            raise UserError(f"{PAGE} has no marks <!-- guided_alignment --> and <!-- /guided_alignment -->.")
        with whole_file(PAGE) as file:
            file.write(page)


if __name__ == "__main__":
    raise SystemExit(guarded(main, "guided_alignment.py"))
