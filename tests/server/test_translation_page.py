"""The page in a real browser, as a translator: menus of languages, and the model that they choose."""

import json
import time

import pytest
from browser import chromium, complaints, overflows, set_window
from selenium.webdriver.support.select import Select
from server.test_demo import answers, choose, element, until, write
from server.tiny_zoo import server_in_this_process
from zoo.tiny_entry import ENGLISH, tiny_parts, write_tiny_entry

from keras_attention.tokenizers import SentencePieceTokenizer

pytestmark = pytest.mark.slow
GERMAN = ["Ein Hund läuft durch den Schnee.", "Zwei Männer sind bei den Büschen.", "Ein Mädchen steigt Treppen hinauf."]
NAMES = ("a_en_de", "b_de_en", "c_en_fr")


def write_tiny_translators(folder):
    """Untrained translators from English to German, back, and to French, which write words of their training texts."""
    tokenizers = {code: SentencePieceTokenizer.train(texts, 61) for code, texts in (("en", ENGLISH), ("de", GERMAN))}
    for seed, name in enumerate(NAMES):
        source, target = name.split("_")[1:]
        both = tokenizers[source], tokenizers.get(target, tokenizers["de"])
        model, *_ = tiny_parts(seed=seed, tokenizers=both)
        about = {"source_language": source, "target_language": target}
        write_tiny_entry(folder / name, (model, *both), about)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """(a browser on the page of a server, the models behind it by name)."""
    zoo = tmp_path_factory.mktemp("zoo")
    write_tiny_translators(zoo)
    write_tiny_entry(zoo / "dates")
    with chromium() as driver, server_in_this_process(zoo) as (url, models):
        set_window(driver)
        driver.get(url)
        until(driver, lambda: element(driver, "status").text or complaints(driver), "the page")
        yield driver, models


@pytest.fixture
def page(opened):
    return opened[0]


@pytest.fixture
def models(opened):
    return opened[1]


def selected(page, name):
    return Select(element(page, name)).first_selected_option.text


def select(page, name, text):
    Select(element(page, name)).select_by_visible_text(text)


def best(models, name, text):
    return [one.text for one in models[name].translate(text, n_best=3)]


def test_the_page_leads_with_translation_and_detects_the_language(page, models):
    assert (selected(page, "from"), selected(page, "to"), selected(page, "model")) == (
        "Detect language",
        "German",
        "a_en_de",
    )
    select(page, "to", "English")
    write(page, GERMAN[0])
    until(page, lambda: answers(page) == best(models, "b_de_en", GERMAN[0]), "an answer")
    assert "German detected" in element(page, "status").text
    assert (selected(page, "from"), selected(page, "model")) == ("Detect language", "b_de_en")


def test_a_translation_keeps_the_line_breaks_of_the_text(page, models):
    choose(page, "dates")
    choose(page, "a_en_de")
    text = f"{ENGLISH[0]}\n\n{ENGLISH[1]}"
    write(page, text)
    until(page, lambda: answers(page) == best(models, "a_en_de", text), "an answer")
    shown = page.find_element("css selector", "#answers .what").text
    assert [len(line) > 0 for line in shown.split("\n")] == [True, False, True]


def test_a_language_that_was_assumed_is_not_called_detected(page):
    choose(page, "dates")
    choose(page, "a_en_de")
    select(page, "from", "Detect language")
    select(page, "to", "German")
    write(page, "Je voudrais bien savoir où se trouve la prochaine gare, s'il vous plaît.")
    until(page, lambda: "wrong language" in element(page, "status").text, "a doubt")
    assert "English assumed" in element(page, "status").text


def test_typed_text_replaces_the_example(page):
    page.execute_script("$('text').focus(); TEXT.show({ source: 'An example.' })")
    assert element(page, "text").get_attribute("value") == "An example."
    page.switch_to.active_element.send_keys("Hello")
    assert element(page, "text").get_attribute("value") == "Hello"


def test_a_word_of_the_translation_shows_which_words_decide_it(page, models):
    choose(page, "dates")
    choose(page, "a_en_de")
    text, translator = ENGLISH[1], models["a_en_de"]
    write(page, text)
    until(page, lambda: answers(page) == best(models, "a_en_de", text), "an answer")
    explained = translator.explain(text).sentences[0]
    place = page.find_elements(
        "css selector", "#answers li:first-child .what .token, #answers li:first-child .what span"
    )
    place[-1].click()
    until(page, lambda: element(page, "explained").is_displayed(), "the words that decide")
    last = len(explained.targets) - 1
    assert element(page, "explained-label").text == f"“{explained.targets[last]}”"
    assert element(page, "words").text == text
    shown = page.execute_script(
        "return [...document.querySelectorAll('#words span')].map((e) => [e.textContent, e.title])"
    )
    numbers = [f"{'+' if effect > 0 else '-'}{abs(effect):.4f}" for effect in explained.effects[last]]
    assert [word for word, _ in shown] == explained.sources
    assert [float(number) for _, number in shown] == pytest.approx([float(one) for one in numbers], abs=2e-3)
    assert complaints(page) == []


