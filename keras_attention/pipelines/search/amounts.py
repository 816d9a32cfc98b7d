"""Amounts of money in texts, such as $5, 5 million euros or CHF 20.-; their currencies and powers of ten."""

import functools
import re

SYMBOL = "[$£¥€¢฿\u20a0-\u20c0]"
CODE = "(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|USD|ZAR)"
MONEY = rf"(?<![^\W_])(?:[A-Z]{{0,3}}{SYMBOL}|{CODE})"  # before a number: $, US$, EUR
MONEY_BEHIND = rf"(?:(?:[A-Zk]|[A-Z]{{2,3}})?{SYMBOL}(?!\d)|{CODE}\b)"  # $, US$, k€, EUR
SIGN = rf"(?<![\w.,)\u00a0-])(?<!\d{SYMBOL})[-\u2212](?=(?:{MONEY}\s?)?\d)"
DEBT = re.compile(rf"{SIGN}({MONEY})\s?(?=\d)")  # -$5
# Of a currency's sign: its words in amounts of a source, and further ones that may stand for it in an answer.
CURRENCY_WORDS = {
    "€": ("euros?|eur", ""),
    "$": ("dollars?|usd", "|bucks?"),
    "£": ("pounds?|pfund|gbp", "|livres?|quid|sterling"),
    "¥": ("yens?|jpy", "|yuans?|cny|rmb"),
    "¢": ("cents?|centimes?", "|ct|penn(?:y|ies)|pence"),
    "CHF": ("chf|franken|francs?", ""),
}
CURRENCY_IN_ANSWERS = {
    "de": {"€": "Euro", "$": "Dollar", "£": "Pfund", "¥": "Yen", "¢": "Cent", "CHF": "Franken"},
    "en": {"€": "euros", "$": "dollars", "£": "pounds", "¥": "yen", "¢": "cents", "CHF": "francs"},
    "fr": {"€": "euros", "$": "dollars", "£": "livres", "¥": "yens", "¢": "cents", "CHF": "francs"},
}
# Words of powers of ten behind a number, by their zeros; and signs of them beside a currency's sign.
POWERS = {
    "en": {3: "thousand", 6: "millions?", 9: "billions?", 12: "trillions?"},
    "de": {3: "tausend|tsd", 6: "million(?:en)?|mio", 9: "milliarden?|mrd", 12: "billion(?:en)?"},
    "fr": {3: "mille", 6: "millions?", 9: "milliards?", 12: "billions?"},
}
POWERS_IN_ANSWERS = {
    "en": {3: "thousand", 6: "million", 9: "billion", 12: "trillion"},
    "de": {3: "tausend", 6: "Millionen", 9: "Milliarden", 12: "Billionen"},
    "fr": {3: "mille", 6: "millions", 9: "milliards", 12: "billions"},
}
ONE = {"Millionen": "Million", "Milliarden": "Milliarde", "Billionen": "Billion"}
POWER_SIGNS = {3: "[kK]", 6: "m|M|mn|Mn", 9: "bn|Bn|b|B|Md|Mrd"}
POWER_SIGN = f"(?:{'|'.join(POWER_SIGNS.values())})"
POWER = f"(?i:{'|'.join(sorted({word for words in POWERS.values() for word in words.values()}))})\\b"
# Begun only where a number begins, and possessive: so long numbers are searched in linear time.
PRICE = (
    "(?<!\\d)(?<!\\d[.,'’\u00a0\u202f])"
    "(?:\\d{1,3}(?: \\d{3}){1,4}(?!\\d)(?:[.,]\\d++)?+|\\d++(?:[.,'’\u00a0\u202f]\\d++)*+)"
    "(?:[.,][-–—]{1,2}(?![\\w–—-]))?+"  # 20,-
)
PRICES = rf"{PRICE}(?:\s?[-–]\s?{PRICE})?+"
PER = r"(?:/(?:(?!an\b)[^\W\d_]{1,2}[²³]?|[kM]Wh)(?![\w²³]))?+"  # €5/kg
PER_WORDS = {"en": "per", "de": "pro", "fr": "par"}  # read in place of the slash of €20/month
PER_WORDS_OF_SOURCES = {"en": "per|an?", "de": "pro|je", "fr": "par"}
# Beginnings of the words for what an amount is paid for, in the same order in each language.
UNITS = {
    "en": ["hour", "da(?:y|ily)", "week", "month", "year|annual|annum", "night", "person|head|each"],
    "de": ["stund|stünd|std", "tag|täglich", "woche|wöchent", "monat", "jahr|jähr", "nacht|nächt", "person|kopf|jede"],
    "fr": ["heure|horai", "jour|quotid", "semaine|hebdo", "mois|mensuel", "ans?\\b|ann[éu]", "nuit", "perso|tête|chac"],
}
PRICED_WORDS = f"(?i:{'|'.join(words for words, _ in CURRENCY_WORDS.values())})\\b"
MONEY_BESIDE = rf"(?:{SYMBOL}|{CODE}\b|{PRICED_WORDS})"
COMPARISON = "[<>≤≥≈~±]"
AMOUNT = (
    rf"(?:{COMPARISON}\s?)?(?:{SIGN})?(?:"
    rf"{MONEY}\s?-?{PRICE}(?:\s?[-–]\s?(?:{MONEY}\s?)?{PRICE})?+(?:{POWER_SIGN}(?!\w))?+(?:\s?{CODE}\b|\+(?!\w))?+"
    rf"|{PRICE}{SYMBOL}\d\d(?!\d|[.,]\d|\s?{SYMBOL})"  # 5€50
    rf"|{PRICES}(?:\s?{POWER_SIGN}(?!\w))?\s?{MONEY_BEHIND}){PER}"
)
AMOUNT_IN_WORDS = (
    rf"(?P<amount>{PRICES}\s(?:{POWER}\.?\s(?:d['’]|de\s)?)?{PRICED_WORDS}"
    rf"|{PRICES}\s?{POWER}\.?\s?{SYMBOL}|{SYMBOL}\s?{PRICES}\s?{POWER})"
)
SLASH = rf"(?:{AMOUNT_IN_WORDS}|{AMOUNT})(?P<slash>\s?/\s?)(?=an\b|[^\W\d_]{{3}})(?!{CODE}\b|{PRICED_WORDS})"
# An amount in whose place a model has seen a part of a word or a time of the day, or which has two currencies.
NO_AMOUNT = re.compile(rf"(?:{AMOUNT})(?:[^\W\d]|\s?(?:Uhr|heures?|o'clock|{PRICED_WORDS})\b|\s?{SYMBOL}(?!\s?\d))")
BEHIND = rf"\d(?:[.,][-–—]{{1,2}})?[\s-]?(?:(?:{POWER_SIGN}|{POWER}\.?)\s?(?:d['’]|de\s)?)?"
AMOUNTS = {  # a number beside the sign or a code, or before the word
    sign: re.compile(
        rf"(?:{re.escape(sign)}|\b(?:{words})(?<=\b\w{{3}}))\s?-?\d"
        rf"|{BEHIND}(?:[A-Z]{{0,3}}{re.escape(sign)}|(?:{words})\b)",
        re.IGNORECASE,
    )
    for sign, (words, _) in CURRENCY_WORDS.items()
}
CURRENCY_NAMES = {
    sign: re.compile(rf"{re.escape(sign)}|(?<![^\W\d])(?:{words}{others})\b", re.IGNORECASE)
    for sign, (words, others) in CURRENCY_WORDS.items()
}
LETTERS = re.compile(rf"(?<![^\W_])([A-Z]{{1,3}}){SYMBOL}\s?\d|\d\s?([A-Z]{{2,3}}){SYMBOL}")  # those of US$5
OTHER_MONEY = re.compile(rf"(?<![^\W_])({CODE}|{SYMBOL})\s?-?\d|{BEHIND}({CODE}\b|{SYMBOL})")


