"""The benchmarks run, at sizes that take seconds; what they measure is for whoever starts them to read."""

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_bert import LABELS, TEXTS, task, tiny_classifier, tiny_mask_filler, write_tiny
from zoo.tiny_entry import METRICS, tiny_parts, write_tiny_entry

from keras_attention.data.word_vectors import WordVectors
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError
from keras_attention.zoo.entry_io import load_entry

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TOOLS = BENCHMARKS.parent / "recipes" / "tools"
SMALL = {"width": 12, "heads": 3, "layers": 1, "vocabulary": 29, "batch": 6, "length": 5}
SIZES = [word for name, size in SMALL.items() for word in (f"--{name}", size)]


def lines_of(script, *arguments):
    folder = BENCHMARKS if (BENCHMARKS / script).exists() else TOOLS
    command = [sys.executable, folder / script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCHMARKS.parent), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.thorough
def test_training_by_itself():
    (line,) = lines_of("train_speed.py", *SIZES, "--rounds", 1, "--engines", "ours")
    assert re.search(r"^ours: [\d,]+ tokens/s, .* ours is 1.00 times as fast$", line)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ours", "keras-hub", "Keras", "PyTorch", "Marian"])
@pytest.mark.parametrize("network", ["transformer", "bert", "gpt", "rnn"])
def test_every_engine_trains(network, engine, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from train_speed_engines import ENGINES, random_batch

    if engine not in ENGINES[network]:
        pytest.skip(f"{engine} has no {network}")
    kind, package = ENGINES[network][engine]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    shape = SimpleNamespace(**SMALL)
    assert kind(shape)(random_batch(network, shape)) > 0  # seconds


@pytest.mark.thorough
def test_operations_of_matrix_products(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(BENCHMARKS)
    from train_speed_engines import product_operations, product_speed

    shape = SimpleNamespace(**SMALL)
    attention = 4 * shape.width**2 + 2 * shape.length * shape.width  # multiplications for each token
    feed_forward = 4 * shape.width**2
    each_layer = (attention + feed_forward) + (2 * attention + feed_forward)  # encoder, decoder
    each_token = shape.layers * each_layer + shape.width * shape.vocabulary
    expected = 6 * shape.batch * shape.length * each_token  # multiply and add, forward and two gradients
    assert product_operations("transformer", shape) == expected
    assert product_speed(size=8, repeats=1) > 0


@pytest.mark.thorough
def test_generate_speed_compares_ours_with_hugging_face():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    sizes = ("--width", 12, "--layers", 1, "--heads", 2, "--vocabulary", 700, "--positions", 64)
    lines = [line for line in lines_of("generate_speed.py", *sizes, "--tokens", 5, "--rounds", 1) if "batch" in line]
    for batch, line in zip((1, 32), lines, strict=True):
        assert re.search(rf"^batch {batch}: ours [\d,]+ tokens/s, .* times as fast, 100% equal texts$", line)


@pytest.mark.thorough
def test_attention_memory_compares_ours_with_keras():
    forward, backward = lines_of("attention_memory.py", "--lengths", 31, "--rounds", 1)
    assert forward.startswith("n 31: ours")
    assert backward.startswith("n 31, with gradients: ours")
    for line in (forward, backward):
        assert re.search(r"; Keras [\d.]+ ms, -?\d+ MB \(-?\d+\): [\d.]+ times the time", line)


@pytest.mark.thorough
def test_attention_memory_compares_sparse_with_dense():
    arguments = ("--lengths", 31, "--rounds", 1, "--patterns", "bigbird:block=5", "--longest_gradients", 1, "--causal")
    dense, sparse = lines_of("attention_memory.py", *arguments)
    assert dense.startswith("n 31, causal: dense")
    memory = r"\d+ MB \(-?\d+ with the compiler\)"
    assert re.search(rf"bigbird:block=5 [\d.]+ ms, {memory}: [\d.]+ times as fast, [\d.]+ times less memory", sparse)


@pytest.mark.thorough
def test_training_on_an_accelerator(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    first, difference, *lines = lines_of("accelerator.py", "--smoke", "--peak", 0.5, "--out", tmp_path / "out.json")
    assert first.endswith("peak 0.5 TFLOP/s")
    context, gradient = re.fullmatch(r"fused: differs from plain by (.*)%, in gradients by (.*)%", difference).groups()
    assert float(context) < 2
    assert float(gradient) < 4  # bfloat16 has a precision of 0.8 %
    speed = r"[\d,]+ tokens/s, [\d.]+ ms, .* TFLOP/s, MFU [\d.]+ %; first update [\d.]+ s, its loss [\d.]+"
    for line in lines:
        assert re.fullmatch(rf"(bert|transformer), \d+ x \d+, dropout 0(\.1)?, (plain|fused): {speed}", line)
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert len(results) == len(lines) == 7
    for plain, fused in zip(results[:6:2], results[1:6:2], strict=True):
        np.testing.assert_allclose(plain["first_loss"], fused["first_loss"], rtol=1e-3)


def test_operations_of_a_network_on_an_accelerator(monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.syspath_prepend(BENCHMARKS)
    from accelerator import Bert, Translator

    sizes = {"width": 6, "heads": 3, "inner": 11, "layers": 2, "vocabulary": 29}
    bert, translator = Bert(sizes, 53, 0.0), Translator(sizes, 7, 0.0)
    expected = {bert: 6 * 6 * 29 * 16, translator: 6 * 6 * 29 * 7}  # the product with the vocabulary
    for network in (bert, translator):
        network.model.build()
        for weight in network.model.trainable_weights:
            masked = re.search("head_dense|layer_1/(feed_forward|self_attention/(query|attention_output))", weight.path)
            if weight.path.endswith("/kernel"):
                positions = 16 if masked and network is bert else network.length
                expected[network] += 6 * int(np.prod(weight.shape)) * positions
    expected[bert] += 12 * 6 * (53 * 53 + 16 * 53)
    expected[translator] += 12 * 6 * 6 * 7 * 7  # three kinds of attention in two layers
    assert {network: network.flops() for network in expected} == expected


@pytest.mark.thorough
def test_a_server_under_load(tmp_path):
    example = [{"source": TEXTS[0], "output": LABELS["binary"][0]}]
    write_tiny(tmp_path / "moods", tiny_classifier().model, example, task=task())
    arguments = ("--model", tmp_path / "moods", "--seconds", 0.3, "--only", "equal", "sigterm")
    equal, sigterm = lines_of("serving.py", *arguments)
    assert re.fullmatch(r"equal: 30 requests of 64 clients in [\d.]+ s, 0 unlike the answers alone", equal)
    assert re.fullmatch(r"sigterm: [\d,]+ requests accepted, 0 lost, [\d,]+ answered with 200, exit code 0", sigterm)


@pytest.mark.thorough
def test_a_server_is_soaked(tmp_path):
    example = [{"source": TEXTS[0], "output": LABELS["binary"][0]}]
    write_tiny(tmp_path / "moods", tiny_classifier().model, example, task=task())
    good, abusive, memory, files, log, last = lines_of("serving.py", "--model", tmp_path / "moods", "--soak", 0.2)
    assert re.fullmatch(r"soak: 0.2 minutes, [\d,]+ good requests, \{200: .*\}", good)
    assert re.fullmatch(r"soak: [\d,]+ abusive connections, wrong statuses: none", abusive)
    assert re.search(r"soak: memory \d+ MB, [-+][\d.]+ % an hour", memory)  # too short for the growth to mean much
    assert re.search(r"soak: open files [-+]\d+ from the first to the last third", files)
    assert re.fullmatch(r"soak: \d+ lines of log, 0 tracebacks", log)
    assert last == "soak: the last good request has status 200"


@pytest.mark.thorough
@pytest.mark.skipif(available_cores() < 2, reason="two workers need two cores")
def test_scaling_over_two_workers():
    alone, joined, *projections = lines_of("scaling.py", *SIZES, "--rounds", 1)
    assert re.fullmatch(r"1 worker: [\d,]+ tokens/s, \d+ ms a step", alone)
    assert re.search(r"^2 workers: .* times; [\d.]+ ms or [\d.]+% of a step exchange [\d.]+ MB$", joined)
    assert [line.split(",")[0] for line in projections] == ["projection"] * 2


@pytest.mark.thorough
def test_classifiers_of_few_labels(tmp_path):
    entry = write_tiny(tmp_path / "small_bert", tiny_mask_filler().model)
    rows = [f"{'joy' if n % 2 else 'dull'} {n}\t{'good' if n % 2 else 'bad'}" for n in range(60)]
    (tmp_path / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]))
    tables = (tmp_path / "rows.tsv", "--test", tmp_path / "rows.tsv", "--labels", 20, "--test-rows", 15)
    arguments = (*tables, "--from", entry.folder, "--max-tokens", 16, "--out", tmp_path / "out", "--name", "joy")
    lines = lines_of("low_labels.py", *arguments)
    assert lines[-5] == "| system | 20 |"
    table = [line.split(" | ")[0] for line in lines[-3:]]
    assert table == ["| from small_bert", "| from random weights", "| TF-IDF"]
    assert all(0 <= float(line.split(" | ")[1].rstrip(" |")) <= 100 for line in lines[-3:])
    again = lines_of("low_labels.py", *arguments, "--card", entry.folder)
    assert again[-5:] == lines[-5:]
    assert not any(line.startswith("---") for line in again)
    card = (entry.folder / "CARD.md").read_text()
    assert "## joy: macro-F1, %, by number of labels" in card
    assert "](low_labels.png)" in card


@pytest.mark.thorough
def test_few_rows_of_each_class(tmp_path):
    entry = write_tiny(tmp_path / "small_bert", tiny_mask_filler().model)
    rows = [f"{'joy' if n % 2 else 'dull'} {n}\t{'good' if n % 2 else 'bad'}" for n in range(60)]
    (tmp_path / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]))
    tables = (tmp_path / "rows.tsv", "--test", tmp_path / "rows.tsv", "--test-rows", 15)
    lines = lines_of("few_rows.py", *tables, "--from", entry.folder, "--rows", 5, "--seeds", 1)
    assert lines[0] == "| rows per class | linear model on vectors | trained on labels | contrastive |"
    assert re.fullmatch(r"\| 5 \|( [\d.]+ ± 0\.0 \|){3}", lines[-1])


