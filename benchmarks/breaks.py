"""The mistakes that `break_code.py` makes, one line each, and the tests that should notice."""

from typing import NamedTuple


class Break(NamedTuple):
    """One mistake.

    Attributes:
        room: str, the part of the package.
        what: str, the mistake in words.
        old: str, the text that is replaced. It stands once in package and recipes, or is the first after `after`.
        new: str, what it becomes.
        tests: str, arguments of pytest.
        after: str, a text that stands in one file before `old`, where `old` alone stands several times.
    """

    room: str
    what: str
    old: str
    new: str
    tests: str
    after: str = ""


def _breaks(room, *rows):
    return [Break(room, *row) for row in rows]


DECODING = _breaks(
    "decoding",
    (
        "the length penalty has another exponent",
        "/ 6.0, alpha)",
        "/ 6.0, 2.0 * alpha)",
        "tests/decoding/test_penalties.py tests/decoding/test_beam_search.py",
    ),
    (
        "padding of the source counts as uncovered",
        "ops.sum(ops.where(source_mask, logs, 0.0), axis=-1)",
        "ops.sum(logs, axis=-1)",
        "tests/decoding/test_penalties.py tests/decoding/test_beam_search.py",
    ),
    (
        "the length of a hypothesis does not count END",
        "lengths=ops.broadcast_to(length, ended.shape)",
        "lengths=ops.broadcast_to(beams.index, ended.shape)",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "the search stops too early with a length penalty",
        "return log_probs / length_penalty(limits, self.alpha)",
        "return log_probs",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "the minimum length is off by one",
        "ops.where(length < min_length, NOTHING, ended)",
        "ops.where(length <= min_length, NOTHING, ended)",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "states do not follow their beams",
        "return beams, take_sequences(state, ops.reshape(first_places + parents, (-1,)))",
        "return beams, state",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "a finished sentence goes on being written",
        "token_ids=keep(old.token_ids, new.token_ids)",
        "token_ids=new.token_ids",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "hypotheses that were cut fill the wrong places",
        "ops.where(slots < ended, slots, n_best + slots - ended)",
        "ops.where(slots < ended, slots, n_best + slots)",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "the patience of the search is off by one",
        "ops.logical_or(done, count >= enough)",
        "ops.logical_or(done, count > enough)",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "equal hypotheses go to the later beam",
        "ops.logical_or(other_beam < this_beam, same_beam_first)",
        "ops.logical_or(other_beam > this_beam, same_beam_first)",
        "tests/decoding/test_beam_search.py",
    ),
    (
        "the unknown token may be generated",
        "return [start_id, pad_id] if unknown_id is None else [start_id, pad_id, unknown_id]",
        "return [start_id, pad_id]",
        "tests/decoding/test_beam_search.py tests/decoding/test_greedy.py",
    ),
    (
        "greedy search writes one token too many",
        "lengths >= limits))",
        "lengths > limits))",
        "tests/decoding/test_greedy.py",
    ),
    (
        "greedy search adds the log probability of padding",
        "ops.where(done, log_probs, log_probs + gained)",
        "log_probs + gained",
        "tests/decoding/test_greedy.py",
    ),
    (
        "temperature multiplies",
        "logits = logits / temperature",
        "logits = logits * temperature",
        "tests/decoding/test_sampling.py",
    ),
    (
        "the nucleus loses its last token",
        "ops.where(logits >= enough, logits",
        "ops.where(logits > enough, logits",
        "tests/decoding/test_sampling.py",
    ),
    (
        "every step draws the same random number",
        "ops.broadcast_to(_word(index), sentence_keys.shape)",
        "ops.broadcast_to(_word(0), sentence_keys.shape)",
        "tests/decoding/test_sampling.py",
    ),
    (
        "top-k forgets which tokens it kept",
        "if ids is not None:",
        "if ids is None and top_k:",
        "tests/decoding/test_sampling.py",
    ),
    (
        "the last, shorter block of a long list is not searched",
        "if full * size < columns:",
        "if full * size < columns - size:",
        "tests/decoding/test_top_tokens.py",
    ),
    (
        "an excluded token makes its block win",
        "ops.where(numbers == number, ops.max(allowed, axis=-1, keepdims=True), maxima)",
        "ops.where(numbers == -1, ops.max(allowed, axis=-1, keepdims=True), maxima)",
        "tests/decoding/test_top_tokens.py",
    ),
)

