"""Runs the code of two commits on this machine and compares the results bit by bit.

    python benchmarks/compare_commits.py main~3              # against the working tree
    python benchmarks/compare_commits.py v0.1.0 main --only zoo

For a change that must not change results, such as moving files. The cases: two recipes of 30 updates (weights, history,
scores), a fine-tuning on a small table (the same), and the answers of every entry of the zoo to its stored examples
(texts, scores, probabilities). Only commands, recipes and `keras_attention.load` are used, so both commits may be laid
out differently. Prints one line per case and exits with 1 on a difference.

Processors round differently, so nothing is compared with stored numbers. Results of a commit are kept under
runs/compare_commits for this processor and these libraries; the second comparison with a commit takes half the time.
Time on two cores: 3 minutes per commit, of which the zoo takes 2.
"""

import argparse
import contextlib
import datetime
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "runs" / "compare_commits"
PARTS = ("recipes", "finetune", "zoo")
WORKING_TREE = "the working tree"
LIBRARIES = ("tensorflow", "keras", "numpy", "tensorflow-text", "keras-hub")
TRAINING = "--seed 3 --dropout 0.1 --label_smoothing 0.1 --average_last 3 --strategy none --no-mixed_precision"
# About 30 updates each: 8 dates of the recipe's own in one batch, and a table in batches of three shapes.
RECIPE_FLAGS = {
    "rnn_attention": f"{TRAINING} --smoke --epochs 30 --max_tokens 24",
    "transformer": f"{TRAINING} --data pairs.tsv --validation_share 0.05 --epochs 3 --tokens_per_batch 200 "
    "--num_buckets 3 --vocabulary_size 60 --hidden_dim 18 --intermediate_dim 34 --num_heads 2 --num_encoder_layers 1 "
    "--num_decoder_layers 1 --warmup_steps 5 --validate_every 1 --beam_size 3 --no-jit_compile",
}
FINETUNE_FLAGS = (
    "--text text --label mood --validation-split 0.25 --epochs 2 --rows-per-batch 5 --max-tokens 17 --seed 3 "
    "--label-smoothing 0.1 --class-weights --strategy none --no-mixed-precision --no-jit-compile"
)
OPINIONS = {"good": ("moving", "funny", "wonderful"), "bad": ("boring", "far too long")}
SUBJECTS = ("film", "plot", "cast", "music", "ending")
# The fields of an answer that are compared; others, which a commit may add, are ignored.
FIELDS = ("text", "score", "log_prob", "tokens", "label", "words", "probabilities", "attention")


def main(arguments=None):
    options = parse(arguments)
    if options.answers:
        answer_examples(Path(options.answers))
        return 0
    try:
        with contextlib.ExitStack() as stack:
            old, new = (
                stack.enter_context(results(name, options.only, options.fresh)) for name in (options.old, options.new)
            )
            differences = compare(old, new)
    except (subprocess.CalledProcessError, RuntimeError) as error:
        print(f"compare_commits.py: {error}", file=sys.stderr)
        return 2
    width = max(map(len, differences))
    for case, difference in differences.items():
        print(f"{case:{width}}  {difference or 'equal'}")
    return int(any(differences.values()))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", metavar="OLD", nargs="?", default="HEAD", help="a commit (default: HEAD)")
    parser.add_argument("new", metavar="NEW", nargs="?", help="a commit (default: the working tree)")
    parser.add_argument("--only", choices=PARTS, help="run only these cases")
    parser.add_argument("--fresh", action="store_true", help="compute again what is kept under runs/")
    parser.add_argument("--answers", metavar="FILE", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# Running a commit


@contextlib.contextmanager
def results(name, only, fresh):
    """The folder with the results of a commit, or of the working tree if `name` is None, with a folder for each part.

    A commit's folder is kept. A working tree without changes counts as its commit.
    """
    if name is None and not git("status", "--porcelain"):
        name = "HEAD"
    parts = [only] if only else PARTS
    with tempfile.TemporaryDirectory(prefix="compare_commits_") as temporary:
        folder = Path(temporary) / "results"
        if name is None:
            for part in parts:
                run_part(part, ROOT, folder / part, WORKING_TREE)
            yield folder
            return
        commit = git("rev-parse", "--verify", f"{name}^{{commit}}")
        kept = KEPT / f"{commit[:12]}-{conditions()}"
        missing = [part for part in parts if fresh or not (kept / part).is_dir()]
        if missing:
            with worktree(commit, Path(temporary) / "code") as code:
                for part in missing:
                    run_part(part, code, folder / part, f"{name} ({commit[:12]})")
        for part in parts:
            if part in missing:
                shutil.rmtree(kept / part, ignore_errors=True)
                shutil.copytree(folder / part, kept / part)
            else:
                shutil.copytree(kept / part, folder / part)
        yield folder


@contextlib.contextmanager
def worktree(commit, folder):
    """A checkout of the commit that is removed at the end."""
    git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.strip()


def conditions():
    """A short hash of everything besides the commit that results depend on: processor, libraries, these cases."""
    processor = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = sorted({line for line in lines if line.startswith(("model name", "flags"))})
    installed = {distribution.name: distribution.version for distribution in importlib.metadata.distributions()}
    versions = [installed.get(library) for library in LIBRARIES]
    code = map(inspect.getsource, (run_part, write_dates, write_table, answers_of, plain))
    cases = RECIPE_FLAGS, FINETUNE_FLAGS, OPINIONS, SUBJECTS, FIELDS, *code
    facts = processor, os.cpu_count(), sys.version, versions, cases
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:8]