@pytest.mark.thorough
def test_seeds(tmp_path):
    entry = write_tiny(tmp_path / "small_bert", tiny_mask_filler().model)
    rows = [f"{word} {number}\t{mood}" for number in range(12) for word, mood in (("joy", "good"), ("dull", "bad"))]
    (tmp_path / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]))
    table = (tmp_path / "rows.tsv", "--test", tmp_path / "rows.tsv", "--text", "text", "--label", "label")
    arguments = (tmp_path / "out", *table, "--from", entry.folder, "--max-tokens", 16, "--epochs", 1, "--seeds", 1, 3)
    lines = lines_of("seeds.py", *arguments)
    table = [line.split(" | ") for line in lines if line.startswith(("| seed", "| mean", "| standard", "| averaged"))]
    names, accuracies = [row[0] for row in table], [float(row[1]) for row in table]
    assert names == ["| seed 1", "| seed 3", "| mean", "| standard deviation", "| averaged weights, in float16"]
    assert accuracies[2] == pytest.approx((accuracies[0] + accuracies[1]) / 2, abs=0.01)
    average, first, second = (load_entry(tmp_path / "out" / name) for name in ("average", "seed_1", "seed_3"))
    assert average.entry.config["weights_dtype"] == "float16"
    assert average.entry.metrics["seeds"] == [1, 3]
    for weight, a, b in zip(*(one.model.get_weights() for one in (average, first, second)), strict=True):
        np.testing.assert_allclose(weight, (a + b) / 2, rtol=1e-3, atol=1e-6)
    assert "## By seed" in (tmp_path / "out" / "average" / "CARD.md").read_text()


