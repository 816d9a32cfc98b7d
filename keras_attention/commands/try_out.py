"""What a recipe shows at its end: the stored model at work."""

from keras_attention.commands.ask import typed_lines

SHOWN = 5


def try_out(folder, data, ask):
    """Loads an entry back, shows what it does, draws where it looked, and answers what is typed.

    Args:
        folder: Path of the entry. The picture gets its name with "_attention.png".
        data: TranslationData; the first test sentences are translated.
        ask: bool, whether to translate what is typed.
    """
    from keras_attention.visualize.heatmap import attention_heatmap
    from keras_attention.zoo.loading import load_translator

    translator = load_translator(folder)
    texts = data.test[0][:SHOWN]
    answers = [best for best, *_ in translator.hypotheses(texts, attention=translator.has_attention)]
    for text, answer in zip(texts, answers, strict=True):
        print(f"{text}  ->  {answer.text}")
    if translator.has_attention:
        picture = folder.with_name(folder.name + "_attention.png")
        attention_heatmap(answers[0].attention, answers[0].source_tokens, answers[0].tokens, picture)
        print(f"Where it looked while writing the first: {picture}")
    dates = data.target_language == "iso"
    prompt = f"A {'date in any of these languages' if dates else 'sentence'} (empty line to end): "
    for text in typed_lines(prompt) if ask else ():
        best = translator.hypotheses(text)[0][0]
        doubt = f"   (unsure{': is this a date?' * dates})" * best.low_score
        print(f"{text}  ->  {best.text}{doubt}", flush=True)
