"""The demo page in a real browser: typing, clicking, the keyboard, a phone, a table that comes back."""

import csv
import math
import time

import pytest
from browser import background, chromium, complaints, overflows, set_window
from server.tiny_zoo import server_in_this_process, write_tiny_zoo
from zoo.tiny_bert import TEXTS, tiny_encoder, write_tiny
from zoo.tiny_entry import ENGLISH
from zoo.tiny_gpt import tiny_generator

from keras_attention.pipelines.classifier import ZeroShotClassifier

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def opened(tmp_path_factory, downloads):
    """(a browser on the page of a server, the models behind it by name)."""
    zoo = tmp_path_factory.mktemp("zoo")
    with chromium(downloads) as driver:
        write_tiny_zoo(zoo)
        tiny_generator("char").save(zoo / "writer")
        write_tiny(zoo / "vectors", tiny_encoder())
        with server_in_this_process(zoo) as (url, models):
            set_window(driver)
            driver.get(url)
            yield driver, models


@pytest.fixture
def page(opened):
    return opened[0]


@pytest.fixture
def models(opened):
    return opened[1]


def element(page, name):
    return page.find_element("id", name)


def until(page, condition, what):
    """Waits until `condition()` holds, and returns its value."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: {page.find_element('tag name', 'body').text}, {complaints(page)}")


def answers(page):
    """The texts of the answers, read at one moment: the page may be about to draw them anew."""
    return page.execute_script("return [...document.querySelectorAll('#answers .what')].map(e => e.textContent)")


def bars(page):
    """How long the bars of the answers are, as shares of all."""
    script = "return [...document.querySelectorAll('#answers .bar')].map(e => e.getBoundingClientRect().width)"
    widths = page.execute_script(script)
    return [width / sum(widths) for width in widths]


def choose(page, model):
    from selenium.webdriver.support.select import Select

    until(page, lambda: element(page, "model").find_elements("tag name", "option"), "models")
    places = "return activities.map((one) => one.models.includes(arguments[0]))"
    button = page.find_elements("css selector", "#activities button")[page.execute_script(places, model).index(True)]
    if button.get_attribute("aria-pressed") != "true":
        button.click()
    Select(element(page, "model")).select_by_visible_text(model)


def open_attention(page):
    """Opens the part of the page that shows where the model looked."""
    until(page, lambda: element(page, "looked").is_displayed(), "the closed part")
    if not element(page, "looked").get_attribute("open"):
        page.find_element("css selector", "#looked summary").click()


def write(page, text, name="text"):
    element(page, name).clear()
    element(page, name).send_keys(text)


def test_translates_while_one_types_and_shows_where_it_looked(page, models):
    choose(page, "words")
    write(page, ENGLISH[1])
    best = [one.text for one in models["words"].translate(ENGLISH[1], n_best=3)]
    until(page, lambda: answers(page) == best, f"answers {best}")
    asked = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/attention')).length"
    assert page.execute_script(asked) == 0  # nobody has asked for it yet
    open_attention(page)
    page.switch_to.frame("view")
    until(page, lambda: page.find_elements("id", "title") and element(page, "title").text == ENGLISH[1], "the view")
    page.switch_to.default_content()
    page.find_element("css selector", "#looked summary").click()
    assert complaints(page) == []


def test_a_gap_is_filled_by_a_click(page, models):
    choose(page, "gaps")
    write(page, "A  runs.")
    until(page, lambda: "Write [MASK]" in element(page, "status").text, "a hint")
    page.execute_script("document.getElementById('text').setSelectionRange(2, 2)")
    element(page, "gap").click()
    best, second, *_ = models["gaps"].fill_mask("A [MASK] runs.")
    until(page, lambda: answers(page)[:2] == [best.words[0], second.words[0]], "fillings")
    page.find_elements("css selector", "#answers button")[1].click()
    assert element(page, "text").get_attribute("value") == second.text


def test_classifies_with_bars_and_a_table_comes_back(page, models, downloads, tmp_path):
    choose(page, "moods")
    classifier = models["moods"]
    write(page, TEXTS[1])
    expected = classifier.classify(TEXTS[1], return_scores=True)
    until(page, lambda: bars(page) == pytest.approx(list(expected.probabilities.values()), abs=0.01), "bars")
    assert answers(page) == list(expected.probabilities)

    texts = [*TEXTS * 5, 'quoted "text", with\na line break']
    with open(tmp_path / "some.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["number", "review"], *enumerate(texts)])
    element(page, "file").send_keys(str(tmp_path / "some.csv"))
    until(page, lambda: element(page, "classify").is_enabled(), "the file is read")
    element(page, "classify").click()
    until(page, lambda: element(page, "download").is_displayed(), "the table is classified")
    element(page, "download").click()
    path = downloads / "some-classified.csv"
    until(page, path.exists, "the table is downloaded")
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["number", "review", "label", "probability"]
    assert [row[1] for row in rows] == texts
    assert [row[2] for row in rows] == classifier.classify(texts)


def test_words_that_decide_are_coloured(page, models):
    choose(page, "pairs")
    write(page, TEXTS[0])
    write(page, TEXTS[2], "text-b")
    expected = models["pairs"].explain(TEXTS[0], TEXTS[2])
    until(page, lambda: answers(page)[:1] == [expected.label], "the label")
    until(page, lambda: element(page, "explain").is_displayed(), "the button")
    element(page, "explain").click()
    until(page, lambda: element(page, "explained").is_displayed(), "the words")
    script = "return [...document.querySelectorAll('#explained .words')].map(e => e.textContent)"
    assert page.execute_script(script) == [TEXTS[0], TEXTS[2]]
    script = "return [...document.querySelectorAll('.words span')].map(e => [e.textContent, e.className])"
    shown = [[word.text, "for" if word.effect > 0 else "against"] for word in expected.words]
    assert page.execute_script(script) == shown
    page.find_element("css selector", ".words span").click()  # a phone has no pointer that hovers
    first = expected.words[0]
    until(page, lambda: element(page, "effect").text == f"{first.text}: {first.effect:+.4f}", "its number")
    write(page, TEXTS[1])
    until(page, lambda: not element(page, "explained").is_displayed(), "the words of the old text are gone")


def test_the_column_with_the_longest_texts_is_chosen(page, tmp_path):
    choose(page, "moods")
    (tmp_path / "some.csv").write_text("id,review,label\n1,a longer text,good\n2,another text,bad\n")
    element(page, "file").send_keys(str(tmp_path / "some.csv"))
    until(page, lambda: element(page, "classify").is_enabled(), "the file is read")
    assert page.execute_script("return document.getElementById('column').selectedOptions[0].text") == "review"


def test_an_inconsistent_table_is_an_error(page, tmp_path):
    choose(page, "moods")
    (tmp_path / "torn.csv").write_text("a,b\n1\n")
    element(page, "file").send_keys(str(tmp_path / "torn.csv"))
    until(page, lambda: "Row 2 has 1 fields" in element(page, "table-status").text, "the fault")
    assert not element(page, "classify").is_enabled()


def downloaded(page, downloads, path):
    """The bytes of the classified table that the page offers for the file at `path`."""
    element(page, "file").send_keys(str(path))
    until(page, lambda: element(page, "classify").is_enabled(), "the file is read")
    element(page, "classify").click()
    until(page, lambda: element(page, "download").is_displayed(), "the table is classified")
    element(page, "download").click()
    file = downloads / f"{path.stem}-classified{path.suffix}"
    until(page, file.exists, "the table is downloaded")
    return file.read_bytes()


def test_a_table_comes_back_as_from_the_command_line(page, downloads, tmp_path):
    choose(page, "moods")
    (tmp_path / "marked.csv").write_text("review\na film\n", encoding="utf-8-sig")
    assert downloaded(page, downloads, tmp_path / "marked.csv").startswith(b"\xef\xbb\xbfreview,label,probability\n")
    (tmp_path / "quotes.tsv").write_text('review\tn\n"A film\t1\nsaid "no"\t2\n')  # with TABs, quotes are text
    header, *rows = downloaded(page, downloads, tmp_path / "quotes.tsv").decode().splitlines()
    assert [row.split("\t")[:2] for row in rows] == [['"A film', "1"], ['said "no"', "2"]]


def test_a_table_in_another_encoding_is_refused(page, tmp_path):
    choose(page, "moods")
    (tmp_path / "latin.csv").write_bytes("review\nein schöner Film\n".encode("latin-1"))
    element(page, "file").send_keys(str(tmp_path / "latin.csv"))
    until(page, lambda: "is not UTF-8" in element(page, "table-status").text, "the fault")
    assert not element(page, "classify").is_enabled()


def test_several_labels_have_their_probabilities_and_requests_keep_the_limit(page):
    choose(page, "moods")
    script = """
        const done = arguments[0], before = [call, URL.createObjectURL, limits], sizes = [];
        let made;
        limits = { items: 2 };
        URL.createObjectURL = (blob) => { made = blob; return "blob:"; };
        call = async (path, { texts }) => {
            sizes.push(texts.length);
            return { answers: texts.map(() => ({ label: ["a", "b"], probabilities: { a: 0.9, b: 0.8 } })) };
        };
        table = { name: "t.csv", mark: "", delimiter: ",", rows: [["text"], ["x"], ["y"], ["z"]] };
        $("column").innerHTML = "<option value=0>text</option>";
        classifyTable().then(() => made.text()).then((text) => done([text, sizes]))
            .finally(() => { [call, URL.createObjectURL, limits] = before; });
    """
    text, sizes = page.execute_async_script(script)
    assert text.splitlines() == ["text,label,probability", *(f"{name},a|b,0.9|0.8" for name in "xyz")]
    assert sizes == [2, 1]


def test_labels_without_a_share_are_rows_only_among_the_first_three(page):
    script = "return labelRows(arguments[0]).map((one) => one.text)"
    assert page.execute_script(script, {"d": 0.0002, "a": 0.9, "b": 0.0997, "c": 0.0001}) == ["a", "b", "d"]
    assert page.execute_script(script, {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}) == ["a", "b", "c", "d"]


def test_no_label_of_a_downloaded_table_is_a_formula(page):
    choose(page, "moods")
    script = """
        const [labels, done] = arguments, before = [call, URL.createObjectURL, limits];
        let made;
        limits = { items: 64 };
        URL.createObjectURL = (blob) => { made = blob; return "blob:"; };
        call = async () => ({ answers: labels.map((label) => ({ label, probabilities: { [label]: 1 } })) });
        table = { name: "t.csv", mark: "", delimiter: ",", rows: [["text"], ...labels.map(() => ["x"])] };
        $("column").innerHTML = "<option value=0>text</option>";
        classifyTable().then(() => made.text()).then((text) => done([text, $("table-status").textContent]))
            .finally(() => { [call, URL.createObjectURL, limits] = before; });
    """
    labels = ["=cmd|'/c calc'!A1", "+1", "-2.5e3", "@SUM(A1)", " =1+1", "\uff1d1", "constructor", "-", "good"]
    text, status = page.execute_async_script(script, labels)
    shielded = {"=cmd|'/c calc'!A1", "@SUM(A1)", " =1+1", "\uff1d1", "-"}
    assert [line.split(",")[1] for line in text.splitlines()[1:]] == [
        f"'{label}" if label in shielded else label for label in labels
    ]
    assert "1 constructor" in status
    assert status.endswith("for formulas have a ' before them: 5")


def test_pairs_have_two_fields(page, models):
    choose(page, "pairs")
    write(page, TEXTS[0])
    write(page, TEXTS[2], "text-b")
    expected = models["pairs"].classify(TEXTS[0], TEXTS[2], return_scores=True)
    until(page, lambda: answers(page) == list(expected.probabilities), "labels")


def test_an_encoder_labels_a_text_and_compares_it(page, models):
    choose(page, "vectors")
    status = element(page, "status")
    write(page, TEXTS[0])
    until(page, lambda: "write labels, or texts to compare it with" in status.text, "a hint")
    write(page, "red dress", "labels")
    until(page, lambda: "write at least two labels" in status.text, "a hint")
    write(page, "red dress, green_grass,", "labels")
    expected = ZeroShotClassifier(models["vectors"], ["red dress", "green_grass"]).classify(
        TEXTS[0], return_scores=True
    )
    until(page, lambda: answers(page) == list(expected.probabilities), "labels")
    assert bars(page) == pytest.approx(list(expected.probabilities.values()), abs=0.01)
    scores = [one.text for one in page.find_elements("css selector", "#answers .score")]
    assert scores == [f"{100 * value:.1f} %" for value in expected.probabilities.values()]
    write(page, "\n".join(TEXTS[1:3]), "text-b")
    nearest = [one.text for one in models["vectors"].similar(TEXTS[0], TEXTS[1:3])]
    until(page, lambda: answers(page) == [*expected.probabilities, *nearest], "labels and texts")
    assert len(page.find_elements("css selector", "#answers .group")) == 2
    assert [one.text for one in page.find_elements("css selector", "#answers .best .what")] == [
        next(iter(expected.probabilities)),
        nearest[0],
    ]
    write(page, "grass, grass", "labels")
    until(page, lambda: "at least two different labels" in status.text, "the fault")
    assert all("/v1/zero-shot" in complaint for complaint in complaints(page))  # the status 422 of this fault
    assert answers(page) == []
    element(page, "labels").clear()
    element(page, "text").send_keys(" ")
    until(page, lambda: answers(page) == nearest, "texts alone")
    choose(page, "moods")
    assert not element(page, "labels").is_displayed()


def test_labels_that_are_numbers_are_sorted_by_probability(page):
    choose(page, "moods")
    script = "return labelRows({ 0: 0.25, 1: 0.75, bad: 0.5 }).map((row) => [row.text, row.score])"
    until(page, lambda: page.execute_script("return typeof labelRows"), "the page")
    assert page.execute_script(script) == [["1", "75.0 %"], ["bad", "50.0 %"], ["0", "25.0 %"]]


def test_something_moves_while_a_model_computes(page):
    choose(page, "moods")
    until(page, lambda: answers(page), "an answer")
    page.execute_script("window.call_before = call; call = () => new Promise(() => {});")
    try:
        write(page, TEXTS[2])
        until(page, lambda: element(page, "status").text == "Computing ...", "what takes time")
        assert page.execute_script(
            "return getComputedStyle(document.querySelector('.answer'), '::before').animationName"
        )
        assert page.execute_script("return document.querySelector('.answer').ariaBusy") == "true"
    finally:
        page.execute_script("call = window.call_before; ask();")
    until(page, lambda: answers(page), "an answer")
    until(page, lambda: not page.execute_script("return document.querySelector('.answer.waiting')"), "the end")


def test_one_first_chooses_what_to_do_then_a_model_that_is_described_in_a_sentence(page):
    choose(page, "moods")
    buttons = page.find_elements("css selector", "#activities button")
    assert [one.text for one in buttons] == [
        "Translate",
        "Which label fits a text?",
        "How do two texts fit together?",
        "Find similar texts",
        "Fill in missing words",
        "Continue a story",
    ]
    buttons[4].click()
    assert [one.get_attribute("aria-pressed") for one in buttons] == [str(at == 4).lower() for at in range(6)]
    assert element(page, "introduction").text == "Put [MASK] in place of a word, and the model guesses it."
    models = "return [...document.querySelectorAll('#model option')].map((one) => one.value)"
    assert page.execute_script(models) == ["gaps"]
    assert element(page, "gap").is_displayed()
    assert not element(page, "write").is_displayed()
    assert page.execute_script("return sentences('Reads films. Its logits are averaged, e.g. here.')") == [
        "Reads films.",
        "Its logits are averaged, e.g. here.",
    ]
    assert page.execute_script("return sentences('Reads films')") == ["Reads films", ""]


def test_buttons_of_examples_have_different_labels(page):
    choose(page, "vectors")
    script = """
        const shown = [], before = model;
        for (const answer of ["neighbours", "labels"]) {
            const pairs = [["a man", "one"], ["a man", "two"], ["x", "y"]];
            const examples = pairs.map(([source, source_b]) => ({ source, source_b }));
            const widget = answer === "labels" ? "pair" : "text";
                model = { ...before, answer, widget, pair: widget === "pair", examples };
            models = models.map((one) => one.name === model.name ? model : one);
            choose();
            shown.push([...document.querySelectorAll("#examples button")].map((e) => e.textContent), $("text-b").value);
        }
        models = models.map((one) => one.name === before.name ? before : one);
        choose();
        return shown;
    """
    encode, seconds, pairs, second = page.execute_script(script)
    assert (encode, seconds) == (["a man", "x"], "one\ntwo")
    assert (pairs, second) == (["a man / one", "a man / two", "x / y"], "one")


def test_empty_rows_of_a_table_are_neither_labelled_nor_counted(page, downloads, tmp_path):
    choose(page, "moods")
    (tmp_path / "holes.csv").write_text(f"n,review\n1,{TEXTS[0]}\n2,\n3,  \n5,\u200b\n")
    _, first, *others = downloaded(page, downloads, tmp_path / "holes.csv").decode().splitlines()
    assert first.startswith(f"1,{TEXTS[0]},")
    assert others == ["2,,,", "3,  ,,", "5,\u200b,,"]
    assert "3 without text" in element(page, "table-status").text
    assert "null" not in element(page, "table-status").text


def test_the_keyboard_reaches_everything(page):
    from selenium.webdriver import ActionChains, Keys

    choose(page, "gaps")
    write(page, "A [MASK] runs.")
    until(page, lambda: answers(page), "fillings")
    element(page, "text").click()
    reached = []
    for _ in range(8):
        ActionChains(page).send_keys(Keys.TAB).perform()
        reached.append(page.execute_script("return document.activeElement.className"))
    assert "what" in reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_light_and_dark(page, scheme):
    inside = """
        const fields = [...document.querySelectorAll("section :is(input, select, button, textarea)")];
        return fields.filter((e) => e.offsetParent).every((e) => {
            const place = e.getBoundingClientRect(), card = e.closest("section").getBoundingClientRect();
            return place.right <= card.right && place.left >= card.left;
        });
    """
    for model in ("words", "moods", "gaps", "pairs", "writer", "vectors"):
        for width in (360, 390, 1200):
            set_window(page, width=width, scheme=scheme)
            choose(page, model)
            assert not overflows(page)
            assert page.execute_script(inside)
    assert (sum(background(page)) < 200) == (scheme == "dark")
    set_window(page)


def test_scores_that_are_no_probabilities_are_shown_on_demand(page):
    choose(page, "words")
    until(page, lambda: answers(page), "an answer")
    until(page, lambda: element(page, "scores").is_displayed(), "the button")
    score = page.find_element("css selector", "#answers .score")
    assert not score.is_displayed()
    element(page, "scores").click()
    assert score.is_displayed()
    element(page, "scores").click()
    choose(page, "moods")
    until(page, lambda: answers(page), "an answer")
    assert not element(page, "scores").is_displayed()
    assert page.find_element("css selector", "#answers .score").is_displayed()


def test_writes_on_and_shows_what_else_was_probable(page, models):
    choose(page, "writer")
    until(page, lambda: element(page, "write").is_displayed(), "the button")
    write(page, "A dog")
    write(page, "12", "length")
    write(page, "0", "temperature")
    element(page, "write").click()
    until(page, lambda: "tokens/s" in element(page, "status").text and element(page, "hint").is_displayed(), "a text")
    (one,) = models["writer"].generations("A dog", max_tokens=12, temperature=0.0)
    assert page.execute_script("return document.getElementById('written').textContent") == "A dog" + one.text
    tokens = page.find_elements("css selector", "#written .token")
    tokens[2].click()
    until(page, lambda: element(page, "alternatives").is_displayed(), "the alternatives")
    script = "return [...document.querySelectorAll('#alternatives li')].map(e => [e.className, e.textContent])"
    shown = page.execute_script(script)
    assert len(shown) == 5
    (chosen,) = [text for name, text in shown if name == "chosen"]
    assert chosen == f"{one.tokens[2].replace(' ', '␣')}{100 * math.exp(one.log_probs[2]):.1f} %"
    write(page, "A girl")
    until(page, lambda: not element(page, "hint").is_displayed(), "the old text is gone")
    write(page, "1000", "length")
    element(page, "write").click()
    until(page, lambda: "tokens/s" in element(page, "status").text, "the beginning of a long text")
    write(page, "A bird")  # ends the writing without a word about the old text
    until(
        page, lambda: element(page, "status").text == "Press Write, and the model continues your text.", "the new text"
    )
    assert not element(page, "hint").is_displayed()
    assert complaints(page) == []


def test_writes_at_once_what_was_just_typed(page, models):
    """The page waits a moment for more letters before it reads a text: that must not end a writing begun meanwhile."""
    choose(page, "writer")
    until(page, lambda: element(page, "write").is_displayed(), "the button")
    write(page, "4", "length")
    write(page, "0", "temperature")
    page.execute_script(
        "const box = document.getElementById('text'); box.value = 'A cat'; box.dispatchEvent(new Event('input'));"
        "document.getElementById('write').click();"
    )
    until(page, lambda: element(page, "hint").is_displayed(), "a text")
    (one,) = models["writer"].generations("A cat", max_tokens=4, temperature=0.0)
    assert page.execute_script("return document.getElementById('written').textContent") == "A cat" + one.text