def amount_in_answers(amount, source_language, target_language):
    """An amount such as "3 billion euros" or "€3 billion" with the words of another language.

    Args:
        amount: str that `AMOUNT_IN_WORDS` matches.
        source_language, target_language: str or None, codes such as "en".

    Returns:
        str, such as "3 Milliarden Euro"; the amount itself if a word is unknown.
    """
    sign = next((sign for sign, name in CURRENCY_NAMES.items() if name.search(amount)), None)
    price = re.search(PRICES, amount)[0]
    zeros = next((zeros for zeros, (_, word) in _power_words(source_language).items() if word.search(amount)), None)
    if sign is None or (zeros is None and re.search(POWER, amount)):
        return amount
    name = CURRENCY_IN_ANSWERS[target_language][sign]
    if zeros is None:
        return f"{price} {name.removesuffix('s') if price == '1' else name}"
    power = POWERS_IN_ANSWERS[target_language][zeros]
    if price == "1":
        power = ONE.get(power, power.removesuffix("s"))
    if target_language == "fr" and power != "mille":
        name = f"d'{name}" if name.startswith("euro") else f"de {name}"
    return f"{price} {power} {name}"


def currency_differs(source, answer, target_language):
    """Whether an answer does not name the currency of an amount, or names another one, or has no amount there.

    Args:
        source, answer: str in NFKC, without items other than numbers.
        target_language: str or None, a code such as "en".
    """
    amounts, other_amounts = (
        [sign for sign, amount in AMOUNTS.items() if amount.search(text)] for text in (source, answer)
    )
    if target_language in CURRENCY_IN_ANSWERS:
        letters = {one or other for one, other in LETTERS.findall(source)}
        signs = {one or other for one, other in OTHER_MONEY.findall(source)}
        if (
            not all(CURRENCY_NAMES[sign].search(answer) for sign in amounts)
            or not all(re.search(rf"(?<![^\W_]){one}(?![^\W\d_])", answer) for one in letters)
            or not all(_has_words(sign) or sign in answer for sign in signs)
            or _comparisons(source) - _comparisons(answer)
        ):
            return True
    added = any(not CURRENCY_NAMES[sign].search(source) for sign in other_amounts)
    return added or bool(NO_AMOUNT.search(answer) and not NO_AMOUNT.search(source))