@pytest.mark.thorough
def test_labels_of_a_linear_teacher(tmp_path):
    pairs = [
        (f"such a {word} film number {n}", mood)
        for n in range(20)
        for word, mood in (("fine", "good"), ("dull", "bad"))
    ]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *map("\t".join, pairs)]))
    (tmp_path / "test.tsv").write_text("text\tlabel\na dull test\tbad\n")
    (tmp_path / "texts").write_text(f"a fine film\na dull test\na dull film\n{pairs[0][0]}\nnothing known\n")
    tables = (tmp_path / "train.tsv", tmp_path / "texts", "--without", tmp_path / "test.tsv")
    (line,) = lines_of("label_by_words.py", *tables, "--out", tmp_path / "out.tsv")
    assert line.endswith("2 of 3 texts labelled")
    assert (tmp_path / "out.tsv").read_text() == "text\tlabel\na fine film\tgood\na dull film\tbad\n"


@pytest.mark.thorough
def test_pairs_of_sentences_made_of_prose(tmp_path):
    animals = ("cat", "dog", "horse", "bird", "mouse", "sheep", "whale")
    lines = [f'After the long winter, the old {animal} of "our" {animal} house ran to the river.' for animal in animals]
    (tmp_path / "prose").write_text("A title\n" + "\n".join(lines) + "\n\n" + " ".join(lines) + "\n\nToo short.\n")
    (line,) = lines_of("sentence_pairs.py", tmp_path / "prose", "--out", tmp_path / "pairs.tsv")
    header, *rows = [line.split("\t") for line in (tmp_path / "pairs.tsv").read_text().splitlines()]
    assert header == ["text_a", "text_b", "label"]
    assert line == f"{len(rows)} pairs, {sum(row[2] == 'same' for row in rows)} of them the same"
    assert {row[2] for row in rows} == {"same", "different"}
    assert all(row[0] in lines or row[1] in lines for row in rows)
    assert all(row[0] != row[1] for row in rows if row[2] == "different")
    lines_of("sentence_pairs.py", tmp_path / "prose", "--out", tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_text() == (tmp_path / "pairs.tsv").read_text()


@pytest.mark.thorough
def test_pairs_that_do_not_belong_together(tmp_path):
    pairs = [(f'he said "a {n}"', f"a {n}, he said", ("same", "different")[n % 5 == 0]) for n in range(20)]
    (tmp_path / "pairs.tsv").write_text("\n".join(map("\t".join, [("text_a", "text_b", "label"), *pairs])))
    flags = ("--label-of-them", "different", "--count", 7, "--out", tmp_path / "mixed.tsv")
    (line,) = lines_of("mismatched_pairs.py", tmp_path / "pairs.tsv", *flags)
    assert line.endswith("7 pairs added")
    header, *rows = [tuple(line.split("\t")) for line in (tmp_path / "mixed.tsv").read_text().splitlines()]
    assert header == ("text_a", "text_b", "label")
    added = [row for row in rows if row not in pairs]
    assert len(rows) == 27
    assert sorted(set(rows) - set(added)) == sorted(pairs)
    assert len(added) == 7
    assert all(label == "different" for *_, label in added)
    assert {row[0] for row in added} <= {pair[0] for pair in pairs}


def test_tables_too_small_for_a_tool_are_errors_of_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "pair.tsv").write_text("text_a\ttext_b\tlabel\na\tb\tsame\n")
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tgood\nb\tbad\n")
    (tmp_path / "texts").write_text("a\nb\n")
    train = (tmp_path / "train.tsv", tmp_path / "texts", "--out", tmp_path / "out")
    given = {
        "label_by_words.py": (train, "has no text that is not in"),
        "mismatched_pairs.py": (
            (tmp_path / "pair.tsv", "--label-of-them", "same", "--out", tmp_path / "out"),
            "has one row. Expected: at least two",
        ),
    }
    for name, (arguments, message) in given.items():
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(TOOLS / name), run_name="__main__")
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
        monkeypatch.setattr(sys, "argv", [*sys.argv, "--debug"])
        with pytest.raises(UserError, match=message):
            runpy.run_path(str(TOOLS / name), run_name="__main__")


