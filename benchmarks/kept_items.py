"""The share of sentences whose numbers, amounts, addresses, names, tags and emoji survive translation, by kind.

    python benchmarks/kept_items.py --model translator_small_en_de
    python benchmarks/kept_items.py --model translator_small_en_de --stand-ins
    python benchmarks/kept_items.py --model translator_small_en_de --text dev.en

The English sentences are generated, with a seed. "intact" means that each item stands in the translation as often as in
the sentence, numbers with the same digits; "undoubted" counts the rest that have no `low_score`, and must be 0. With
`--stand-ins`, the table says how often the model copies each stand-in of `pipelines/items.py` alone; with `--text`, how
many sentences of a file are doubted, for each reason.
"""

import argparse
import random
from collections import Counter

import keras_attention
from keras_attention.pipelines.items import STAND_INS, difference
from keras_attention.pipelines.languages import language_code
from keras_attention.pipelines.search.calendar_words import CALENDAR_WORDS
from keras_attention.pipelines.search.given_names import GIVEN_NAMES
from keras_attention.pipelines.search.place_names import CITIES, COUNTRIES

TEMPLATES = {
    "number": "I bought {} books last week.|The company has {} workers.|Please read page {}.|She was born in {}.|"
    "There are {} people in the hall.|We need {} chairs.|Take bus {} to the station.|He lives in room {}.",
    "two numbers": "Room {} costs {} euros per night.|Bus {} arrives in {} minutes.|We sold {} cars in {}.|"
    "The team won {} of {} games.",
    "decimal": "The price is {} dollars.|The temperature was {} degrees.|It weighs {} kilos.|About {} percent agreed.",
    "amount": "It costs {}.|I paid {} for the book.|Can you lend me {}?|The rent is {} a month.|She earns {}.|"
    "You owe me {}.",
    "time": "The meeting starts at {}.|Our train leaves at {}, please hurry.|He called me at {} yesterday.|"
    "The shop closes at {}.",
    "date": "He was born on {}.|The contract ends on {}.|Please answer by {}.|The letter of {} is lost.",
    "code": "My flight leaves from gate {}.|Your order {} has been shipped.|We are waiting at platform {}.|"
    "The form {} is missing.",
    "behind #": "Your order {} has been shipped.|Please read issue {}.|Where is my package {}?|Photos are under {}.",
    "telephone": "Call me at {}.|My number is {}.|You can reach us at {} every day.",
    "address": "You can find more at {}.|Please visit {} and tell us what you think.|Open {} in your browser.|"
    "The file is at {}.",
    "e-mail": "Please write to {}.|Send the money to {} by Friday.|My address is {}.|Contact {} if you have questions.",
    "placeholder": "Hello {}, how are you?|Dear {}, thank you for your message.|Welcome back, {}!|"
    "The file {} was not found.",
    "tag": "Please read <b>this book</b> today.|This is <i>very</i> important.|I live in <a href='x.html'>Berlin</a>.|"
    "He is <em>not</em> here.|<p>The dog runs.</p>|Good morning!<br/>",
    "emoji": "I love you {}|The food {} was good.|{} Good morning!|We won the game {}!",
    "given name": "Hello {}, how are you?|Dear {}, I hope you are well.|Thank you, {}.|My name is {}.|"
    "I met {} yesterday.|{} is my best friend.|Kind regards, {}|Do you know {}?",
    "name with a title": "Dear {}, I hope you are well.|{} called yesterday.|Is {} at home?|I met {} in Rome.|"
    "Please ask {} for help.|We have to wait for {}.|{}'s car is blue.|I would like to speak to {}.",
    "day": "See you on {}.|The shop is closed on {}.|I will send you the documents by {}.|Can we meet on {}?|"
    "The package arrived on {}.|{} is my birthday.|We have time on {}.|I have an appointment on {}.",
    "place": "I live in {}.|We are flying to {} tomorrow.|{} is very beautiful.|She comes from {}.|Is it cold in {}?|"
    "The letter from {} is here.|My parents want to see {}.|How far is it to {}?",
}
SURNAMES = [
    "Smith",
    "Brown",
    "Young",
    "Baker",
    "Wright",
    "Müller",
    "Schneider",
    "Fischer",
    "Weber",
    "Krüger",
    "Dubois",
    "Leroy",
    "Garcia",
    "Nguyen",
    "O'Neil",
]
PER_KIND = 25