TRAINING = _breaks(
    "training",
    (
        "label smoothing sums over the vocabulary",
        "loss - label_smoothing * ops.mean(logits, axis=-1)",
        "loss - label_smoothing * ops.sum(logits, axis=-1)",
        "tests/training/test_objective.py",
    ),
    (
        "padding counts in the loss",
        "return ops.sum(ops.where(real, loss, 0.0)), _count(real)",
        "return ops.sum(loss), _count(real)",
        "tests/training/test_objective.py",
    ),
    (
        "weighted classes are divided by rows",
        "return Loss(ops.sum(counts * losses), ops.sum(counts), correct)",
        "return Loss(ops.sum(counts * losses), _count(real), correct)",
        "tests/training/test_objective.py",
    ),
    (
        "the relations of values are not scaled",
        "values, values) / values.shape[-1] ** 0.5",
        "values, values)",
        "tests/training/test_distillation_losses.py",
    ),
    (
        "predictions at padding are distilled",
        "ops.sum(ops.where(real, divergence, 0.0)) / ops.maximum(_count(real), 1.0)",
        "ops.mean(divergence)",
        "tests/training/test_distillation_losses.py",
    ),
    (
        "early stopping waits one validation longer",
        "self.waited >= self.patience",
        "self.waited > self.patience",
        "tests/training/test_history.py",
    ),
    (
        "a loss is maximized",
        'mode = mode or ("min" if monitor.endswith("loss") else "max")',
        'mode = mode or "max"',
        "tests/training/test_history.py",
    ),
    (
        "a resumed training forgets how long it waited",
        'self.best, self.best_epoch, self.waited = state["best"], state["best_epoch"], state["waited"]',
        'self.best, self.best_epoch = state["best"], state["best_epoch"]',
        "tests/training/test_history.py tests/training/test_session.py",
    ),
    (
        "the average divides by the number asked for",
        'np.mean(arrays, axis=0, dtype="float64")',
        'np.sum(arrays, axis=0, dtype="float64") / self.count',
        "tests/training/test_optim.py",
    ),
    (
        "the average is over one epoch more",
        "copy_weights(model)][-self.count :]",
        "copy_weights(model)][-self.count - 1 :]",
        "tests/training/test_optim.py",
    ),
    (
        "validation leaves the averaged weights behind",
        "    finally:\n        assign_weights(model, own)",
        "    finally:\n        pass",
        "tests/training/test_optim.py",
    ),
    (
        "a resumed training has fresh optimizer slots",
        'for group, variables in (("model", _unique(model.variables)), ("optimizer", optimizer.variables)):',
        'for group, variables in (("model", _unique(model.variables)),):',
        "tests/training/test_session.py -k resume_is_exact",
        "def restore(model, optimizer, arrays):",
    ),
    (
        "a resumed training forgets its early stopping",
        'self.stopping.restore(state["stopping"])',
        "pass",
        "tests/training/test_session.py -k resume_is_exact",
    ),
    (
        "a training resumes with other settings",
        "if saved.get(name) != now.get(name):",
        "if saved.get(name) != saved.get(name):",
        "tests/training/test_session.py -k another_setting",
    ),
    (
        "the hash of a checkpoint is not compared",
        'if facts["sha256"] != sha256:',
        "if not sha256:",
        "tests/training/test_checkpoints.py",
    ),
    (
        "one checkpoint too many is kept",
        "behind[-keep:]",
        "behind[-keep - 1 :]",
        "tests/training/test_checkpoints.py",
    ),
    (
        "small gradients are scaled up",
        "clip_norm / ops.maximum(norm, clip_norm)",
        "clip_norm / norm",
        "tests/training/test_update.py -k gradient_descent",
    ),
    (
        "an infinite gradient is applied",
        "may_apply = tf.logical_and(may_apply, tf.math.is_finite(norm))",
        "pass",
        "tests/training/test_update.py -k not_finite",
    ),
    (
        "R-Drop has twice its weight",
        "r_drop / 2 * symmetric_divergence",
        "r_drop * symmetric_divergence",
        "tests/training/test_update.py -k divergence_of_two",
        '"""Translate with the Transformer',
    ),
    (
        "no dropout in training",
        "logits = model(inputs, training=True)",
        "logits = model(inputs, training=False)",
        "tests/training/test_update.py -k divergence_of_two",
        '"""Translate with the Transformer',
    ),
    (
        "the inverse square root counts updates from 0",
        'number = ops.cast(step, "float32") + 1.0',
        'number = ops.cast(step, "float32")',
        "tests/training/test_optim.py",
        "class InverseSquareRoot",
    ),
    (
        "a short training never leaves its warm-up",
        "max(1, min(warmup_steps, total_steps // 2))",
        "max(1, min(warmup_steps, total_steps - 1))",
        "tests/training/test_optim.py",
    ),
    (
        "lower layers learn faster than upper ones",
        "decay ** (depth - i)",
        "decay ** (i + 1)",
        "tests/training/test_optim.py",
    ),
    (
        "an epoch gets the number of the one before",
        "self.number = session.progress.epoch + 1",
        "self.number = session.progress.epoch",
        "tests/training/test_session.py -k second_epoch",
    ),
    (
        "scores of a validation stay for the next epochs",
        "self._scores = {}\n        progress.history",
        "progress.history",
        "tests/training/test_session.py -k second_epoch",
    ),
    (
        "the best epoch is counted from 0",
        "self.stopping.update(self._scores, self.progress.epoch + 1)",
        "self.stopping.update(self._scores, self.progress.epoch)",
        "tests/training/test_session.py -k patience",
    ),
    (
        "accumulated parts are averaged without their weights",
        'weight * tf.cast(tf.reshape(tf.convert_to_tensor(x), [-1]), "float32")',
        'tf.cast(tf.reshape(tf.convert_to_tensor(x), [-1]), "float32")',
        "tests/training/test_update.py -k accumulated",
    ),
    (
        "Muon folds the heads of a kernel into the wrong side",
        "return inputs[0], inputs[1] * outputs",
        "return inputs[0] * inputs[1], outputs",
        "tests/training/test_muon.py",
    ),
    (
        "Muon has no momentum",
        "ops.add(gradient, m * (self.momentum - 1))",
        "ops.subtract(gradient, m)",
        "tests/training/test_muon.py",
    ),
    (
        "the n-grams of Kneser and Ney have one discount",
        "taken = discounts[np.minimum(counts, 3)]",
        "taken = discounts[np.minimum(counts, 1)]",
        "tests/recipes/tools/test_kneser_ney.py",
    ),
)

