"""The command that installs an extra: it names the place that this package was installed from, and works."""

import json
import shlex
import shutil
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import pytest

from keras_attention.support import installation
from keras_attention.support.installation import DISTRIBUTION, install_command

ROOT = Path(__file__).parents[2]
OFFLINE = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]


def test_a_checkout_is_named_by_its_folder():
    assert install_command("serve") == f"pip install -e '{ROOT}[serve]'"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, f"{DISTRIBUTION}[cjk]"),
        ("not JSON", f"{DISTRIBUTION}[cjk]"),
        ("[]", f"{DISTRIBUTION}[cjk]"),
        ({"url": "file://{folder}/a%20checkout", "dir_info": {}}, "{folder}/a checkout[cjk]"),
        ({"url": "file://{folder}/removed", "dir_info": {}}, f"{DISTRIBUTION}[cjk]"),
        ({"url": "file://{folder}/a.whl", "archive_info": {}}, f"{DISTRIBUTION}[cjk] @ file://{{folder}}/a.whl"),
        ({"url": "https://a.example/a.whl", "archive_info": {}}, f"{DISTRIBUTION}[cjk] @ https://a.example/a.whl"),
        (
            {"url": "https://a.example/a.git", "vcs_info": {"vcs": "git", "commit_id": "53f1"}},
            f"{DISTRIBUTION}[cjk] @ git+https://a.example/a.git@53f1",
        ),
    ],
)
def test_the_origin_that_pip_records_is_used(origin, expected, tmp_path, monkeypatch):
    (tmp_path / "a checkout").mkdir()
    (tmp_path / "a.whl").touch()
    kept = (
        origin if origin is None or isinstance(origin, str) else json.dumps(origin).replace("{folder}", str(tmp_path))
    )

    class Installed:
        def read_text(self, name):
            return kept if name == "direct_url.json" else None

    monkeypatch.setattr(installation, "CODE", tmp_path)
    monkeypatch.setattr(metadata, "distribution", {DISTRIBUTION: Installed()}.__getitem__)
    assert shlex.split(install_command("cjk")) == ["pip", "install", expected.replace("{folder}", str(tmp_path))]


def test_install_commands_name_the_distribution(tmp_path, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation, "CODE", tmp_path)
    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("serve") == f"pip install '{DISTRIBUTION}[serve]'"


def test_the_extras_of_messages_exist():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    used = {"serve", "search", "cjk", "ctranslate2"}
    assert f'name="{DISTRIBUTION}"' in setup
    assert all(f'"{extra}": ' in setup for extra in used)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "a checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "keras_attention", folder / "keras_attention", ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def python(tmp_path):
    """A fresh virtual environment, which builds with the setuptools of this one."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "tools.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return tmp_path / "venv" / "bin" / "python"


def run(*command, cwd):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    finished = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "editable", "wheel", "index"])
def test_the_command_works_in_a_fresh_environment(form, checkout, python, tmp_path):
    pip = [python, "-m", "pip", "install", *OFFLINE]
    if form in ("wheel", "index"):
        run(python, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", tmp_path, checkout, cwd=tmp_path)
        pip += ["--find-links", tmp_path]
    wheel = next(tmp_path.glob("*.whl"), Path("/none.whl"))
    source, expected = {
        "folder": ([checkout], [f"{checkout}[serve]"]),
        "editable": (["-e", checkout], ["-e", f"{checkout}[serve]"]),
        "wheel": ([wheel], [f"{DISTRIBUTION}[serve] @ {wheel.as_uri()}"]),
        "index": ([DISTRIBUTION], [f"{DISTRIBUTION}[serve]"]),
    }[form]
    run(*pip, "--ignore-installed", *source, cwd=tmp_path)  # that of the environment with the tools
    program = "from keras_attention.support.installation import install_command; print(install_command('serve'))"
    command = shlex.split(run(python, "-P", "-c", program, cwd=tmp_path).stdout)
    assert command == ["pip", "install", *expected]
    run(*pip, *command[2:], cwd=tmp_path)
    assert f"{DISTRIBUTION} " in run(python, "-m", "pip", "list", cwd=tmp_path).stdout