def sentences(seed=0):
    """List of pairs (kind, sentence), `PER_KIND` of each kind."""
    draw = random.Random(seed)
    number = lambda: draw.choice([draw.randint(13, 99), draw.randint(100, 999), draw.randint(1000, 99999)])  # noqa: E731
    word = lambda: "".join(draw.choices("abcdefghiklmnoprstuvw", k=draw.randint(3, 8)))  # noqa: E731
    domain = lambda: f"{word()}.{draw.choice(['org', 'com', 'de', 'co.uk'])}"  # noqa: E731
    items = {
        "number": number,
        "two numbers": number,
        "decimal": lambda: draw.choice([f"{number()}.{draw.randint(1, 99)}", f"{draw.randint(1, 99)},{number():03}"]),
        "amount": lambda: draw.choice(["€{}", "${}", "£{}", "{} €", "{} euros", "{} dollars"]).format(
            draw.choice([number(), f"{number()}.{draw.randint(10, 99)}"])
        ),
        "time": lambda: f"{draw.randint(0, 23)}:{draw.randint(0, 59):02}",
        "date": lambda: draw.choice(
            [f"{draw.randint(1900, 2030)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}", f"March {number()}"]
        ),
        "code": lambda: f"{''.join(draw.choices('ABCDEFGHKLM', k=draw.randint(1, 3)))}{number()}",
        "behind #": lambda: f"#{draw.choice([number(), word(), f'{number()}-{number()}', f'A-{number()}'])}",
        "telephone": lambda: f"+{draw.randint(20, 99)} {number()} {number()}",
        "address": lambda: draw.choice([f"https://{domain()}/{word()}?id={number()}", f"www.{domain()}"]),
        "e-mail": lambda: f"{word()}.{word()}@{domain()}",
        "placeholder": lambda: draw.choice(["{%s}", "{{ %s }}", "${%s}", "%%(%s)s"]) % word(),
        "tag": str,
        "emoji": lambda: draw.choice(["😀😍🎉👍🏽", "❤️", "👨\u200d👩\u200d👧", "🇩🇪", "🍎", "🚀", "☀️"]),
        "given name": lambda: draw.choice(GIVEN_NAMES),
        "day": lambda: draw.choice(CALENDAR_WORDS["en"][:7]),
        "place": lambda: draw.choice([*CITIES, *COUNTRIES]).names["en"][0],
        "name with a title": lambda: f"{draw.choice(['Mr', 'Mr.', 'Mrs', 'Ms.', 'Dr.'])} {draw.choice(SURNAMES)}",
    }
    return [
        (kind, template.format(*(items[kind]() for _ in range(template.count("{}")))))
        for kind, templates in TEMPLATES.items()
        for template in draw.choices(templates.split("|"), k=PER_KIND)
    ]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stand-ins", action="store_true")
    parser.add_argument("--text", metavar="FILE")
    options = parser.parse_args(arguments)
    translator = keras_attention.load(options.model)
    if options.text:
        with open(options.text, encoding="utf-8") as file:
            answers = translator.translate(file.read().splitlines())
        for reason, count in Counter(answer.reason for answer in answers).items():
            print(f"| {reason or 'not doubted'} | {100 * count / len(answers):.2f} % |")
        return
    if options.stand_ins:
        print("| stand-in | copied |", "| --- | --- |", sep="\n", flush=True)
        for kind, names in STAND_INS.items():
            chosen = "address|e-mail|placeholder" if kind == "name" else "number|decimal|time|date|code|telephone"
            templates = [one for part in chosen.split("|") for one in TEMPLATES[part].split("|")]
            for name in names:
                answers = translator.translate([one.format(name) for one in templates], keep_items=False)
                print(f"| {name} | {sum(one.count(name) == 1 for one in answers)} of {len(templates)} |", flush=True)
        return
    pairs = sentences(options.seed)
    languages = language_code(translator.source_language), language_code(translator.target_language)
    print("| kind | sentences | intact | undoubted |", "| --- | --- | --- | --- |", sep="\n", flush=True)
    total, intact, undoubted = Counter(), Counter(), Counter()
    for (kind, sentence), answer in zip(pairs, translator.translate([text for _, text in pairs]), strict=True):
        kept = difference(sentence, answer.text, *languages) is None
        for name in (kind, "all"):
            total[name] += 1
            intact[name] += kept
            undoubted[name] += not kept and not answer.low_score
        if not kept:
            print(f"{sentence} -> {answer.text}", flush=True)
    for kind in total:
        print(f"| {kind} | {total[kind]} | {100 * intact[kind] / total[kind]:.1f} % | {undoubted[kind]} |")


if __name__ == "__main__":
    main()
