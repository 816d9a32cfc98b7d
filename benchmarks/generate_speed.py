"""Text generation with a GPT-2, compared with `generate` of Hugging Face's transformers at equal weights.

    python benchmarks/generate_speed.py                       # the sizes of gpt_mini_en
    python benchmarks/generate_speed.py --width 768 --layers 12 --heads 12 --vocabulary 50257   # GPT-2's

A GPT-2 with random weights is saved by transformers and converted by this package. Both continue the same prompts with
the most probable tokens, with a cache, in float32. Each engine is a process of its own, and they take turns on the same
cores. Printed for one text at a time and for batches of 32: the medians over the rounds in tokens per second, how many
times as fast ours is, and the share of equal texts. Needs `pip install .[benchmarks]`.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from taking_turns import Turns

from keras_attention.cli.main import guarded

END = "<|endoftext|>"
SEED = 7
SUBJECTS = ("A dog", "The old man", "Two girls", "My friend", "Nobody", "The ship", "A letter", "Her voice")
VERBS = (" ran to the door", " was near the river", " came back in the evening", " had said nothing of it")
BEGINNINGS = [subject + verb for subject in SUBJECTS for verb in VERBS]
BATCHES = (1, 32)


class Ours:
    """A TextGenerator of the converted checkpoint."""

    def __init__(self, folder, tokens):
        from keras_attention.convert import load_checkpoint
        from keras_attention.pipelines.text_generator import TextGenerator

        converted = load_checkpoint(folder)
        self.generator = TextGenerator(converted.model, converted.tokenizer)
        self.tokens = tokens

    def __call__(self, batch):
        begun, written = time.perf_counter(), []
        for start in range(0, len(BEGINNINGS), batch):
            some = BEGINNINGS[start : start + batch]
            written += self.generator.generations(some, max_tokens=self.tokens, temperature=0.0)
        seconds = time.perf_counter() - begun
        return [list(one.token_ids) for (one,) in written], seconds


class HuggingFace:
    """`GPT2LMHeadModel.generate`; the model's end token begins each text, as in ours."""

    def __init__(self, folder, tokens):
        import transformers
        from tokenizers import Tokenizer

        self.model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokens = tokens

    def __call__(self, batch):
        import torch

        end, written = self.model.config.eos_token_id, []
        begun = time.perf_counter()
        for start in range(0, len(BEGINNINGS), batch):
            rows = [[end, *self.tokenizer.encode(text).ids] for text in BEGINNINGS[start : start + batch]]
            longest = max(map(len, rows))
            ids = torch.tensor([[end] * (longest - len(row)) + row for row in rows])
            mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
            with torch.inference_mode():
                options = {"max_new_tokens": self.tokens, "do_sample": False, "pad_token_id": end}
                generated = self.model.generate(ids, attention_mask=mask, **options)
            written += [until_end(row[longest:].tolist(), end) for row in generated]
        return written, time.perf_counter() - begun


def until_end(ids, end):
    """The ids up to and including the first END."""
    return ids[: ids.index(end) + 1] if end in ids else ids


def write_checkpoint(folder, arguments):
    """Saves a GPT-2 with random weights and a vocabulary of bytes and merges."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    torch.manual_seed(SEED)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(BEGINNINGS, trainer)
    tokenizer.add_special_tokens([f"<{number}>" for number in range(arguments.vocabulary - tokenizer.get_vocab_size())])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = transformers.GPT2Config(
        vocab_size=arguments.vocabulary,
        n_positions=arguments.positions,
        n_embd=arguments.width,
        n_layer=arguments.layers,
        n_head=arguments.heads,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.1,  # large enough that the most probable token is clear
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 192), ("layers", 5), ("heads", 3), ("vocabulary", 6000), ("positions", 256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--tokens", type=int, default=100, help="new tokens for each prompt")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds, after one warm-up round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_checkpoint(folder, arguments)
        kinds = {"ours": Ours, "Hugging Face": HuggingFace}
        turns = Turns(kinds, dict.fromkeys(kinds, (folder, arguments.tokens)))
        for batch in BATCHES:
            report(batch, [{name: turns.ask(name, batch) for name in kinds} for _ in range(arguments.rounds + 1)][1:])
        peaks = turns.close()
    print(", ".join(f"{name}: peak memory {peak:,.0f} MB" for name, peak in peaks.items()))


def report(batch, rounds):
    """Prints the speeds at one batch size; a round is a dict from an engine to its (token ids, seconds)."""
    written = {name: ids for name, (ids, _) in rounds[-1].items()}
    speeds = {
        name: sum(map(len, ids)) / statistics.median(one[name][1] for one in rounds) for name, ids in written.items()
    }
    same = sum(ours == theirs for ours, theirs in zip(*written.values(), strict=True)) / len(BEGINNINGS)
    speeds_as_text = ", ".join(f"{name} {speed:,.0f} tokens/s" for name, speed in speeds.items())
    ratio = speeds["ours"] / speeds["Hugging Face"]
    print(f"batch {batch}: {speeds_as_text}, ours is {ratio:.2f} times as fast, {same:.0%} equal texts", flush=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "generate_speed.py"))
