"""What a translation recipe shows at its end: scores, translations, an attention map, and answers to typed input."""

import select
import sys

from keras_attention.cli.io.terminal import command_line, one_output_line

SHOWN = 5  # test sentences


def typed_lines(prompt):
    """Yields lines from the keyboard, or those already in the pipe, until an empty line or the end.

    Args:
        prompt: str, shown on a terminal.
    """
    while True:
        if sys.stdin is None or sys.stdin.closed:
            return
        if sys.stdin.isatty():
            print(prompt, end="", flush=True)
        elif not select.select([sys.stdin], [], [], 0.5)[0]:  # a pipe without a writer: do not wait forever
            return
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


def try_out(folder, data, scores, ask):
    """Prints scores, loads an entry, shows translations, draws an attention map, and translates typed input.

    Ends with the command that uses the model.

    Args:
        folder: Path of the entry. The picture is saved beside it, under its name with "_attention.png".
        data: TranslationData; the first test sentences are translated.
        scores: list of dict, see `write_trained`.
        ask: bool, whether to prompt for sentences and translate them.
    """
    from keras_attention.pipelines.base import load_pipeline
    from keras_attention.visualize.figures import attention_heatmap

    for score in scores:
        print(f"{score['set']}: {score['metric']} {score['value']:.2f}  ({score['signature']})")
    translator = load_pipeline(folder, "translate")
    texts = data.test[0][:SHOWN]
    answers = [best for best, *_ in translator.hypotheses(texts, attention=translator.has_attention)]
    for text, answer in zip(texts, answers, strict=True):
        print(one_output_line(f"{text}  ->  {answer.text}"))
    if translator.has_attention:
        picture = folder.with_name(folder.name + "_attention.png")
        attention_heatmap(answers[0].attention, answers[0].source_tokens, answers[0].tokens, picture)
        print(f"Attention weights of the first translation: {picture}")
    dates = data.target_language == "iso"
    prompt = f"A {'date in any of these languages' if dates else 'sentence'} (empty line to end): "
    try:
        for text in typed_lines(prompt) if ask else ():
            best = translator.hypotheses(text)[0][0]
            doubt = f"   (unsure{': is this a date?' * dates})" * best.low_score
            print(one_output_line(f"{text}  ->  {best.text}{doubt}"), flush=True)
    except KeyboardInterrupt:  # ends the questions, as an empty line does
        print()
    print(f"Saved to {folder}. Try: {command_line('translate', folder, texts[0])}")
