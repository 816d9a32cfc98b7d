"""`.ci/release.py` on a small checkout: what it refuses, and that a release is whole or leaves nothing."""

import importlib.util
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from zoo.tiny_entry import write_tiny_entry

from keras_attention import __version__

ROOT = Path(__file__).parents[1]
FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md", "CHANGELOG.md", "Makefile", "mkdocs.yml")
CHANGES = "# Changelog\n\n## Unreleased\n\n- Models can be shared.\n\n## 0.1.0\n\nThe first version.\n"


def git(folder, *arguments):
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A checkout with the package, one model, and a repository on the branch main."""
    folder = tmp_path_factory.mktemp("original")
    for name in ("keras_attention", ".ci"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "models.md", folder / "docs")
    (folder / "benchmarks" / "results").mkdir(parents=True)
    shutil.copy(ROOT / "benchmarks" / "results" / "decode_speed.json", folder / "benchmarks" / "results")
    write_tiny_entry(folder / "saved_models" / "tiny")
    (folder / "CHANGELOG.md").write_text(CHANGES)
    (folder / ".gitignore").write_text("__pycache__/\n*.egg-info/\nbuild/\ndist/\n")
    version = folder / "keras_attention" / "__init__.py"
    version.write_text(re.sub(r'(?m)^__version__ = ".*"', '__version__ = "0.1.0"', version.read_text()))
    tables = module_of(folder, "readme_tables")
    for path, content in tables.tables().items():
        path.write_text(tables.filled(path.read_text(), content))
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@b.c")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def module_of(folder, name):
    spec = importlib.util.spec_from_file_location(name, folder / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(original, tmp_path):
    shutil.copytree(original, tmp_path / "checkout")
    return tmp_path / "checkout"


def missing(checkout, capsys, version="0.2.0"):
    """What the command says is missing; it changes nothing."""
    before = git(checkout, "status", "--porcelain"), git(checkout, "log", "--oneline"), git(checkout, "tag")
    assert module_of(checkout, "release").main([version]) == 2
    assert before == (git(checkout, "status", "--porcelain"), git(checkout, "log", "--oneline"), git(checkout, "tag"))
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == f"{version} is not released:"
    return "\n".join(lines)


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "0.2", "v0.2.0", "0.02.0", "0.2.0rc1", "1.0.0.0"])
def test_a_version_is_three_numbers_and_higher(version, checkout, capsys):
    assert missing(checkout, capsys, version).startswith("- The version must be ")


def test_all_missing_parts_are_named(checkout, capsys):
    (checkout / "CHANGELOG.md").write_text(CHANGES.replace("- Models", "Models").replace("0.1.0", "0.2.0 (today)"))
    (checkout / "README.md").write_text(
        (checkout / "README.md").read_text().replace("| BLEU A 38.61", "| BLEU A 99.99")
    )
    git(checkout, "tag", "v0.2.0")
    git(checkout, "switch", "--quiet", "--create", "other")
    messages = missing(checkout, capsys)
    for message in (
        "The tag v0.2.0 exists already.",
        "A release is made on main. Received: the branch other",
        "The working tree has 2 changed or unknown files",
        "CHANGELOG.md has no line below '## Unreleased'.",
        "CHANGELOG.md has a section 0.2.0 already.",
        "The tables of README.md are old: run `make readme`.",
    ):
        assert message in messages
    assert messages.count("\n") == 5


def test_a_damaged_model_is_not_released(checkout, capsys):
    path = checkout / "saved_models" / "tiny" / "CARD.md"
    path.write_text(path.read_text().replace("A", "B"))
    git(checkout, "commit", "--quiet", "--all", "--message", "Damage")
    assert "'CARD.md' does not match its SHA-256" in missing(checkout, capsys)


def test_nothing_is_changed_by_a_check(checkout, capsys):
    assert module_of(checkout, "release").main(["0.2.0", "--check"]) == 0
    assert capsys.readouterr().out == "Nothing is missing for 0.2.0.\n"
    assert git(checkout, "status", "--porcelain") == git(checkout, "tag") == ""


@pytest.mark.slow
def test_a_release_is_a_commit_a_tag_a_wheel_and_an_sdist(checkout, capsys):
    assert module_of(checkout, "release").main(["0.2.0"]) == 0, capsys.readouterr().err
    assert git(checkout, "log", "-1", "--format=%s") == "Release 0.2.0"
    assert git(checkout, "tag", "--list", "--format=%(contents)", "v0.2.0") == "0.2.0\n\n- Models can be shared."
    assert git(checkout, "rev-parse", "v0.2.0^{commit}") == git(checkout, "rev-parse", "HEAD")
    changes = (checkout / "CHANGELOG.md").read_text()
    assert re.search(
        r"## Unreleased\n\n## 0\.2\.0 \(\d{4}-\d\d-\d\d\)\n\n- Models can be shared\.\n\n## 0\.1\.0", changes
    )
    assert git(checkout, "status", "--porcelain") == ""
    (wheel,) = (checkout / "dist").glob("*-0.2.0-*.whl")
    assert (checkout / "dist" / "keras_attention_zoo-0.2.0.tar.gz").is_file()
    with zipfile.ZipFile(wheel) as file:
        assert b'__version__ = "0.2.0"' in file.read("keras_attention/__init__.py")
        assert "keras_attention/saved_models/tiny/manifest.json" in file.namelist()
    assert "git push origin main v0.2.0" in capsys.readouterr().out


@pytest.mark.slow
def test_a_release_that_cannot_be_built_leaves_nothing(checkout, capsys):
    (checkout / "setup.py").write_text("raise SystemExit('no wheel today')\n")
    git(checkout, "commit", "--quiet", "--all", "--message", "Break")
    assert module_of(checkout, "release").main(["0.2.0"]) == 2
    assert "0.2.0 is not released: " in capsys.readouterr().err
    assert git(checkout, "status", "--porcelain") == git(checkout, "tag") == ""
    assert (checkout / "CHANGELOG.md").read_text() == CHANGES


@pytest.mark.thorough
def test_the_site_has_a_menu_of_versions(tmp_path):
    """The newest is the start, and the pages of earlier versions stay."""
    pytest.importorskip("mkdocs_autorefs")
    (tmp_path / "0.0.9").mkdir()
    (tmp_path / "0.0.9" / "index.html").write_text("earlier")
    assert module_of(ROOT, "versioned_docs").main([str(tmp_path)]) == 0
    versions = [one["version"] for one in json.loads((tmp_path / "versions.json").read_text())]
    assert versions == [__version__, "0.0.9"]
    assert (tmp_path / "0.0.9" / "index.html").read_text() == "earlier"
    page = (tmp_path / __version__ / "index.html").read_text()
    assert '"provider": "mike"' in page
    assert f"{__version__}/index.html" in (tmp_path / "index.html").read_text()


def test_versions_are_ordered_by_their_numbers(tmp_path):
    for name in ("0.9.0", "0.10.0", "images", "0.2.11"):
        (tmp_path / name).mkdir()
    module_of(ROOT, "versioned_docs").write_menu(tmp_path)
    menu = json.loads((tmp_path / "versions.json").read_text())
    assert [one["version"] for one in menu] == ["0.10.0", "0.9.0", "0.2.11"]
