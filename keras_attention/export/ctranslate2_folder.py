"""Exports a translator for CTranslate2: a folder that `ctranslate2.Translator` loads, with its tokenizers."""

from keras_attention import __version__
from keras_attention.export.signatures import PIECES, listing
from keras_attention.pipelines.ctranslate2_engine import write_ctranslate2

README = """{name} for CTranslate2: pieces in, pieces out. It needs ctranslate2, and the tokenizers beside it.

    import ctranslate2

    translator = ctranslate2.Translator("{name}", intra_threads=1)
    pieces = {pieces}
    found = translator.translate_batch([pieces], beam_size={beam_size}, patience=2, length_penalty=1)
    print(found[0].hypotheses[0])

{tokenizers}

{listing}

CTranslate2 ranks by log probability / length^length_penalty, keras_attention by log probability /
((5 + length) / 6)^length_penalty: with equal numbers, answers may differ. `keras-attention translate --engine
ctranslate2` uses the second rule. Written by keras_attention {version}.
"""
SENTENCEPIECE = """source_tokenizer/tokenizer.model and target_tokenizer/tokenizer.model are SentencePiece models: their
pieces with "</s>" at the end are the input; `decode_pieces` makes text of the output."""
OTHERS = 'source_tokenizer and target_tokenizer are tokenizers of keras_attention; the input ends with "</s>".'


def export_ctranslate2(folder, translator, name, quantization=None):
    """Writes the format "ctranslate2" of `Translator.exports`.

    Args:
        folder: Path of an empty folder for the files.
        translator: Translator of a Transformer.
        name: str, name of the folder in README.txt.
        quantization: see `write_ctranslate2`.

    Returns:
        Dict, the signature, see `signatures.PIECES`.

    Raises:
        UserError: if ctranslate2 is not installed, or the model is not a Transformer.
    """
    write_ctranslate2(folder, translator, quantization)
    translator.source_tokenizer.save(folder / "source_tokenizer")
    translator.target_tokenizer.save(folder / "target_tokenizer")
    examples = translator.entry.metrics["examples"] if translator.entry else ()
    texts = [example["source"] for example in examples] or ["A dog runs."]
    (ids,), _ = translator.encode(texts[:1], translator.decoding["max_source_length"])
    both = all((folder / side / "tokenizer.model").exists() for side in ("source_tokenizer", "target_tokenizer"))
    text = README.format(
        name=name,
        pieces=translator.source_tokenizer.tokens(ids),
        beam_size=translator.decoding["beam_size"],
        tokenizers=SENTENCEPIECE if both else OTHERS,
        listing=listing(PIECES),
        version=__version__,
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")
    return PIECES