def test_closest_of_hypotheses(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    from closest_answers import closest

    assert closest("A dog runs fast.", ["A cat sits.", "A dog runs.", "Dogs."])[0] == "A dog runs."
    assert closest("A dog.", ["A dog.", "A dog."]) == ("A dog.", pytest.approx(100))
    assert closest("A dog.", ["no", "nothing"])[0] == "no"


@pytest.mark.thorough
def test_answers_closest_to_the_reference(tmp_path):
    (tmp_path / "dates").write_text("le 14 juillet 1989\n3. März 2021\n\n")
    (tmp_path / "iso").write_text("1989-07-14\n2021-03-09\n1999-09-09\n")
    flags = ("--models", "rnn_attention_dates", "--beam", 2, "--out", tmp_path / "out.tsv")
    (line,) = lines_of("closest_answers.py", tmp_path / "dates", tmp_path / "iso", *flags)
    assert line.startswith("2 of 3 pairs, mean BLEU of a sentence ")
    first, second = (tmp_path / "out.tsv").read_text().splitlines()
    assert first == "le 14 juillet 1989\t1989-07-14"
    assert second.startswith("3. März 2021\t2021-0")
    (tmp_path / "texts").write_text("Bastille\na birthday\nnothing\n")
    lines_of("closest_answers.py", tmp_path / "dates", tmp_path / "iso", *flags, "--as_source_of", tmp_path / "texts")
    assert (tmp_path / "out.tsv").read_text().splitlines()[0] == "1989-07-14\tBastille"


@pytest.mark.thorough
def test_the_mean_of_translators(tmp_path):
    for seed in (1, 2):
        write_tiny_entry(tmp_path / f"seed_{seed}", tiny_parts(seed=seed))
    pairs = "".join(f"A dog runs {i}.\t2023-12-0{i % 10}\n" for i in range(100))
    (tmp_path / "pairs.tsv").write_text(pairs)
    folders = (tmp_path / "seed_1", tmp_path / "seed_2")
    table = lines_of("average_translators.py", *folders, "--data", tmp_path / "pairs.tsv", "--out", tmp_path / "mean")
    names = [line.split("|")[1].strip() for line in table][2:]
    assert names == ["seed 3, 5"] * 2 + ["mean", "standard deviation", "averaged weights, in float16"]
    entry, model, _ = load_entry(tmp_path / "mean")
    assert entry.metrics["command"].startswith(METRICS["command"] + "\npython ")
    assert entry.config["low_score_threshold"] < 0
    assert entry.metrics["low_score"]["share"] == 0.05
    members = [load_entry(folder).model.weights for folder in folders]
    for weight, *others in zip(model.weights, *members, strict=True):
        mean = np.mean([other.numpy() for other in others], axis=0, dtype="float64").astype("float16")
        np.testing.assert_array_equal(weight.numpy(), mean)


@pytest.mark.thorough
def test_only_models_from_one_start_have_a_mean(tmp_path):
    write_tiny_entry(tmp_path / "tiny", tiny_parts())
    script = TOOLS / "average_translators.py"
    for names in [("rnn_attention_dates", tmp_path / "tiny"), ("rnn_attention_dates",)]:
        command = [sys.executable, script, *names, "--data", "dates", "--out", tmp_path / "mean"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert "from one start" in done.stderr
        assert not (tmp_path / "mean").exists()


@pytest.mark.thorough
def test_language_models_of_equal_size(tmp_path):
    (tmp_path / "text.txt").write_text("To be, or not to be: that is the question.\n\n" * 300, encoding="utf-8")
    sizes = ("--minutes", 0.01, "--parameters", 9000, "--context", 16, "--rows", 4, "--level", "char")
    lines = lines_of(
        "language_models.py",
        *sizes,
        "--text",
        tmp_path / "text.txt",
        "--kinds",
        "lstm",
        "--write",
        tmp_path / "one.json",
    )
    assert any(
        re.search(r"^\| LSTM \| \d\.\d+ \| [\d,]+ \| [\d,]+ \| [\d,]+ \| [\d,]+ \| n \| n \|$", line) for line in lines
    )
    actual = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))["results"]["lstm"]
    assert len(actual["loss by position"]) == 16
    assert abs(actual["parameters"] / 9000 - 1) < 0.25
    assert (tmp_path / "one.png").stat().st_size > 1000


