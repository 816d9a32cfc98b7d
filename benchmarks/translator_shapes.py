"""Shapes of a translator after equally long trainings: BLEU, and sentences per second.

    python benchmarks/translator_shapes.py --data pairs.tsv --out shapes.json --minutes 20
    python benchmarks/translator_shapes.py --data pairs.tsv --out shapes.json --minutes 20 --speed

A shape is encoder + decoder layers, such as 4 + 4; with SSRU, the self-attention of the decoder is replaced by
recurrence (Kim et al. 2019). Each training has the same pairs, vocabulary and size of batches, and as many updates as
this machine makes in --minutes of processor time, measured before it; compiling does not count. The weights are stored
beside --out, and the same command goes on after the last finished training.

`--speed` then lets all shapes translate test sentences, one at a time, round by round in turns, and stores the median
of the rounds. Give it the machine alone; `taskset -c 0` before the command gives one thread. `--docs PAGE` writes the
table between the marks <!-- shapes --> and <!-- /shapes --> of a page. Greedy BLEU B (sacrebleu, 13a); loss in nats
per token of the test pairs.
"""

import argparse
import math
import os
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

from stored_results import cell, store_results, stored_results

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded

with silent_libraries():
    import keras

from attention_studies import encoded, loss_of, split, train, write_table

from keras_attention.data.translation.parallel_corpus import read_tsv
from keras_attention.evaluation.translation_scores import bleu_tradition_b
from keras_attention.models.transformer import Transformer
from keras_attention.pipelines.translator import Translator
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import SentencePieceTokenizer

SHAPES = {
    "4 + 4": (4, 4, "attention"),
    "6 + 2": (6, 2, "attention"),
    "6 + 2, SSRU": (6, 2, "ssru"),
    "6 + 1, SSRU": (6, 1, "ssru"),
}
PROBED = 60  # updates before each training, which tell how many it makes
BEAMS = {"greedy": 1, "4 beams": 4}
SPEED_SENTENCES, ROUNDS = 200, 5


def untrained(shape, vocabulary_size, seed, options):
    """The `Transformer` of a shape with random weights."""
    encoder, decoder, kind = SHAPES[shape]
    keras.utils.set_random_seed(seed)
    sizes = {"hidden_dim": options.width, "intermediate_dim": 2 * options.width, "num_heads": 4}
    layers = {"num_encoder_layers": encoder, "num_decoder_layers": decoder, "decoder": kind}
    regular = {"dropout": options.dropout, "attention_dropout": 0.0}
    # Pre-norm: post-norm networks of more than two or three layers learn little in so few updates (docs/attention.md).
    norm = {"normalize_first": True}
    model = Transformer(vocabulary_size, vocabulary_size, **sizes, **layers, **regular, **norm, tie_embeddings="all")
    model.build()
    return model


def translator_of(model, tokenizer, options):
    most = 4 * max(options.up_to)  # tokens
    return Translator(model, tokenizer, tokenizer, {"max_source_length": most, "max_length": most})


def measure(shape, seed, data, options):
    """Trains and scores one translator; returns it, and a dict of JSON types."""
    train_pairs, test_pairs, tokenizer = data
    corpus, size = encoded(train_pairs, tokenizer, options), tokenizer.vocabulary_size
    probe = SimpleNamespace(**vars(options) | {"updates": PROBED})
    clock = time.process_time  # other work on the machine does not count
    each = train(untrained(shape, size, seed, options), corpus, seed, probe, clock) / (PROBED - options.buckets)
    options.updates = max(1, round(60 * options.minutes / each))
    model = untrained(shape, size, seed, options)
    seconds = train(model, corpus, seed, options, clock)
    sources, references = (list(side) for side in zip(*test_pairs, strict=True))
    outputs = translator_of(model, tokenizer, options).translate(sources, beam_size=1, split=False, keep_items=False)
    return model, {
        "BLEU": round(bleu_tradition_b([str(output) for output in outputs], references).score, 2),
        "loss": round(loss_of(model, encoded(test_pairs, tokenizer, options), options), 4),
        "parameters": sum(math.prod(weight.shape) for weight in model.trainable_weights),
        "updates": options.updates,
        "minutes": round(seconds / 60, 1),
    }


def speeds(translators, sentences):
    """Sentences per second of each translator by the names of BEAMS: the median of rounds in turns."""
    found = {name: {beams: [] for beams in BEAMS} for name in translators}
    for one_round in range(ROUNDS + 1):  # the first compiles, and does not count
        for name, translator in translators.items():
            for beams, beam_size in BEAMS.items():
                start = time.perf_counter()
                for sentence in sentences:
                    translator.hypotheses([sentence], split=False, beam_size=beam_size)
                if one_round:
                    found[name][beams].append(len(sentences) / (time.perf_counter() - start))
    return {name: {beams: statistics.median(rates) for beams, rates in of.items()} for name, of in found.items()}