ZOO = _breaks(
    "zoo",
    (
        "the hash of a file is not compared",
        'if _sha256(folder / name) != expected[name]["sha256"]:',
        'if not expected[name]["sha256"]:',
        "tests/zoo/test_manifest.py",
    ),
    (
        "a file may be larger than the manifest says",
        'if size != expected[name]["size"]:',
        'if size < expected[name]["size"]:',
        "tests/zoo/test_manifest.py",
    ),
    (
        "a file that the manifest lacks is accepted",
        "for name in sorted(found.keys() - expected.keys()):",
        "for name in sorted(expected.keys() - found.keys()):",
        "tests/zoo/test_manifest.py",
        "def verify_files",
    ),
    (
        "symbolic links are followed",
        "status = os.lstat(path)",
        "status = os.stat(path)",
        "tests/zoo/test_manifest.py",
    ),
    (
        "weights may be NaN",
        "    if not np.isfinite(values).all():",
        "    if np.isinf(values).any():",
        "tests/zoo/test_weights_file.py",
        "values = dataset[()]",
    ),
    (
        "compressed weights may hold more integers than the model has",
        "if not least <= len(content) <= most or not inflate.eof or inflate.unused_data:",
        "if len(content) < least:",
        "tests/zoo/test_weights_file.py",
    ),
    (
        "the scale of a large number serves its whole slice",
        "(one for one in found if one[0] <= SIMILAR_ERROR * least)",
        "found",
        "tests/zoo/test_weights_file.py",
    ),
    (
        "weights may have another dtype",
        "if found not in allowed:",
        "if found[0] not in [shape for shape, _ in allowed]:",
        "tests/zoo/test_weights_file.py",
    ),
    (
        "a weight that the model lacks is accepted",
        "for name in sorted(set(file) - set(expected)):",
        "for name in sorted(set(expected) - set(file)):",
        "tests/zoo/test_weights_file.py",
    ),
    (
        "a small file may ask for a large model",
        "if asked > 2 * stored + 65536 or stored",
        "if asked > 2 * stored + 65536 and stored",
        "tests/zoo/test_hostile_entries.py",
    ),
    (
        "any number of parameters is allowed",
        "if parameters > MAX_PARAMETERS:",
        "if parameters < 0:",
        "tests/zoo/test_schema.py",
    ),
    (
        "sizes in config.json have no upper bound",
        "type(value) is int and low <= value <= high)",
        "type(value) is int and low <= value)",
        "tests/zoo/test_schema.py",
    ),
    (
        "a tokenizer may have fewer ids than the model",
        "if tokenizer.vocabulary_size != size:",
        "if tokenizer.vocabulary_size > size:",
        "tests/zoo/test_archive.py -k does_not_fit",
    ),
    (
        "a key may stand twice in JSON",
        "if len(value) < len(pairs):",
        "if len(value) > len(pairs):",
        "tests/zoo/test_manifest.py",
    ),
    (
        "the last zoo with a name wins",
        "entries.setdefault(manifest.parent.name, manifest.parent)",
        "entries[manifest.parent.name] = manifest.parent",
        "tests/zoo/test_registry.py",
    ),
    (
        "a widened network computes something else",
        "further * (part != OUTWARD)",
        "further",
        "tests/zoo/test_warm_start.py",
    ),
)

