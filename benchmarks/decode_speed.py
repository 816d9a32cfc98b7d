"""Our decoding compared with CTranslate2, Hugging Face and our own without a cache, all with the same weights.

    python benchmarks/decode_speed.py --model NAME --input FILE           # real sentences, one per line
    python benchmarks/decode_speed.py --untrained --input FILE            # tiny, random weights: speed without a model
    python benchmarks/decode_speed.py --model NAME --input FILE --threads 1 2    # eight settings instead of four

Each engine is a process of its own; they take turns on the same cores, round by round, so that all see the same
machine. Printed for greedy search and beam 4, one sentence at a time and 64 together: the median of the rounds in
sentences and tokens per second, the time of an answer (p50, p95), peak memory, the ratio to CTranslate2, and the share
of equal texts. With `--threads`, each process may use only this many cores, so all engines have equally many threads.

The last row of each setting, "limit", is what reading the weights alone would allow: the weights that a step of the
decoder uses are read once for a batch, as fast as the fastest of several simple NumPy passes over as many bytes, and a
batch needs as many steps as its longest answer has tokens. Needs `pip install .[benchmarks]`.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError
from keras_attention.training.history import run_facts

SETTINGS = [(beam, batch) for beam in (1, 4) for batch in (1, 64)]
ENGINES = ("ours", "ctranslate2", "ctranslate2_int8", "hugging_face", "uncached")
SLOW = ("hugging_face", "uncached")  # measured in one round
LENGTH_PENALTY = 0.0


class Ours:
    """The translator of an entry."""

    def __init__(self, folder):
        from keras_attention.pipelines.base import load_pipeline

        self.translator = load_pipeline(folder, "translate")

    def translate(self, texts, beam):
        answers = self.translator.hypotheses(texts, split=False, beam_size=beam, length_penalty=LENGTH_PENALTY)
        return [best.text for best, *_ in answers], [len(best.tokens) for best, *_ in answers]


class Uncached(Ours):
    """The same without a cache: recomputes the whole answer at every step."""

    def __init__(self, folder):
        super().__init__(folder)
        from uncached import without_cache

        without_cache(self.translator.model)


class HuggingFace:
    """`transformers.MarianMTModel.generate` with the weights and the tokenizer of an entry."""

    def __init__(self, folder):
        from marian_model import marian_of

        from keras_attention.zoo.entry_io import load_entry

        entry, model, tokenizers = load_entry(folder)
        self.model, self.decoding, self.tokenizer = marian_of(model), entry.config["decoding"], tokenizers["source"]

    def translate(self, texts, beam):
        import torch

        from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

        rows = [torch.tensor([*ids, END_ID]) for ids in self.tokenizer.encode(texts)]
        source_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)
        with torch.inference_mode():
            generated = self.model.generate(
                source_ids,
                attention_mask=(source_ids != PAD_ID).long(),
                num_beams=beam,
                length_penalty=LENGTH_PENALTY,
                max_new_tokens=self.decoding["max_length"],
                bad_words_ids=[[PAD_ID], [UNKNOWN_ID], [START_ID]],
            )
        ids = [[number for number in row.tolist() if number not in (PAD_ID, START_ID, END_ID)] for row in generated]
        return self.tokenizer.decode(ids), [len(row) + 1 for row in ids]


class CTranslate2:
    """CTranslate2 in float32 with the weights and the tokenizer of an entry."""

    compute_type = "float32"

    def __init__(self, folder):
        os.environ.setdefault("CT2_USE_MKL", "0")  # on a virtual machine of two cores MKL takes up to 17 times as long
        import ctranslate2

        options = {"compute_type": self.compute_type, "inter_threads": 1, "intra_threads": available_cores()}
        self.engine = ctranslate2.Translator(str(Path(folder) / "ctranslate2"), **options)
        from keras_attention.tokenizers import load_tokenizer
        from keras_attention.zoo.entry import read_entry

        entry = read_entry((Path(folder) / "entry").resolve())
        self.decoding = entry.config["decoding"]
        self.tokenizer = load_tokenizer(entry.folder / entry.config["tokenizer"]["source"])
        self.ids = {self.tokenizer.tokens([number])[0]: number for number in range(self.tokenizer.vocabulary_size)}

    def translate(self, texts, beam):
        rows = [[*self.tokenizer.tokens(ids), "</s>"] for ids in self.tokenizer.encode(texts)]
        generated = self.engine.translate_batch(
            rows,
            beam_size=beam,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=self.decoding["max_length"],
            max_batch_size=64,
            disable_unk=True,
        )
        ids = [[self.ids[piece] for piece in result.hypotheses[0]] for result in generated]
        return self.tokenizer.decode(ids), [len(row) + 1 for row in ids]


class CTranslate2Int8(CTranslate2):
    """The same with 8-bit matrix products."""

    compute_type = "int8"


KINDS = dict(zip(ENGINES, (Ours, CTranslate2, CTranslate2Int8, HuggingFace, Uncached), strict=True))


def use_cores(count):
    """Limits this process to `count` of its cores (None: all of them), before its libraries start their threads."""
    if count is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
        os.environ["OMP_NUM_THREADS"] = str(count)


def weight_bytes(model):
    """The bytes of the weights that one step of a model's decoder reads."""
    import tensorflow as tf

    from keras_attention.tokenizers.special_tokens import END_ID

    memory = model.encode(np.array([[END_ID]], "int32"))
    state = model.initial_state(memory, 2)
    step = tf.function(lambda token_ids: model.step(token_ids, state, memory)[0], autograph=False)
    graph = step.get_concrete_function(tf.TensorSpec((1,), tf.int32)).graph
    used = {id(handle) for handle, _ in graph.captures}
    return sum(np.asarray(weight).nbytes for weight in model.weights if id(weight.value.handle) in used)


