"""Pipelines in formats that run without this package: which function writes which format."""

from keras_attention.support.moved import moved_name

# The class of a pipeline -> the name of a format -> "module:function", the function that writes it.
_BERT_FILES = {
    "litert": "keras_attention.export.runtimes:export_bert_litert",
    "onnx": "keras_attention.export.runtimes:export_bert_onnx",
}
WRITERS = {
    "Translator": {
        "saved_model": "keras_attention.export.graph_writers:export_saved_model",
        "litert": "keras_attention.export.runtimes:export_litert",
        "onnx": "keras_attention.export.runtimes:export_onnx",
        "ctranslate2": "keras_attention.export.runtimes:export_ctranslate2",
    },
    "TextGenerator": {"saved_model": "keras_attention.export.graph_writers:export_writer"},
    "TextEncoder": {"saved_model": "keras_attention.export.graph_bert:export_encoder", **_BERT_FILES},
    "MaskFiller": {"saved_model": "keras_attention.export.graph_bert:export_filler", **_BERT_FILES},
    "Classifier": {"saved_model": "keras_attention.export.graph_bert:export_classifier", **_BERT_FILES},
    "DocumentClassifier": {"saved_model": "keras_attention.export.graph_documents:export_documents"},
    "InputClassifier": {"saved_model": "keras_attention.export.graph_inputs:export_input_classifier"},
}


def writers_of(pipeline):
    """The formats in which a pipeline can be exported: dict from name to "module:function", see `WRITERS`.

    The function takes (folder, pipeline, name, **options), writes into an empty folder and returns a signature.
    """
    return next((WRITERS[cls.__name__] for cls in type(pipeline).__mro__ if cls.__name__ in WRITERS), {})


def __getattr__(name):
    return moved_name(__name__, name)
