"""Small random Marian checkpoints as transformers writes them, with what its own models and `generate` answer.

Run as a program, `marian_models.py FOLDER`, with torch, transformers and sentencepiece: it writes every case.
"""

import json
import sys
from pathlib import Path

TINY_MARIAN = Path(__file__).parent / "tiny_marian"  # two of the cases, see its README.md
SENTENCES = [
    "A dog runs in the park.",
    "Two men are playing soccer.",
    "A woman reads a red book to three small children.",
    "The cat sleeps on the warm roof of the house.",
    "Where is the station? I am late!",
    "He bought 17 apples and 5 pears for 23 euros.",
]
TRANSLATIONS = [
    "Un câine aleargă în parc.",
    "Doi bărbați joacă fotbal.",
    "O femeie citește o carte roșie la trei copii mici.",
    "Pisica doarme pe acoperișul cald al casei.",
    "Unde este gara? Am întârziat!",
    "A cumpărat 17 mere și 5 pere pentru 23 de euro.",
]
TEXTS = ["A dog runs.", "The cat sleeps on a red book.", "I am late, he is not", "Ünknown ț letters 漢", "17 apples 5"]
SIZES = {"d_model": 14, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 61}
SIZES |= {f"{side}_ffn_dim": 19 for side in ("encoder", "decoder")}
SIZES |= {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
# Name -> fields of the configuration, fields of the generation, language tokens.
CASES = {
    "swish": ({"activation_function": "swish", "scale_embedding": True}, {}, ()),
    "relu": ({"activation_function": "relu", "scale_embedding": True}, {"length_penalty": 0.6}, ()),
    "unscaled gelu": ({"activation_function": "gelu", "scale_embedding": False}, {"early_stopping": True}, ()),
    "languages": ({"activation_function": "swish", "scale_embedding": True}, {}, (">>fra<<", ">>ron<<")),
}
MAX_LENGTH = 37
STEPS = 47  # of training: answers end, and differ from source to source, but the model is not sure of them


def write_case(folder, config, generation, languages):
    """Saves a model with random weights, its tokenizer's files, and expected.npz with what it answers."""
    import numpy as np
    import sentencepiece
    import torch
    from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir(parents=True)
    for side, lines in (("source", SENTENCES), ("target", TRANSLATIONS)):
        with open(folder / f"{side}.spm", "wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines * 3), model_writer=file, vocab_size=71, hard_vocab_limit=False,
                character_coverage=1.0, normalization_rule_name="identity", minloglevel=2,
            )  # fmt: skip
    pieces = ["</s>", "<unk>"]
    for side in ("source", "target"):
        processor = sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))
        actual = [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]
        pieces += [piece for piece in actual if piece not in pieces]
    pieces = [piece for piece in pieces if piece not in ("k", "▁the")]  # unknown pieces of the source
    pieces += [*languages, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "ro"}))
    size = len(pieces)
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "forced_eos_token_id": 0}
    torch.manual_seed(len(pieces) + len(generation))
    model = MarianMTModel(MarianConfig(vocab_size=size, **SIZES | config, **ids)).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    train(model, tokenizer, languages)
    search = {"num_beams": 4, "max_length": MAX_LENGTH, "bad_words_ids": [[size - 1]]}
    model.generation_config = GenerationConfig(**ids, **search | generation)
    model.save_pretrained(folder)
    texts = [f"{languages[i % 2]} {text}" for i, text in enumerate(TEXTS)] if languages else TEXTS
    expected = {}
    for i, text in enumerate(texts):
        source = tokenizer([text], return_tensors="pt")
        beams = model.generate(**source, num_return_sequences=2, output_scores=True, return_dict_in_generate=True)
        greedy = model.generate(**source, num_beams=1, early_stopping=False)
        target = torch.cat([beams.sequences[:1], torch.full((1, 1), 0)], dim=1)[:, :11]
        with torch.no_grad():
            logits = model(**source, decoder_input_ids=target).logits[0]
        expected |= {f"source_{i}": source["input_ids"][0], f"target_{i}": target[0], f"logits_{i}": logits}
        expected |= {f"beam_ids_{i}": beams.sequences[0], f"greedy_ids_{i}": greedy[0]}
        expected |= {f"scores_{i}": beams.sequences_scores}
        for name, actual in (("beam", beams.sequences), ("greedy", greedy)):
            expected[f"{name}_{i}"] = np.array(tokenizer.batch_decode(actual, skip_special_tokens=True))
    expected["texts"] = np.array(texts)
    np.savez_compressed(folder / "expected.npz", **{name: np.asarray(value) for name, value in expected.items()})


def train(model, tokenizer, languages):
    """Some steps of training; then another bias, in which UNKNOWN is improbable, because our search never writes it."""
    import torch

    sources = [f"{languages[i % 2]} {text}" for i, text in enumerate(SENTENCES)] if languages else SENTENCES
    batch = tokenizer(sources, text_target=TRANSLATIONS, padding=True, return_tensors="pt")
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.add_(torch.empty_like(weight).uniform_(-0.1, 0.1))
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    with torch.no_grad():
        model.final_logits_bias.uniform_(-0.5, 0.5)
        model.final_logits_bias[0, 1] -= 40


if __name__ == "__main__":
    for name, case in CASES.items():
        write_case(Path(sys.argv[1]) / name, *case)