DATA = _breaks(
    "data",
    (
        "the decoder sees the label that it must predict",
        "target_ids = np.roll(labels, 1, axis=1)",
        "target_ids = np.roll(labels, 0, axis=1)",
        "tests/data/test_batches.py",
    ),
    (
        "the order of the batches does not depend on the seed",
        "np.random.PCG64([self.seed, epoch])",
        "np.random.PCG64([0, epoch])",
        "tests/data/test_batches.py",
        "class BucketedBatches",
    ),
    (
        "every epoch has the same order",
        "np.random.PCG64([self.seed, epoch])",
        "np.random.PCG64([self.seed])",
        "tests/data/test_classification_batches.py",
        "class ClassificationBatches",
    ),
    (
        "sequences that do not fill a batch are lost",
        "if len(waiting):",
        "if len(waiting) > self.rows_per_batch:",
        "tests/data/test_classification_batches.py",
    ),
    (
        "cut sentences have no END",
        "for part in (sequence[: max_tokens - 1], end)]",
        "for part in (sequence[:max_tokens], end)]",
        "tests/data/translation/test_parallel_corpus.py",
    ),
    (
        "masked pieces are never replaced by random ones",
        "np.where(share < MASKED + RANDOM, drawn, pieces)",
        "np.where(share < MASKED, drawn, pieces)",
        "tests/data/prose/test_masked_lm.py",
    ),
    (
        "[CLS] and [SEP] are masked too",
        "candidates = ~self.is_special[token_ids] & allowed",
        "candidates = (token_ids != 0) & allowed",
        "tests/data/prose/test_masked_lm.py",
    ),
    (
        "the teacher sees the tokens that are hidden from the student",
        "self.batches.kept[token_ids[rows, columns]]",
        "self.batches.kept[masked_ids[masked_ids > 0]]",
        "tests/data/prose/test_distillation.py",
    ),
    (
        "the masks are the same in every epoch",
        "np.random.PCG64([batches.seed, self.epoch, index",
        "np.random.PCG64([batches.seed, 0, index",
        "tests/data/prose/test_masked_lm.py",
    ),
    (
        "packed texts may attend to each other",
        "filled(np.repeat(blocks, lengths))",
        "filled(np.repeat(blocks * 0 + 1, lengths))",
        "tests/data/prose/test_packed_text.py",
    ),
    (
        "the first [SEP] belongs to the second text",
        "segment_ids[number, len(first) + 2 : len(text)] = 1",
        "segment_ids[number, len(first) + 1 : len(text)] = 1",
        "tests/data/prose/test_sentence_pairs.py",
    ),
    (
        "the other sentence may come from the same document",
        "documents[(number + 1 + _below(generator, len(documents) - 1)) % len(documents)]",
        "documents[_below(generator, len(documents))]",
        "tests/data/prose/test_sentence_pairs.py",
    ),
    (
        "the same text is trained on and validated with",
        "_group_numbers(range(len(targets)) if texts is None else texts)",
        "_group_numbers(range(len(targets)))",
        "tests/data/tables/test_split.py",
    ),
    (
        "numbers that name classes are sorted as words",
        "sorted(names, key=float) if",
        "sorted(names) if",
        "tests/data/tables/test_label_task.py",
    ),
    (
        "bad rows are skipped unasked",
        "elif skip_bad_rows and fault.skippable:",
        "elif fault.skippable:",
        "tests/data/tables/test_table.py tests/data/tables/test_bad_tables.py",
    ),
    (
        "a byte order mark sticks to the first key",
        'position = 3 if content.startswith(b"\\xef\\xbb\\xbf") else 0',
        "position = 0",
        "tests/data/tables/test_table.py tests/data/tables/test_bad_tables.py",
        "def json_rows",
    ),
    (
        "the model is tested on days that it was trained on",
        'generate_dates(test_size, seed, "test")',
        "generate_dates(test_size, seed)",
        "tests/data/test_dates.py -k sizes_of_splits",
    ),
)