def test_all_phrases_of_a_tree_are_read(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from recurrent_classifiers import phrases

    actual = phrases("(3 (2 It) (4 (2 really) (3 works)))")
    expected = [(2, "it"), (2, "really"), (3, "works"), (4, "really works"), (3, "it really works")]
    assert [(label, " ".join(words)) for label, words in actual] == expected
    for line in ("(3 (2 It)", "It works", "(x It)"):
        with pytest.raises(UserError, match=r"Not a tree: .* Expected: \(3 \(2 It\) \(4 works\)\)"):
            phrases(line)


def test_recurrent_classifiers_know_the_words_that_have_a_vector(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from recurrent_classifiers import known_words

    train, held_out, test = ([[(2, words.split())]] for words in ("it works it", "well works rare", "often strange"))
    trees = [*train, *held_out]
    assert known_words(trees, train, test, None) == ["it"]
    vectors = WordVectors(["works", "well", "often", "elsewhere"], np.ones((4, 3), "float32"))
    assert known_words(trees, train, test, vectors) == ["it", "often", "well", "works"]


def test_recurrent_classifiers_go_on_after_the_last_result(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import recurrent_classifiers

    (tmp_path / "trees.txt").write_text("(3 (2 It) (4 works))\n", encoding="utf-8")
    (tmp_path / "vectors.txt").write_text("it 1 2 3\n", encoding="utf-8")
    trained = []

    def run(kind, seed, data, options):
        trained.append((kind, seed, len(data[2])))
        return {"accuracy": 40.0 + seed, "parameters": 1234}

    monkeypatch.setattr(recurrent_classifiers, "run", run)
    names = {"train": "trees.txt", "test": "trees.txt", "vectors": "vectors.txt", "out": "results.json"}
    files = [word for name, file in names.items() for word in (f"--{name}", str(tmp_path / file))]
    recurrent_classifiers.main([*files, "--seeds", "1", "--cells", "lstm"])
    recurrent_classifiers.main([*files, "--seeds", "1", "2"])
    assert trained == [("lstm", 1, 1), ("lstmn", 1, 1), ("lstm", 2, 1), ("lstmn", 2, 1)]
    assert "lstm: accuracy 41.5 (41.0 to 42.0), of each seed 41.0, 42.0; 1,234 parameters" in capsys.readouterr().out
    with pytest.raises(UserError, match="has results with epochs=5; the command has epochs=7"):
        recurrent_classifiers.main([*files, "--epochs", "7"])


@pytest.mark.slow
def test_recurrent_classifiers_start_from_word_vectors(tmp_path):
    trees = "(3 (2 It) (4 (4 works) (2 well)))\n(1 (2 It) (0 (0 fails) (2 often)))\n" * 5
    (tmp_path / "trees.txt").write_text(trees, encoding="utf-8")
    (tmp_path / "vectors.txt").write_text("it 1 2 3\nworks 0 0 1\n", encoding="utf-8")
    files = ("--train", tmp_path / "trees.txt", "--test", tmp_path / "trees.txt", "--vectors", tmp_path / "vectors.txt")
    sizes = ("--seeds", 1, "--width", 7, "--epochs", 1, "--rows", 16, "--cells", "lstm")
    _, line, _ = lines_of("recurrent_classifiers.py", *files, *sizes)
    assert "words 5, parameters " in line
    assert line.endswith("words with a vector 2")


@pytest.mark.thorough
def test_a_recurrent_classifier_learns(tmp_path):
    trees = "(3 (2 It) (4 (4 works) (2 well)))\n(1 (2 It) (0 (0 fails) (2 often)))\n" * 20
    (tmp_path / "trees.txt").write_text(trees, encoding="utf-8")
    files = ("--train", tmp_path / "trees.txt", "--test", tmp_path / "trees.txt", "--seeds", 1, "--width", 7)
    training = ("--epochs", 15, "--rate", 3e-2, "--dropout", 0, "--rows", 16)
    picture = tmp_path / "links.png"
    first, _, last = lines_of("recurrent_classifiers.py", *files, *training, "--cells", "lstmn", "--picture", picture)
    assert picture.stat().st_size > 1000
    assert first == "40 training sentences, 200 phrases, 40 test sentences"
    assert last.startswith("lstmn: accuracy 100.0, of each seed 100.0; ")
