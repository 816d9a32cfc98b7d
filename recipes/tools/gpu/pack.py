"""Pack texts and published encoders into small files, for training on a machine without network.

    python recipes/tools/gpu/pack.py --data DATA --minilm FOLDER --mpnet FOLDER --out carry

DATA is a folder of data sets; the two other folders contain all-MiniLM-L6-v2 and all-mpnet-base-v2 as published
(model.safetensors, vocab.txt). Weights are rounded to steps of a tenth of the root mean square of a row. Test sets
are not packed, and training reviews that also occur in the test set are left out. `distill.py` reads the result. Needs
the package safetensors.
"""

import argparse
import gzip
import io
import lzma
import random
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

STEPS = 10.0  # per root mean square of a row
HELD_OUT_SENTENCES, HELD_OUT_REVIEWS = 600, 1500
XZ = {"format": lzma.FORMAT_XZ, "preset": 9}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "minilm", "mpnet", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, default=Path("saved_models/minilm_small_en"), help="whose vocabulary")
    parser.add_argument("--wikipedia-shards", type=int, default=3)
    arguments = parser.parse_args()
    jobs = [(arguments.mpnet, arguments.out / "mpnet"), (arguments.minilm, arguments.out / "minilm")]
    with ProcessPoolExecutor(2) as pool:
        weights = [pool.submit(pack_weights, *job) for job in jobs]
        texts = arguments.out / "texts"
        texts.mkdir(parents=True, exist_ok=True)
        for name, lines in text_files(arguments.data, arguments.wikipedia_shards):
            content = "".join(line + "\n" for line in lines).encode()
            (texts / f"{name}.xz").write_bytes(lzma.compress(content, **XZ))
            print(f"{name}: {len(lines):,} lines, {(texts / f'{name}.xz').stat().st_size / 1e6:.1f} MB", flush=True)
        for name in ("vocab.txt", "tokenizer.json"):
            (texts / f"student_{name}").write_bytes((arguments.encoder / "tokenizer" / name).read_bytes())
        for job in weights:
            print(job.result())


def pack_weights(folder, out):
    """One file per layer; returns a sentence about them."""
    from safetensors.numpy import load_file

    out.mkdir(parents=True, exist_ok=True)
    groups = {}
    for name, value in load_file(folder / "model.safetensors").items():
        layer = re.search(r"layer\.(\d+)\.", name)
        groups.setdefault(layer[1] if layer else "rest", {})[name] = value
    for group, tensors in groups.items():
        (out / f"{group}.xz").write_bytes(pack_tensors(tensors))
    (out / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
    return f"{out.name}: {sum(path.stat().st_size for path in out.iterdir()) / 1e6:.1f} MB"


def pack_tensors(tensors, steps=STEPS):
    """Compressed bytes: matrices as int8 with a step for each row, vectors as float32."""
    arrays = {}
    for name, value in tensors.items():
        if not np.issubdtype(value.dtype, np.floating):
            continue  # position ids
        value = value.astype(np.float32)
        if value.ndim == 2:
            step = np.maximum(np.sqrt((value**2).mean(axis=1)) / steps, np.abs(value).max(axis=1) / 127) + 1e-12
            arrays[name + "|step"] = step.astype(np.float32)
            value = np.round(value / step[:, None]).astype(np.int8)
        arrays[name] = value
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]
    return lzma.compress(buffer.getvalue(), format=lzma.FORMAT_XZ, filters=filters)


def unpack_tensors(content):
    """The tensors that `pack_tensors` has packed, name -> float32 array."""
    arrays = dict(np.load(io.BytesIO(lzma.decompress(content))))
    steps = {name: arrays.pop(name + "|step") for name in list(arrays) if name + "|step" in arrays}
    return {name: value * steps[name][:, None] if name in steps else value for name, value in arrays.items()}


