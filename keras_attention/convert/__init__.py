"""Converts published BERT, XLM-RoBERTa, GPT-2 and Marian checkpoints to models of ours, without their libraries."""

from pathlib import Path

from keras_attention.convert.published_settings import Converted, Fields
from keras_attention.support.errors import UserError

__all__ = ["Converted", "load_checkpoint"]


def load_checkpoint(path: str | Path) -> Converted:
    """Converts a published checkpoint into a model of this package with the same outputs.

    Every size, name and shape is checked before a model is built. No code from the folder runs. Neither torch nor
    transformers is needed; a Google checkpoint needs TensorFlow.

    Args:
        path: str or Path, a folder, or a name such as "hf://ORG/NAME", see `convert.published`. Hugging Face:
            `config.json`, `model.safetensors`, `vocab.txt` or `tokenizer.json`, and `tokenizer_config.json` if there
            is one; BERT and DistilBERT as encoder, masked language model or classifier, with the pooling from
            `modules.json` of sentence-transformers if there is one; the same and XLM-RoBERTa with
            `sentencepiece.bpe.model`, or unigram pieces in `tokenizer.json`; GPT-2 with `tokenizer.json`, or
            `vocab.json` and `merges.txt`; Marian translators with `vocab.json`, `source.spm`, `target.spm`, and
            `model.safetensors` or `tf_model.h5`. Google: `bert_config.json`, `vocab.txt` and the files of a
            TensorFlow 1 checkpoint such as `bert_model.ckpt.index`. keras-hub: the preset of a `BertBackbone`.

    Returns:
        Converted.

    Raises:
        UserError: names the file, field or tensor that is missing, damaged or not supported.
    """
    from keras_attention.convert.published import fetched, is_published_name

    folder = (fetched(path).folder if is_published_name(path) else None) or Path(path)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Expected the folder of a published checkpoint.")
    if (folder / "bert_config.json").is_file():
        from keras_attention.convert.tensorflow_bert import load_google

        return load_google(folder)
    if (folder / "config.json").is_file():
        from keras_attention.convert.hugging_face import load_hugging_face
        from keras_attention.convert.tensorflow_bert import load_keras_preset

        fields = Fields(folder / "config.json")  # read once: it may be large
        load = load_keras_preset if "registered_name" in fields.values else load_hugging_face
        return load(folder, fields)
    raise UserError(f"{folder} has neither config.json (Hugging Face, keras-hub) nor bert_config.json (Google).")