def _has_words(sign):
    return any(name.fullmatch(sign) for name in CURRENCY_NAMES.values())


def _comparisons(text):
    """Signs such as those of <$20: set of str."""
    return set(re.findall(rf"({COMPARISON})\s?(?={MONEY}\s?\d|{PRICES}\s?{MONEY_BEHIND})", text))


def powers_differ(source, answer, source_language, target_language):
    """Whether a power of ten behind a number, as in "5 million" or "$5m", is not in the other text, too.

    Args:
        source, answer: str in NFKC, without items other than numbers.
        source_language, target_language: str or None, codes such as "en". Without known words: False.
    """
    if source_language not in POWERS or target_language not in POWERS:
        return False
    beside, anywhere = _powers(source, source_language)
    beside_in_answer, anywhere_in_answer = _powers(answer, target_language)
    return bool(beside - anywhere_in_answer or beside_in_answer - anywhere)


def units_differ(source, answer, source_language, target_language):
    """Whether an amount is one for each hour, month or person, and the answer does not name this unit.

    Args:
        source, answer: str in NFKC, without items other than numbers.
        source_language, target_language: str or None, codes such as "en". Without known words: False.
    """
    if source_language not in UNITS or target_language not in UNITS:
        return False
    ends = [match.end() for match in _priced(source_language).finditer(source)]
    units = zip(_units(source_language), _units(target_language), strict=True)
    return any(
        not unit_in_answer.search(answer) for unit, unit_in_answer in units if any(unit.match(source, i) for i in ends)
    )


@functools.lru_cache
def _priced(language):
    """An amount and the word behind which its unit is."""
    return re.compile(rf"(?:{AMOUNT_IN_WORDS}|{AMOUNT})(?:\s?/|\s(?:{PER_WORDS_OF_SOURCES[language]})\s)\s?")


@functools.lru_cache
def _units(language):
    return [re.compile(rf"(?<![^\W\d_])(?:{words})", re.IGNORECASE) for words in UNITS[language]]


def _powers(text, language):
    """The zeros of the powers of ten behind digits, and of all in a text: two sets of int."""
    signs = {zeros for zeros, sign in POWER_SIGNS.items() if _power_sign(sign).search(text)}
    words = _power_words(language)
    beside = {zeros for zeros, (behind_digits, _) in words.items() if behind_digits.search(text)}
    return beside | signs, {zeros for zeros, (_, word) in words.items() if word.search(text)} | signs


@functools.lru_cache
def _power_sign(sign):
    return re.compile(rf"{SYMBOL}\s?{PRICES}(?:{sign})(?!\w)|\d\s?(?:{sign})\s?{SYMBOL}")


@functools.lru_cache
def _power_words(language):
    """Of the zeros of each power of ten, two re.Pattern: its word behind a digit, and anywhere."""
    return {
        zeros: tuple(re.compile(rf"{before}(?:{words})\b", re.IGNORECASE) for before in (r"\d\s?", r"(?<![^\W\d_])"))
        for zeros, words in POWERS.get(language, {}).items()
    }