def read_speed(size, seconds=0.5):
    """The most bytes per second at which this process reads `size` bytes of float32 again and again."""
    width = 1024
    matrix = np.ones((max(1, size // (4 * width)), width), "float32")
    vector, whole, copy = np.ones(width, "float32"), matrix.ravel(), np.empty_like(matrix)
    passes = (lambda: matrix @ vector, lambda: whole @ whole, lambda: np.copyto(copy, matrix))
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for one in passes:
            begun = time.perf_counter()
            one()
            best = min(best, time.perf_counter() - begun)
    return matrix.nbytes / best


def limit_row(beam, batch, threads, lengths, size, speed):
    """The row "limit" of a setting: how fast the answers would be if a step only read its weights.

    Args:
        beam, batch, threads: the setting.
        lengths: list of int, the tokens of each answer in the order of the sentences, including END.
        size: int, bytes of the weights of a step.
        speed: float, bytes per second.
    """
    steps = sum(max(lengths[start : start + batch]) for start in range(0, len(lengths), batch))
    seconds = steps * size / speed
    row = {"beam": beam, "batch": batch, "threads": threads, "engine": "limit"}
    return row | {"sentences/s": len(lengths) / seconds, "MB per step": size / 1e6, "GB/s": speed / 1e9}


def serve(kind, folder, texts, cores, pipe):
    """The process of one engine: answers (beam, batch) with the result of a round, and None with its peak memory.

    The result of our own engine has the row "limit" as well, with the limit measured at that moment.
    """
    use_cores(cores)
    engine = KINDS[kind](folder)
    # Of a second copy, because searches are slower once `model` of their translator has been read.
    size = weight_bytes(Ours(folder).translator.model) if kind == "ours" else None
    for beam, batch in iter(pipe.recv, None):
        answers, lengths, seconds = [], [], []
        for start in range(0, len(texts), batch):
            begun = time.perf_counter()
            texts_of_batch, counts = engine.translate(texts[start : start + batch], beam)
            seconds.append(time.perf_counter() - begun)
            answers += texts_of_batch
            lengths += counts
        result = {"answers": answers, "tokens": sum(lengths), "seconds": seconds}
        if size:
            result["limit"] = limit_row(beam, batch, available_cores(), lengths, size, read_speed(size))
        pipe.send(result)
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a Transformer out of `zoo list`, or a folder")
    parser.add_argument("--untrained", action="store_true", help="a Transformer of 4 + 4 layers with random weights")
    parser.add_argument("--input", required=True, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=256, help="how many of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="cores of each engine; default: all")
    parser.add_argument("--json", help="write the results to this file as well")
    arguments = parser.parse_args()
    if arguments.threads and not all(0 < number <= available_cores() for number in arguments.threads):
        raise UserError(f"--threads must be between 1 and {available_cores()}. Received: {arguments.threads}")
    texts = read_lines(arguments.input)[: arguments.sentences]
    with tempfile.TemporaryDirectory() as temporary:
        folder = prepared(arguments, texts, Path(temporary))
        rows = []
        for cores in arguments.threads or (None,):
            rows += measure(arguments, folder, texts, cores)
    if arguments.json:
        facts = {"model": arguments.model or "untrained", "sentences": len(texts), "hardware": run_facts()["hardware"]}
        Path(arguments.json).write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def prepared(arguments, texts, temporary):
    """Writes the files that the engines load, in another process, so that this one stays small."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=prepare, args=(arguments.model, arguments.untrained, texts, temporary))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(process.exitcode)
    return temporary


def prepare(name, untrained, texts, temporary):
    from keras_attention.pipelines.base import load_pipeline
    from keras_attention.runtime.ctranslate2_engine import write_ctranslate2
    from keras_attention.zoo.registry import find_entry

    if untrained:
        write_untrained(temporary / "entry", texts)
    else:
        (temporary / "entry").symlink_to(Path(find_entry(name)).resolve())
    write_ctranslate2(temporary / "ctranslate2", load_pipeline((temporary / "entry").resolve(), "translate"))


def write_untrained(folder, texts):
    import keras

    from keras_attention.models import PRESETS, Transformer
    from keras_attention.tokenizers import SentencePieceTokenizer
    from keras_attention.zoo.card import REQUIRED
    from keras_attention.zoo.entry_io import write_entry

    keras.utils.set_random_seed(1)
    tokenizer = SentencePieceTokenizer.train(texts, 8000)
    model = Transformer(tokenizer.vocabulary_size, tokenizer.vocabulary_size, **PRESETS["tiny"])
    model.build()
    metrics = dict.fromkeys(REQUIRED, "none") | dict.fromkeys(("data", "seeds", "scores", "limits", "examples"), [])
    metrics |= {"minutes": 0.0, "parameters": model.count_params()}
    # A fixed length for all engines, because random weights do not generate END.
    decoding = {"max_length": 16, "length_ratio": 0.0, "length_offset": 16}
    about = {"source_language": "en", "target_language": "none", "decoding": decoding}
    write_entry(folder, model, {"source": tokenizer, "target": tokenizer}, about=about, metrics=metrics)


def measure(arguments, folder, texts, cores=None):
    """The rows of all settings with `cores` cores."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for kind in arguments.engines:
        pipes[kind], theirs = context.Pipe()
        place = folder if issubclass(KINDS[kind], CTranslate2) else (folder / "entry").resolve()
        processes.append(context.Process(target=serve, args=(kind, place, texts, cores, theirs), daemon=True))
        processes[-1].start()
        theirs.close()  # so that the end of that process ends the wait for its answer
    rows = []
    for beam, batch in SETTINGS:
        rounds = {kind: [] for kind in pipes}
        for number in range(arguments.rounds + 1):
            for kind, pipe in pipes.items():
                if kind in SLOW and number > 1:
                    continue
                pipe.send((beam, batch))
                result = pipe.recv()
                if number:  # the first round compiles
                    rounds[kind].append(result)
        rows += compared(beam, batch, cores or available_cores(), rounds)
    for kind, pipe in pipes.items():
        pipe.send(None)
        print(f"{kind}: peak memory {pipe.recv():,.0f} MB")
    return rows


def compared(beam, batch, threads, rounds):
    """Prints and returns one row for each engine, and the row "limit"."""
    rows = []
    totals = {kind: statistics.median(sum(one["seconds"]) for one in results) for kind, results in rounds.items()}
    for kind, results in rounds.items():
        answers = results[-1]["answers"]
        row = {"beam": beam, "batch": batch, "threads": threads, "engine": kind}
        row["sentences/s"] = len(answers) / totals[kind]
        row["tokens/s"] = results[-1]["tokens"] / totals[kind]
        times = [1000 * seconds for result in results for seconds in result["seconds"]]
        row["p50 ms"], row["p95 ms"] = (float(x) for x in np.percentile(times, (50, 95)))
        if "ctranslate2" in totals:
            row["ratio"] = totals["ctranslate2"] / totals[kind]
            expected = rounds["ctranslate2"][-1]["answers"]
            row["same texts %"] = 100 * sum(a == b for a, b in zip(answers, expected, strict=True)) / len(answers)
        rows.append(row)
    limits = [result["limit"] for result in rounds.get("ours", ())]
    rows += [max(limits, key=lambda row: row["sentences/s"])] if limits else []
    for row in rows:
        shown = (f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
        print("  ".join(shown), flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(guarded(main, "decode_speed.py"))