def run_part(part, code, out, name):
    """Runs the cases of a part with the code of a checkout and writes their files to the folder `out`."""
    print(f"{name}: {part} ...", file=sys.stderr, flush=True)
    out.mkdir(parents=True)
    if part == "recipes":
        write_dates(out / "pairs.tsv")
        for recipe, flags in RECIPE_FLAGS.items():
            run_python(code, out, code / "recipes" / f"{recipe}.py", *flags.split(), "--out", recipe)
    elif part == "finetune":
        write_table(out / "table.csv")
        command = "-P", "-m", "keras_attention", "finetune", "table.csv"
        run_python(code, out, *command, *FINETUNE_FLAGS.split(), "--out", "classifier")
    else:
        run_python(code, out, __file__, "--answers", "answers.json")


def run_python(code, folder, *words):
    """Runs Python in a folder with the package of a checkout."""
    command = [sys.executable, *map(str, words)]
    options = {"cwd": folder, "env": checkout_environment(code), "capture_output": True, "text": True}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")


def checkout_environment(code):
    """The environment of a process that imports the package from a checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_ATTENTION_ZOO"}
    return environment | {"PYTHONPATH": str(code), "PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}


def write_dates(path):
    """Writes 120 dates in English and as ISO 8601."""
    days = [datetime.date(1999, 1, 1) + datetime.timedelta(days=59 * i) for i in range(120)]
    rows = [f"{format(day, '%A, %B %d, %Y' if i % 3 else '%d %b %Y')}\t{day}" for i, day in enumerate(days)]
    path.write_text("\n".join([*rows, ""]), encoding="utf-8")


def write_table(path):
    """Writes 25 rows, 15 of them with the label good."""
    rows = [
        f"The {subject} is {opinion}.,{label}"
        for label, opinions in OPINIONS.items()
        for subject in SUBJECTS
        for opinion in opinions
    ]
    path.write_text("\n".join(["text,mood", *rows, ""]), encoding="utf-8")


def answer_examples(path):
    """Writes the answers of every entry of the zoo to the examples of its metrics.json."""
    import keras_attention

    code = Path(keras_attention.__file__).parents[1]
    if not code.samefile(os.environ["PYTHONPATH"]):
        raise RuntimeError(f"The package comes from {code}. Expected: {os.environ['PYTHONPATH']}")
    answers = {}
    for name in keras_attention.list_models():
        folder = code / "saved_models" / name
        examples = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["examples"]
        answers[name] = answers_of(keras_attention.load(name), folder, examples)
    path.write_text(json.dumps(answers), encoding="utf-8")


def answers_of(pipeline, folder, examples):
    """The answers of one entry to its examples, as JSON types.

    Args:
        pipeline: what `keras_attention.load` returns.
        folder: Path of the entry.
        examples: list of dict with `source` and perhaps `source_b`, as in metrics.json.
    """
    texts = [example["source"] for example in examples]
    if len(texts[0]) < 100 and (folder / texts[0]).is_file():  # of a picture or sound, not a text
        texts = [folder / text for text in texts]
    if hasattr(pipeline, "translate"):
        shortest = pipeline.translate(min(texts, key=len), return_attention=True)
        return {"texts": plain(pipeline.translate(texts, n_best=2)), "attention": plain(shortest)}
    seconds = [example.get("source_b") for example in examples]
    if hasattr(pipeline, "classify"):
        answers = pipeline.classify(texts, *([seconds] if any(seconds) else []), return_scores=True)
    elif hasattr(pipeline, "generate"):
        answers = pipeline.generate(texts, max_tokens=20)
    else:
        answers = pipeline.fill_mask(texts) if hasattr(pipeline, "fill_mask") else pipeline.answers(texts)
    vectors = []
    with contextlib.suppress(ValueError):  # a classifier whose network has no vectors of tokens
        vectors = pipeline.encode(texts[:2]).pooled if hasattr(pipeline, "encode") else []
    return {"texts": plain(answers), "vectors": plain(vectors)}


def plain(value):
    """An answer as JSON types, with exact floats; an array becomes its dtype, its shape and the hash of its bytes."""
    if hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in FIELDS if hasattr(value, name)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype} {value.shape} sha256 {digest[:16]}"
    return value


# Comparing


def compare(old, new):
    """Dict from each case in two folders of results to its first difference, a str, or None."""
    differences = {}
    trained = {path.parent.relative_to(folder) for folder in (old, new) for path in folder.glob("*/*/metrics.json")}
    for case in sorted(trained):
        differences[str(case)] = differing_training(old / case, new / case)
    answers = [read_json(folder / "zoo" / "answers.json") for folder in (old, new)]
    for name in sorted({*answers[0], *answers[1]}):
        differences[f"zoo/{name}"] = differing_value(*(side.get(name) for side in answers))
    return differences


def differing_training(old, new):
    """The first difference of two trained models: weights, history, scores, examples; or None."""
    missing = next((folder for folder in (old, new) if not (folder / "metrics.json").exists()), None)
    if missing:
        return f"there is no {missing}"
    metrics = [read_json(folder / "metrics.json") for folder in (old, new)]
    compared = [
        {
            "history": [{name: of[name] for name in of if name != "seconds"} for of in side["training"]["history"]],
            "scores": [(score["set"], score["metric"], score["value"]) for score in side["scores"]],
            "examples": side["examples"],
        }
        for side in metrics
    ]
    return differing_value(*compared) or differing_weights(*(folder / "model.weights.h5" for folder in (old, new)))


def differing_weights(old, new):
    """The first array in which two HDF5 files differ, in name, dtype, shape or any bit; or None."""
    old, new = read_arrays(old), read_arrays(new)
    if set(old) != set(new):
        return f"weights: only old has {sorted(set(old) - set(new))}, only new {sorted(set(new) - set(old))}"
    for name, before in sorted(old.items()):
        after = new[name]
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            return f"weights {name}: {before.dtype} {before.shape} -> {after.dtype} {after.shape}"
        if before.tobytes() != after.tobytes():
            gap = np.abs(after.astype("float64") - before.astype("float64"))
            return f"weights {name}: {np.count_nonzero(gap)} of {gap.size} values differ, by {gap.max():.1e} at most"
    return None


def differing_value(old, new, where=""):
    """The first place where two JSON values differ, with both values; or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        pairs = [(f"{where}.{key}".lstrip("."), old.get(key), new.get(key)) for key in keys]
        if list(old) != list(new) and set(old) == set(new):
            return f"{where or 'value'}: the order is {list(old)} -> {list(new)}"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(old, new, strict=True))]
    else:
        same = type(old) is type(new) and (old == new or (old != old and new != new))
        return None if same else f"{where or 'value'}: {old!r:.100} -> {new!r:.100}"
    return next(filter(None, (differing_value(before, after, place) for place, before, after in pairs)), None)


def read_arrays(path):
    """Dict from name to array of all datasets in a file of weights."""
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return arrays


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