def settings_of(options):
    """What must not change between the trainings of one file of results."""
    names = ("up_to", "train_size", "test_size", "vocabulary_size", "width", "dropout", "rate", "tokens_per_batch")
    return {"data": options.data.name, "minutes": options.minutes} | {name: getattr(options, name) for name in names}


def table(results):
    """The results as lines of Markdown: the mean, and the least and greatest value of the seeds."""
    beams = [beams for beams in BEAMS if all(beams in one for seeds in results.values() for one in seeds.values())]
    head = ["layers", "BLEU", "loss", "parameters", "updates", *(f"sentences/s, {name}" for name in beams), "seeds"]
    lines = [head, ["---"] * len(head)]
    for shape, seeds in results.items():
        ones = list(seeds.values())
        row = [shape, cell([one["BLEU"] for one in ones]), cell([one["loss"] for one in ones], 3)]
        row += [f"{ones[0]['parameters']:,}", f"{statistics.mean(one['updates'] for one in ones):,.0f}"]
        lines.append([*row, *(cell([one[name] for one in ones], 0) for name in beams), str(len(ones))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="table with source and target in the first columns")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--minutes", type=float, default=20.0, help="of each training, without compiling")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--only", nargs="+", choices=SHAPES, default=list(SHAPES), help="some of the shapes")
    parser.add_argument("--speed", action="store_true", help="measure the speed of trained shapes, instead of training")
    parser.add_argument("--up-to", nargs="+", type=int, default=[20], help="most words of a sentence")
    parser.add_argument("--train-size", type=int, default=150_000, help="pairs")
    parser.add_argument("--test-size", type=int, default=2_000, help="pairs")
    parser.add_argument("--vocabulary-size", type=int, default=5_000, help="pieces of the joint vocabulary")
    parser.add_argument("--width", type=int, default=128, help="of the layers")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate of Adam")
    parser.add_argument("--tokens-per-batch", type=int, default=4096, help="of an update, padding included")
    parser.add_argument("--buckets", type=int, default=3, help="shapes of batches; each is compiled once")
    parser.add_argument("--no-xla", action="store_true", help="starts faster and trains more slowly")
    parser.add_argument("--docs", type=Path, help="page of the docs that gets the table")
    options = parser.parse_args(arguments)
    options.study = "shapes"

    results = stored_results(options.out, settings_of(options))
    train_pairs, test_pairs = split(list(zip(*read_tsv(options.data), strict=True)), options)
    tokenizer = SentencePieceTokenizer.train([text for pair in train_pairs for text in pair], options.vocabulary_size)
    print(f"{len(train_pairs):,} training pairs, {len(test_pairs):,} test pairs, {tokenizer.vocabulary_size:,} pieces")
    wanted = [(shape, str(seed)) for seed in options.seeds for shape in options.only]
    weights = {one: options.out.with_name(f"{options.out.stem}.{'-'.join(one)}.weights.h5") for one in wanted}
    for shape, seed in [] if options.speed else [one for one in wanted if one[1] not in results.get(one[0], {})]:
        model, measured = measure(shape, int(seed), (train_pairs, test_pairs, tokenizer), options)
        model.save_weights(weights[shape, seed])
        results.setdefault(shape, {})[seed] = measured
        store_results(options.out, settings_of(options), results)
        print(f"{shape}, seed {seed}: {', '.join(f'{name} {value}' for name, value in measured.items())}", flush=True)
    if options.speed:
        if missing := [f"{shape}, seed {seed}" for shape, seed in wanted if seed not in results.get(shape, {})]:
            raise UserError(f"--speed: {missing[0]} is not trained. Leave out --speed, or name others with --only.")
        translators = {one: untrained(one[0], tokenizer.vocabulary_size, 0, options) for one in wanted}
        for one, model in translators.items():
            model.load_weights(weights[one])
        translators = {one: translator_of(model, tokenizer, options) for one, model in translators.items()}
        for (shape, seed), rates in speeds(translators, [source for source, _ in test_pairs[:SPEED_SENTENCES]]).items():
            results[shape][seed] |= rates
        store_results(options.out, settings_of(options), results)
    results = {shape: results[shape] for shape in SHAPES if shape in results}
    print("\n" + table(results))
    if options.docs:
        write_table(options.docs, "shapes", table(results))


if __name__ == "__main__":
    raise SystemExit(guarded(main, "translator_shapes.py"))