FINETUNING = _breaks(
    "finetuning",
    (
        "sentence encoders read pairs as one sequence",
        '(pairs == "auto" and of_sentences)',
        '(pairs == "auto" and not of_sentences)',
        "tests/finetuning/test_pairs.py -k compared",
    ),
    (
        "the linear start takes other weights for the labels of a row",
        "np.where(yes, weights, 1.0)[:, columns]",
        "np.where(yes, 1.0, weights)[:, columns]",
        "tests/finetuning/test_linear_start.py -k each_label",
    ),
    (
        "the linear start regularizes more with a larger inverse strength",
        "decay = mean / strength",
        "decay = mean * strength",
        "tests/finetuning/test_linear_start.py -k each_label",
    ),
    (
        "rare classes count less",
        "len(targets) / (len(counts) * np.maximum(counts, 1))",
        "np.maximum(counts, 1) / len(targets)",
        "tests/finetuning/test_workflow.py -k weights_of_rare",
    ),
    (
        "predicted numbers are not moved back to their mean",
        "dense.bias * spread + center",
        "dense.bias * spread",
        "tests/finetuning/test_workflow.py -k numbers_are_learned",
    ),
    (
        "biases and norms decay",
        "if len(v.shape) < 2]",
        "if len(v.shape) < 1]",
        "tests/finetuning/test_fitting.py",
        "def fit_classifier(",
    ),
    (
        "embeddings learn as fast as the top layer",
        "return [embeddings, *(layer.trainable_variables",
        "return [*(layer.trainable_variables",
        "tests/finetuning/test_fitting.py",
    ),
    (
        "the last epoch is kept instead of the best",
        '"patience": settings.patience, "restore_best": True}',
        '"patience": settings.patience, "restore_best": False}',
        "tests/finetuning/test_fitting.py",
        "def fit_classifier(",
    ),
    (
        "the worst mix of initial and trained weights is kept",
        "best = int(np.argmin(costs))",
        "best = int(np.argmax(costs))",
        "tests/finetuning/test_fitting.py",
    ),
    (
        "mixing disturbs the training",
        "with averaged_weights(model, mixed):",
        "if assign_weights(model, mixed) is None:",
        "tests/finetuning/test_fitting.py",
    ),
    (
        "the strength of the linear start is chosen by few rows alone",
        "+ (_surprise(strength) if",
        "+ (0.0 if",
        "tests/finetuning/test_linear_start.py",
    ),
    (
        "the pre-trained encoder is not used",
        "    if encoder is not None:\n        model",
        "    if encoder is None:\n        model",
        "tests/finetuning/test_workflow.py -k starts_from_the_encoder",
        "def starting_classifier",
    ),
    (
        "thresholds of a multilabel task are not fitted",
        'classifier.task["threshold"] = measures.best_thresholds(held.validation_targets, probabilities)',
        "measures.best_thresholds(held.validation_targets, probabilities)",
        "tests/finetuning/test_workflow.py -k thresholds_of_several",
    ),
    (
        "every training splits and starts by the same seed",
        "keras.utils.set_random_seed(settings.seed)",
        "keras.utils.set_random_seed(1)",
        "tests/finetuning/test_workflow.py -k the_seed_decides",
    ),
    (
        "no dropout while fine-tuning",
        "loss_of_logits(labels, model(inputs, training=True)",
        "loss_of_logits(labels, model(inputs, training=False)",
        "tests/finetuning/test_fitting.py -k dropout",
    ),
    (
        "the confusion matrix is transposed",
        "np.add.at(confusion, (targets, found.chosen), 1)",
        "np.add.at(confusion, (found.chosen, targets), 1)",
        "tests/finetuning/test_report.py",
    ),
    (
        "macro-F1 is weighted by the rows of a class",
        'f1_score(targets, found.chosen, average="macro", zero_division=0)',
        'f1_score(targets, found.chosen, average="weighted", zero_division=0)',
        "tests/evaluation/test_classification_scores.py",
    ),
    (
        "few rows are trained on labels, too",
        "return (CONTRASTIVE,) if few and",
        "return (CONTRASTIVE,) if not few and",
        "tests/finetuning/test_contrastive.py -k stages",
    ),
    (
        "a row is its own twin",
        "steps = 1 + generator.random_raw(count)",
        "steps = generator.random_raw(count)",
        "tests/finetuning/test_contrastive.py",
    ),
    (
        "a text is compared with itself",
        'others = ops.logical_not(ops.cast(ops.eye(ops.shape(labels)[0]), "bool"))',
        'others = ops.ones((ops.shape(labels)[0],) * 2, "bool")',
        "tests/finetuning/test_contrastive.py -k loss",
    ),
    (
        "texts that only fill up a batch are compared",
        "others = ops.logical_and(others, ops.logical_and(real[:, None], real[None]))",
        "others = ops.logical_and(others, real[:, None])",
        "tests/finetuning/test_contrastive.py -k loss",
    ),
    (
        "the training on labels forgets the contrastive one",
        "    if first is None:\n        return result",
        "    if True:\n        return result",
        "tests/finetuning/test_contrastive.py",
    ),
    (
        "LoRA freezes no weight of the encoder",
        "        weight.trainable = False\n    for projection",
        "        pass\n    for projection",
        "tests/finetuning/test_lora.py",
    ),
    (
        "a search does not begin with the defaults",
        "        study.enqueue_trial(defaults)",
        "        pass",
        "tests/finetuning/test_search.py",
    ),
    (
        "a trial goes on from the weights of the one before",
        "        model.set_weights(began)\n",
        "",
        "tests/finetuning/test_search.py",
    ),
)