SLOWER = """
const [path, milliseconds] = arguments;
window.fast ||= call; window.asked_paths = [];
window.call = async (...all) => {
  asked_paths.push(all[0]);
  if (all[0] === path) await new Promise((go) => setTimeout(go, milliseconds));
  return fast(...all);
};
"""


@pytest.fixture
def slow(page):
    """callable(path, milliseconds): calls of this path take longer."""
    yield lambda path, milliseconds: page.execute_script(SLOWER, path, milliseconds)
    page.execute_script("window.call = window.fast || call")


def translated(page, models, text):
    """Shows the answer of a_en_de: list of the elements of its words."""
    choose(page, "dates")
    choose(page, "a_en_de")
    write(page, text)
    until(page, lambda: answers(page) == best(models, "a_en_de", text), "an answer")
    return page.find_elements("css selector", "#answers .best .token")


def test_a_word_of_a_translation_with_terms_is_explained_as_it_stands_there(page, models):
    translated(page, models, ENGLISH[0])
    page.execute_script("$('demands').open = true")
    write(page, f"{ENGLISH[0].split()[1]} = Schnee", "terms")
    until(page, lambda: answers(page) and "Schnee" in answers(page)[0], "the term")
    shown = answers(page)[0]
    page.find_elements("css selector", "#answers .best .token")[-1].click()
    until(page, lambda: element(page, "explained").is_displayed(), "the words that decide")
    own = models["a_en_de"].explain(ENGLISH[0], target=shown).sentences[0]
    assert element(page, "explained-label").text == f"“{own.targets[-1]}”"
    titles = page.execute_script("return [...document.querySelectorAll('#words span')].map((e) => Number(e.title))")
    assert titles == pytest.approx(own.effects[-1].tolist(), abs=2e-3)
    element(page, "terms").clear()
    page.execute_script("$('demands').open = false")


def test_a_word_of_an_answer_that_is_gone_is_not_explained(page, models, slow):
    words = translated(page, models, ENGLISH[1])
    slow("/v1/alternatives", 500)
    words[-1].click()
    page.execute_script("$('text').value = arguments[0]; ask()", ENGLISH[2])
    until(page, lambda: answers(page) == best(models, "a_en_de", ENGLISH[2]), "an answer")
    time.sleep(1)
    assert "/v1/word-effects" not in page.execute_script("return asked_paths")
    assert not element(page, "explained").is_displayed()


def test_another_translation_chosen_before_the_explanation_came_stays_unexplained(page, models, slow):
    words = translated(page, models, ENGLISH[2])
    slow("/v1/word-effects", 800)
    words[0].click()
    until(page, lambda: "/v1/word-effects" in page.execute_script("return asked_paths"), "a request")
    page.find_elements("css selector", "#choices button")[-1].click()
    time.sleep(2)
    assert not element(page, "explained").is_displayed()


BROKEN = """
const [done] = arguments, of = call, row = (count, at) => Array.from({ length: count }, (_, i) => Number(i === at));
const sentence = (text, answer) => {
  const sources = text.split(" "), targets = answer.split(" ");
  return { text, answer, sources, targets, effects: targets.map((_, at) => row(sources.length, at)) };
};
const translation = "Ein Hund. Zwei Hunde\\n  und ein Hund.";
const sentences = [sentence("A dog.", "Ein Hund."), sentence("Two dogs\\nand a dog.", "Zwei Hunde und ein Hund.")];
window.call = async () => ({ answer: translation, sentences });
$("text").value = "A dog. Two dogs\\nand a dog.";
(async () => {
  const found = [];
  for (const match of translation.matchAll(/\\S+/g)) {
    await explainWord(translation, match.index, match.index + match[0].length, asked.signal, () => true);
    found.push($("explained-label").textContent);
  }
  window.call = of; $("explained").hidden = true;
  return found;
})().then(done);
"""


def test_the_words_of_a_sentence_with_a_line_break_are_found_at_their_places(page):
    words = ["Ein", "Hund.", "Zwei", "Hunde", "und", "ein", "Hund."]
    assert page.execute_async_script(BROKEN) == [f"“{word}”" for word in words]


