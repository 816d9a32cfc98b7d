"""The page in a real browser with models that describe pictures and write what is said, and where their words look."""

import json

import pytest
import soundfile
from browser import chromium, complaints, overflows, set_window
from PIL import Image
from pipelines.tiny_captioner import tiny_captioner, tiny_scenes
from pipelines.tiny_transcriber import RATE, tiny_strings, tiny_transcriber
from server.test_demo import answers, choose, element, open_attention, until
from server.tiny_zoo import server_in_this_process

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """(a browser on the page of a server, the models behind it by name)."""
    zoo = tmp_path_factory.mktemp("zoo")
    tiny_captioner().save(zoo / "describes")
    tiny_transcriber().save(zoo / "hears")
    with chromium() as driver, server_in_this_process(zoo) as (url, models):
        set_window(driver)
        driver.get(url)
        until(driver, lambda: element(driver, "status").text or complaints(driver), "the page")
        yield driver, models


def drawn(page, selector):
    """For each canvas that is shown, whether it has pixels of more than one colour."""
    script = """return JSON.stringify([...document.querySelectorAll(arguments[0])].map((one) => {
      const pixels = new Uint32Array(one.getContext("2d").getImageData(0, 0, one.width, one.height).data.buffer);
      return new Set(pixels).size > 1;
    }))"""
    return json.loads(page.execute_script(script, selector))


def test_a_picture_is_described_with_a_spotlight_for_each_word(opened, tmp_path):
    page, models = opened
    Image.fromarray(tiny_scenes()[3].pixels[..., 0]).save(tmp_path / "picture.png")
    expected = models["describes"].caption(tmp_path / "picture.png", n_best=2)
    choose(page, "describes")
    until(page, lambda: answers(page), "the answer about an example")
    assert element(page, "image-title").text == "Picture to describe"
    element(page, "image").send_keys(str(tmp_path / "picture.png"))
    until(page, lambda: answers(page) == list(map(str, expected)), "the captions")
    assert not element(page, "look").is_displayed()
    open_attention(page)
    until(page, lambda: element(page, "look").is_displayed(), "the spotlights")
    words = [one.text for one in page.find_elements("css selector", "#look figcaption")]
    assert words == expected[0].words
    assert drawn(page, "#look canvas") == [True] * len(words)
    assert not complaints(page)


def test_a_recording_is_written_with_a_row_for_each_word(opened, tmp_path):
    page, models = opened
    soundfile.write(tmp_path / "clip.wav", tiny_strings()[3].waveform, RATE)
    expected = models["hears"].transcribe(tmp_path / "clip.wav", n_best=2)
    choose(page, "hears")
    until(page, lambda: answers(page), "the answer about an example")
    assert element(page, "clip-title").text == "Recording of speech"
    element(page, "clip").send_keys(str(tmp_path / "clip.wav"))
    until(page, lambda: answers(page) == [str(one) or "(nothing)" for one in expected], "the transcripts")
    open_attention(page)
    until(page, lambda: element(page, "look").is_displayed(), "the rows")
    rows = page.find_elements("css selector", "#look > div")
    assert [one.text for one in rows] == ["", *expected[0].words]
    assert drawn(page, "#look canvas") == [True] * len(rows)
    assert not complaints(page)


@pytest.mark.parametrize("name", ["describes", "hears"])
def test_it_fits_a_phone(opened, name):
    page, _ = opened
    set_window(page, 390, 800, "dark")
    choose(page, name)
    open_attention(page)
    until(page, lambda: element(page, "look").is_displayed(), "where words look")
    assert not overflows(page)
    set_window(page)


def test_another_model_hides_the_previous_attention(opened):
    page, _ = opened
    choose(page, "describes")
    open_attention(page)
    until(page, lambda: page.find_elements("css selector", "#look figure"), "spotlights")
    choose(page, "hears")
    until(page, lambda: page.find_elements("css selector", "#look > div"), "rows")
    assert not page.find_elements("css selector", "#look figure")