PIPELINES = _breaks(
    "pipelines",
    (
        "dropout while classifying",
        "lambda inputs: model(inputs, training=False), max_tokens",
        "lambda inputs: model(inputs, training=True), max_tokens",
        "tests/pipelines/test_classifier.py",
        "class Classifier(",
    ),
    (
        "a threshold that is given is ignored",
        'self.task["threshold"] if threshold is None else threshold',
        'self.task["threshold"]',
        "tests/pipelines/test_classifier.py",
    ),
    (
        "only the first part of a long text is judged",
        "np.mean(found[first : first + len(some)], axis=0)",
        "found[first]",
        "tests/pipelines/test_classifier.py tests/pipelines/test_text_sequences.py",
    ),
    (
        "sequences are one token too long",
        "room = max_tokens - 1 - len(parts)",
        "room = max_tokens - len(parts)",
        "tests/pipelines/test_text_sequences.py",
    ),
    (
        "[SEP] behind the second text has segment 0",
        "segments += [segment] * (length + 1)",
        "segments += [segment] * length + [0]",
        "tests/pipelines/test_text_sequences.py",
    ),
    (
        "the mean vector of a text includes its padding",
        "output[: len(sequence.token_ids)] for sequence",
        "output for sequence",
        "tests/pipelines/test_mask_filler.py",
    ),
    (
        "attention belongs to the next token",
        "length)[:, :-1]], axis=1)  # (B * N, L)",
        "length)[:, 1:]], axis=1)  # (B * N, L)",
        "tests/pipelines/test_translator.py tests/pipelines/test_transformer_entry.py",
    ),
    (
        "an answer may be longer than the setting",
        'max(1, min(decoding["max_length"], ratio_limit))',
        "max(1, ratio_limit)",
        "tests/pipelines/test_static_shapes.py tests/pipelines/test_translator.py",
    ),
    (
        "long answers are doubted for their length",
        "log_prob / len(ids) < threshold",
        "log_prob < threshold",
        "tests/pipelines/test_translator.py",
    ),
    (
        "weights of 8 bits are asked for and not stored",
        'if file_format == "onnx" and int8:',
        "if False:",
        "tests/export/test_runtimes.py",
    ),
    (
        "the attention view of a long text shows its beginning",
        "kept = ids[-self.window :]",
        "kept = ids[: self.window]",
        "tests/pipelines/test_text_generator.py -k attention",
    ),
)

