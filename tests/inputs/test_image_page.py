"""The demo page with a model that reads pictures and one that reads texts, in a real browser."""

import base64
import io
import time

import numpy as np
import pytest
from browser import chromium, complaints, overflows, set_window
from inputs.pictures import encoded
from inputs.toy_classifier import digits, register_digit_classifier, trained_classifier
from PIL import Image
from selenium.webdriver import ActionChains
from server.test_demo import choose
from server.tiny_zoo import server_in_this_process
from zoo.tiny_bert import TEXTS, task, tiny_classifier, write_tiny

from keras_attention.zoo.schema import ARCHITECTURES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    register_digit_classifier()
    zoo = tmp_path_factory.mktemp("zoo")
    trained_classifier().save(zoo / "digits_tiny")
    images, _ = digits()
    trained_classifier().with_samples(list(1 - images[1200:1202])).save(zoo / "dark_on_light")
    write_tiny(zoo / "moods", tiny_classifier().model, [{"source": TEXTS[0], "output": "good"}], task=task())
    with chromium() as driver, server_in_this_process(zoo) as (url, _):
        set_window(driver)
        driver.get(url)
        yield driver
    del ARCHITECTURES["DigitClassifier"]


def until(page, condition):
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, f"{page.find_element('tag name', 'body').text}, {complaints(page)}"
        time.sleep(0.05)
    return value


def best(page):
    return page.execute_script("return document.querySelector('#answers .best .what')?.textContent")


def shown(page, *names):
    return [page.find_element("id", name).is_displayed() for name in names]


def test_a_picture_is_chosen_and_classified(page, tmp_path):
    choose(page, "digits_tiny")
    until(page, lambda: best(page))  # of the first example
    assert shown(page, "picture", "preview", "first", "second", "table", "explain") == [True, True, *[False] * 4]
    images, _ = digits()
    expected = trained_classifier()
    for number in (1301, 1302, 1303):
        picture = Image.fromarray((images[number] * 255).astype("uint8"))
        (tmp_path / f"{number}.png").write_bytes(encoded(picture))
        page.find_element("id", "image").send_keys(str(tmp_path / f"{number}.png"))
        label = expected.classify(picture)
        until(page, lambda label=label: best(page) == label)
    for button, source in zip(page.find_elements("css selector", "#examples button"), expected.samples, strict=True):
        assert button.find_element("tag name", "img").get_property("naturalWidth") == 8
        button.click()
        label = expected.classify(source)
        until(page, lambda label=label: best(page) == label)
    assert complaints(page) == []


def dropped(page, content, name):
    """Drops a file with this content (bytes) on the field of the input."""
    script = """const files = new DataTransfer();
      const bytes = Uint8Array.from(atob(arguments[0]), (sign) => sign.charCodeAt(0));
      files.items.add(new File([bytes], arguments[1]));
      document.getElementById("input").dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true }));"""
    page.execute_script(script, base64.b64encode(content).decode(), name)


def test_a_picture_is_dropped(page):
    choose(page, "digits_tiny")
    images, _ = digits()
    for number in (1301, 1304, 1305):
        content = encoded(Image.fromarray((images[number] * 255).astype("uint8")))
        dropped(page, content, f"{number}.png")
        label = trained_classifier().classify(content)
        until(page, lambda label=label: best(page) == label)
    dropped(page, b"what a wonderful day", "note.png")
    until(page, lambda: "is not a picture that can be read" in page.find_element("id", "status").text)
    assert len(complaints(page)) == 1  # the refusal


def sketch(page):
    """The drawing as PNG, and the brightness of its pixels (height, width)."""
    url = page.execute_script("return document.getElementById('sketch').toDataURL()")
    content = base64.b64decode(url.partition(",")[2])
    return content, np.asarray(Image.open(io.BytesIO(content)).convert("L"))


def draw(page, *points):
    """Draws a line through points, which are shares of width and height."""
    board = page.find_element("id", "sketch")
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", board)
    width, height = (board.size[side] for side in ("width", "height"))
    places = [(round((x - 0.5) * width), round((y - 0.5) * height)) for x, y in points]
    moves = ActionChains(page, duration=20).move_to_element_with_offset(board, *places[0]).click_and_hold()
    for place in places[1:]:
        moves.move_to_element_with_offset(board, *place)
    moves.release().perform()


@pytest.mark.parametrize(("name", "ground"), [("digits_tiny", 0), ("dark_on_light", 255)])
def test_a_drawn_picture_is_classified(page, name, ground):
    choose(page, name)
    until(page, lambda: (sketch(page)[1] == ground).all())
    classifier, status = trained_classifier(), page.find_element("id", "status")
    drawings = [
        [(0.5, 0.15), (0.5, 0.85)],
        [(0.3, 0.2), (0.7, 0.2), (0.45, 0.85)],
        [(0.3, 0.2), (0.7, 0.3), (0.3, 0.7)],
    ]
    for lines in drawings:
        draw(page, *lines)
        content, pixels = sketch(page)
        assert 0.02 < (pixels == 255 - ground).mean() < (pixels != ground).mean() < 0.3
        label, scores = classifier.classify(content), classifier.classify(content, return_scores=True)
        shares = [f"{share:.1%}".replace("%", " %") for share in scores.probabilities.values()]
        until(page, lambda label=label: best(page) == label)
        until(page, lambda shares=shares: page.find_element("css selector", "#answers .score").text in shares)
        assert not page.find_element("id", "preview").is_displayed()
        page.find_element("id", "wipe").click()
        until(page, lambda: status.text == "Choose a picture, or draw one.")
        assert (sketch(page)[1] == ground).all()
    page.find_element("css selector", "#examples button").click()
    until(page, lambda: page.find_element("id", "preview").is_displayed())
    place = page.find_element("id", "sketch").rect
    draw(page, (0.5, 0.2), (0.5, 0.8))
    assert page.find_element("id", "sketch").rect == place  # a second line begins where one aims
    page.find_element("css selector", "#examples button").click()
    until(page, lambda: (sketch(page)[1] == ground).all())
    assert page.find_element("id", "preview").is_displayed()
    assert complaints(page) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1200, "dark")])
def test_the_drawing_fits_the_window(page, width, scheme):
    set_window(page, width, 900, scheme)
    choose(page, "digits_tiny")
    until(page, lambda: best(page))
    draw(page, (0.3, 0.2), (0.7, 0.2), (0.45, 0.85))
    assert not overflows(page)
    assert page.find_element("id", "sketch").accessible_name == "Drawing, by mouse or finger"
    set_window(page)


def test_other_files_and_large_pictures_are_refused(page, tmp_path):
    choose(page, "digits_tiny")
    status = page.find_element("id", "status")
    (tmp_path / "note.png").write_text("what a wonderful day")
    page.find_element("id", "image").send_keys(str(tmp_path / "note.png"))
    until(page, lambda: "is not a picture that can be read" in status.text)
    (tmp_path / "large.png").write_bytes(bytes(6_100_000))
    page.find_element("id", "image").send_keys(str(tmp_path / "large.png"))
    until(page, lambda: status.text == "large.png is too large: a picture has at most 5 MB.")


def test_a_text_follows_a_picture(page):
    choose(page, "moods")
    choose(page, "digits_tiny")
    until(page, lambda: best(page))
    choose(page, "moods")
    until(page, lambda: best(page) in ("bad", "good"))
    assert shown(page, "picture", "first", "table", "explain") == [False, True, True, True]
    assert page.find_element("id", "text").get_property("value") == TEXTS[0]