def text_files(data, shards):
    """Pairs of a file's name and its lines. Texts are lower-cased, as all three models do; labels come first."""
    test = {key(row[0]) for row in table(data / "cls_imdb/test.tsv.xz")}
    labelled = [row for row in table(data / "cls_imdb/train.tsv.xz") if key(row[0]) not in test]
    random.Random(1).shuffle(labelled)
    labelled = [f"{row[1]}\t{plain(row[0])}" for row in dict((key(row[0]), row) for row in labelled).values()]
    yield "reviews_validation.tsv", labelled[:HELD_OUT_REVIEWS]
    yield "reviews_train.tsv", labelled[HELD_OUT_REVIEWS:]
    seen = test | {key(row[0]) for row in table(data / "cls_imdb/train.tsv.xz")}
    unlabelled = {key(line): plain(line) for line in lines_of(data / "lm_text/imdb_unsup.txt.xz")}
    yield "reviews_unlabelled.txt", [text for found, text in unlabelled.items() if found not in seen]
    yield from sentiment_files(data)
    for name, file in (("train", "train"), ("validation", "val")):
        rows = table(data / f"pair_mrpc/{file}.tsv.gz")
        yield f"pairs_{name}.tsv", ["\t".join((label, plain(a), plain(b))) for a, b, label in rows]
    short = {line for language in ("de", "fr") for line, *_ in table(data / f"mt_tatoeba_en_{language}/train.tsv.gz")}
    short |= {row[0] for row in table(data / "cls_goemotions/train.tsv.gz")}
    short |= set(lines_of(data / "mt_multi30k/train.en.gz"))
    short |= {text for row in table(data / "pair_rte/train.tsv.gz") for text in row[:2]}
    yield "short.txt", sorted({plain(line) for line in short})
    yield "books.txt", [plain(line) for line in lines_of(data / "lm_text/gutenberg.train.txt.xz") if line][::2]
    for shard in range(shards):
        lines = lines_of(data / f"lm_text/enwiki2015.train.{3 * shard:02d}.txt.xz")
        yield f"wikipedia_{shard}.txt", [plain(line) for line in lines if line]


def sentiment_files(data):
    """Every labelled phrase of the SST training trees; whole sentences of the held-out part."""
    trees = lines_of(data / "cls_sst_trees/binary.train.txt.gz")
    dev = {phrases(tree)[-1][1] for tree in lines_of(data / "cls_sst_trees/binary.dev.txt.gz")}
    dev |= {row[0] for row in table(data / "cls_sst2/dev.tsv.gz")}
    random.Random(1).shuffle(trees)
    held = [phrases(tree) for tree in trees[:HELD_OUT_SENTENCES]]
    validation = dict(found[-1][::-1] for found in held)
    hidden = {text for found in held for _, text in found if len(text.split()) > 2}
    train = {text: label for tree in trees[HELD_OUT_SENTENCES:] for label, text in phrases(tree)}
    train = {text: label for text, label in train.items() if text not in hidden and text not in dev}
    yield "phrases_validation.tsv", [f"{label}\t{text}" for text, label in validation.items() if label != "-1"]
    yield "phrases_train.tsv", [f"{label}\t{text}" for text, label in train.items() if label != "-1"]
    yield "phrases_neutral.txt", [text for text, label in train.items() if label == "-1"]


def phrases(tree):
    """Pairs of label and lower-cased phrase of each node, the whole sentence last."""
    pairs, stack = [], []
    for token in re.findall(r"\(-?\d|\)|[^\s()]+", tree):
        if token.startswith("("):
            stack.append((token[1:], []))
        elif token == ")":
            label, words = stack.pop()
            pairs.append((label, " ".join(words).lower()))
            if stack:
                stack[-1][1].extend(words)
        else:
            stack[-1][1].append(token)
    return pairs


def table(path):
    return [line.split("\t") for line in lines_of(path)[1:]]


def lines_of(path):
    opened = gzip.open if path.suffix == ".gz" else lzma.open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def plain(text):
    return re.sub(r"\s+", " ", text.replace("<br />", " ")).strip().lower()


def key(text):
    """What two copies of a text have in common."""
    return re.sub(r"\W+", " ", plain(text))


if __name__ == "__main__":
    main()