MODELS = _breaks(
    "models",
    (
        "tied logits of a quantized model are computed with its integers",
        "    return embedding(ops.arange(embedding.input_dim))",
        "    return embedding.embeddings",
        "tests/models/test_plain_keras.py -k 'quantized and gpt and int8'",
    ),
    (
        "a saved model forgets which layers are quantized",
        "        if policies:",
        "        if not policies:",
        "tests/models/test_plain_keras.py -k 'quantized and gpt and int8'",
    ),
    (
        "the second of two compared texts has no [CLS]",
        "ops.where(places < begin, places, 0)",
        "ops.where(places < begin, places, 1)",
        "tests/models/test_bert_pairs.py",
    ),
    (
        "the relations are those of the values before the norm",
        "value_projection(layer.self_attention_norm(x) if layer.normalize_first else x)",
        "value_projection(x)",
        "tests/models/test_distiller.py",
    ),
    (
        "the student's predictions are at the teacher's positions",
        'inputs.get("masked_positions")',
        'inputs.get("teacher_positions")',
        "tests/models/test_distiller.py",
        "class Distiller",
    ),
    (
        "the second text of a pair does not begin at position 0",
        "places - begin, places)",
        "places - begin + 1, places)",
        "tests/models/test_bert_pairs.py -k equations",
    ),
    (
        "the texts of a pair are compared with a sign",
        "ops.abs(u - v)",
        "(u - v)",
        "tests/models/test_bert_pairs.py -k equations",
    ),
    (
        "embeddings are not scaled",
        "position(embedding(token_ids) * self.hidden_dim**0.5)",
        "position(embedding(token_ids))",
        "tests/models/test_transformer.py tests/models/test_transformer_decoding.py",
    ),
    (
        "the decoder sees padding of the source",
        "encoder_padding_mask=source_mask",
        "encoder_padding_mask=None",
        "tests/models/test_transformer.py",
    ),
    (
        "every decoder step stands at position 0",
        "self.target_position(embedded, start=position)",
        "self.target_position(embedded, start=0)",
        "tests/models/test_transformer_decoding.py",
    ),
    (
        "the recurrent decoder attends to padding",
        'attention_mask=memory["mask"][:, None, :]',
        "attention_mask=None",
        "tests/models/test_seq2seq_properties.py",
    ),
    (
        "the mean of a text includes its padding",
        'ops.where(mask, ops.cast(x, "float32"), 0.0)',
        'ops.cast(x, "float32")',
        "tests/models/test_bert_properties.py tests/models/test_bert_equations.py",
    ),
    (
        "texts of one sequence attend to each other",
        'return {"padding_mask": is_token, "attention_mask": same_block}',
        'return {"padding_mask": is_token}',
        "tests/models/test_bert_properties.py",
    ),
    (
        "the convolutions of a language model do not dilate",
        "2 ** (i % dilation_cycle)",
        "1",
        "tests/models/test_convolutional_lm.py",
    ),
    (
        "a convolutional language model reads the padding before a beginning",
        "convolution.ring(found, mask)",
        "convolution.ring(found, ops.ones_like(mask))",
        "tests/models/test_causal_lm.py -k convolutional",
    ),
    (
        "a recurrent language model reads the last token of a beginning twice",
        "ops.logical_and(mask, ops.arange(length) < length - 1)",
        "mask",
        "tests/models/test_causal_lm.py -k lstm",
    ),
)

