"""The demo page with a model that reads pictures and one that reads texts, in a real browser."""

import time

import pytest
from browser import chromium, complaints, set_window
from inputs.pictures import encoded
from inputs.toy_classifier import digits, register_digit_classifier, trained_classifier
from PIL import Image
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