BUSY = """
const [message, done] = arguments, of = fetch;
let asked = 0;
const busy = { status: 503, headers: new Headers(), json: async () => ({ error: message }) };
window.fetch = async () => asked++ ? { ok: true } : busy;
respond("/v1/translate").then(() => { window.fetch = of; done($("status").textContent); });
"""


@pytest.mark.parametrize("message", ["No answer. Try again.", "No answer. Try again: try again later."])
def test_a_busy_server_is_asked_again_and_the_page_says_so_in_one_sentence(page, message):
    end = "No answer. Try again: asking again by itself ..."
    assert page.execute_async_script(BUSY, message) == end


def test_terms_are_read_up_to_their_first_sign_and_unfinished_ones_are_left_out(page):
    page.execute_script(
        "$('terms').value = arguments[0]", "a=b = c\nbank =\n= Ufer\n =\n Anna \n__proto__ = x\n\nbig = "
    )
    found = page.execute_script("return JSON.stringify(demands())")
    page.execute_script("$('terms').value = ''")
    assert json.loads(found) == {"terms": {"a": "b = c", "__proto__": "x"}, "do_not_translate": ["Anna"]}
    assert page.execute_script("return Object.keys(demands())") == []


def test_terms_of_the_user_stand_in_the_translation(page):
    choose(page, "dates")
    assert not element(page, "demands").is_displayed()
    choose(page, "a_en_de")
    write(page, ENGLISH[0])
    element(page, "demands").find_element("tag name", "summary").click()
    write(page, f"{ENGLISH[0].split()[1]} = Schnee", "terms")
    until(page, lambda: answers(page) and "Schnee" in answers(page)[0], "the term")
    write(page, "Anna", "terms")
    until(page, lambda: answers(page) and "Schnee" not in answers(page)[0], "no term")
    element(page, "terms").clear()
    element(page, "demands").find_element("tag name", "summary").click()
    assert complaints(page) == []


def test_only_languages_with_a_model_can_be_chosen_as_targets(page):
    choose(page, "dates")
    choose(page, "b_de_en")
    options = {one.text: one.is_enabled() for one in Select(element(page, "to")).options}
    assert options == {"English": True, "French": False, "German": False}
    select(page, "from", "Detect language")
    assert all(one.is_enabled() for one in Select(element(page, "to")).options)


def test_two_languages_choose_the_model_and_a_model_shows_its_languages(page, models):
    choose(page, "dates")
    choose(page, "b_de_en")
    assert (selected(page, "from"), selected(page, "to")) == ("German", "English")
    select(page, "from", "English")  # of which there is no translator into English
    assert (selected(page, "to"), selected(page, "model")) == ("German", "a_en_de")
    select(page, "to", "French")
    assert (selected(page, "from"), selected(page, "model")) == ("English", "c_en_fr")
    write(page, ENGLISH[1])
    until(page, lambda: answers(page) == best(models, "c_en_fr", ENGLISH[1]), "an answer")
    choose(page, "dates")
    assert not element(page, "languages").is_displayed()


def test_swapped_languages_translate_the_answer_back(page, models):
    choose(page, "a_en_de")
    write(page, ENGLISH[0])
    there = best(models, "a_en_de", ENGLISH[0])
    until(page, lambda: answers(page) == there, "an answer")
    element(page, "swap").click()
    assert (selected(page, "from"), selected(page, "to"), selected(page, "model")) == ("German", "English", "b_de_en")
    assert element(page, "text").get_attribute("value") == there[0]
    choose(page, "c_en_fr")
    element(page, "swap").click()
    until(page, lambda: element(page, "status").text == "No model translates from French to English.", "the reason")


def test_choosing_another_word_changes_the_translation(page, models):
    choose(page, "dates")
    choose(page, "a_en_de")
    write(page, ENGLISH[2])
    usual = best(models, "a_en_de", ENGLISH[2])
    until(page, lambda: answers(page) == usual, "an answer")
    expected = models["a_en_de"].alternatives(ENGLISH[2], 0)
    page.find_elements("css selector", "#answers .best .token")[0].click()
    until(page, lambda: element(page, "choices").is_displayed(), "the choices")
    buttons = page.find_elements("css selector", "#choices button")
    assert [one.text for one in buttons] == [one.word for one in expected]
    buttons[-1].click()
    until(page, lambda: answers(page)[0] == expected[-1].translation, "the other translation")
    assert not element(page, "choices").is_displayed()
    assert complaints(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_menus_fit_a_phone(page, scheme):
    for width in (360, 768, 1200):
        set_window(page, width=width, scheme=scheme)
        choose(page, "a_en_de")
        assert not overflows(page)
        menus = "return [...document.querySelectorAll('#choice *')].map(e => e.getBoundingClientRect().right)"
        assert max(page.execute_script(menus)) <= width
    set_window(page)