LAYERS = _breaks(
    "layers",
    (
        "the products of a quantized recurrent layer are computed with its integers",
        "    return dense(basis) - (0 if dense.bias is None else dense.bias)",
        "    return dense.kernel",
        "tests/models/test_plain_keras.py -k 'quantized and recurrent and int8'",
    ),
    (
        "scores are not scaled by the root of the width",
        "query / query.shape[-1] ** 0.5",
        "query / query.shape[-1]",
        "tests/layers/test_attention.py",
    ),
    (
        "a row with every key masked averages all values",
        "return ops.where(mask, weights, ops.zeros_like(weights))",
        "return weights",
        "tests/layers/test_attention.py tests/layers/test_every_attention_layer.py",
        "def masked_softmax",
    ),
    (
        "the causal mask lets a query see the next key",
        "query_positions >= ops.arange(num_keys)[None, :]",
        "query_positions + 1 >= ops.arange(num_keys)[None, :]",
        "tests/layers/test_masks.py",
    ),
    (
        "queries of a cache count from the first key",
        "+ (num_keys - num_queries)  # (T, 1)",
        "# (T, 1)",
        "tests/layers/test_masks.py",
        "def causal_mask",
    ),
    (
        "the mask of the values is ignored",
        "for mask in (value_mask, key_mask) if mask is not None]  # (B, 1, S)",
        "for mask in (key_mask,) if mask is not None]  # (B, 1, S)",
        "tests/layers/test_implicit_masks.py",
    ),
    (
        "dropout does not scale what it keeps",
        "inputs / (1 - self.rate)",
        "inputs",
        "tests/layers/test_dropout.py",
    ),
    (
        "positions ignore where decoding stands",
        "ops.arange(length, dtype=dtype) + ops.cast(start, dtype)",
        "ops.arange(length, dtype=dtype)",
        "tests/layers/test_positions.py",
    ),
    (
        "waves have the wrong length",
        "np.arange(0, dim, 2) / dim)",
        "np.arange(0, dim, 2) / (dim - 2))",
        "tests/layers/test_positions.py",
    ),
    (
        "the local window of Luong is open at its edge",
        "ops.abs(distance) <= self.window",
        "ops.abs(distance) < self.window",
        "tests/layers/test_luong.py",
    ),
    (
        "the Gaussian of local-p is twice as wide",
        "(2 * (self.window / 2) ** 2)",
        "(2 * self.window**2)",
        "tests/layers/test_luong.py",
    ),
    (
        "the gates of the LSTM stand in another order",
        "write, keep, new, read = ops.split(gates, 4, axis=-1)\n        new_memory",
        "write, new, keep, read = ops.split(gates, 4, axis=-1)\n        new_memory",
        "tests/layers/test_recurrent.py",
    ),
    (
        "padding changes the state of a recurrent cell",
        "ops.where(mask, new, old) for new, old",
        "new for new, old",
        "tests/layers/test_recurrent.py",
        "def keep_where_masked",
    ),
    (
        "the residual of pre-norm passes through the norm",
        "            x = self.feed_forward_norm(x)\n        x = residual",
        "            x = residual = self.feed_forward_norm(x)\n        x = residual",
        "tests/layers/test_transformer_layers.py",
        "class TransformerEncoderLayer",
    ),
    (
        "the decoder layer looks into the future",
        "use_causal_mask=use_causal_mask,\n            cache=",
        "use_causal_mask=False,\n            cache=",
        "tests/layers/test_transformer_layers.py",
    ),
    (
        "cross-attention ignores the mask of the source",
        "attend_to_source(self.cross_attention, x, encoder_sequence, mask, cross",
        "attend_to_source(self.cross_attention, x, encoder_sequence, None, cross",
        "tests/layers/test_transformer_layers.py",
    ),
    (
        "chunks forget to rescale what they have added up",
        "block_total * scale + ops.sum(exponentials, axis=-1)",
        "block_total + ops.sum(exponentials, axis=-1)",
        "tests/layers/fast/test_chunked_attention.py",
    ),
    (
        "the gradient of chunks lacks the softmax's own part",
        "weights * (weight_gradient - delta[..., None])",
        "weights * weight_gradient",
        "tests/layers/fast/test_chunked_attention.py",
    ),
    (
        "a cache is written at its beginning",
        "ops.slice_update(cache[1], (0, index, 0), value)",
        "ops.slice_update(cache[1], (0, 0, 0), value)",
        "tests/layers/test_multi_head.py -k cache",
    ),
    (
        "a sparse window is one token wider",
        "return ops.abs(query - key) < self.width",
        "return ops.abs(query - key) <= self.width",
        "tests/layers/test_sparse_patterns.py -k equals_the_equation",
    ),
    (
        "chunks that only touch a sparse window are skipped",
        "return near(queries, keys, self.width - 1)",
        "return near(queries, keys, 0)",
        "tests/layers/test_sparse_patterns.py -k equals_the_equation",
    ),
    (
        "random blocks are neighbours, which are read anyway",
        "others = others[np.abs(others - i) > radius]",
        "others = others[np.abs(others - i) >= 0]",
        "tests/layers/test_sparse_patterns.py -k random_blocks_are_other",
    ),
    (
        "an LSTMN attends to the empty places of its tape",
        "weights = masked_softmax(scores, filled)",
        "weights = masked_softmax(scores, ops.ones_like(filled))",
        "tests/layers/test_lstmn.py",
    ),
    (
        "the gradient of an LSTMN lacks the softmax's own part",
        "weights * (d_weights[..., 0] - ops.sum(weights * d_weights[..., 0], axis=-1, keepdims=True))",
        "weights * d_weights[..., 0]",
        "tests/layers/test_lstmn.py",
    ),
    (
        "LoRA forgets its factor",
        "ops.cast(factor * product,",
        "ops.cast(product,",
        "tests/layers/fast/test_lora.py",
    ),
    (
        "merging LoRA loses what was trained",
        "        self._kernel.assign(self.kernel)\n",
        "",
        "tests/layers/fast/test_lora.py",
    ),
)

BREAKS = [*LAYERS, *DECODING, *TRAINING, *ZOO, *DATA, *FINETUNING, *PIPELINES, *MODELS]
