"""Makes a release: version, section of the changelog, wheel, sdist, commit and tag, or nothing.

    make release VERSION=0.2.0          # calls: python .ci/release.py 0.2.0
    python .ci/release.py 0.2.0 --check # says what is missing, and changes nothing

It refuses when something is missing, and names all of it. Wheel and sdist are built from the files that git knows, and
the wheel is installed into a new virtual environment, before anything is committed. It pushes nothing: the last line
has the command for that.
"""

import argparse
import datetime
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = ROOT / "keras_attention" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
DIST = ROOT / "dist"
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
CURRENT = re.compile(r'(?<=^__version__ = ")[^"]+(?="$)', re.MULTILINE)
UNRELEASED = "## Unreleased"
BRANCH = "main"
CANNOT = 2  # the exit code if something is missing


def main(arguments=None):
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--check", action="store_true", help="say what is missing, and change nothing")
    given = parser.parse_args(arguments)
    if missing := [*problems(given.version)]:
        print(f"{given.version} is not released:\n" + "\n".join(f"- {one}" for one in missing), file=sys.stderr)
        return CANNOT
    if given.check:
        print(f"Nothing is missing for {given.version}.")
        return 0
    return release(given.version)


def problems(version):
    """Yields what is missing, one line each."""
    current = CURRENT.search(VERSION_FILE.read_text(encoding="utf-8"))[0]
    if not VERSION.fullmatch(version):
        yield f"The version must be three numbers such as 0.2.0. Received: {version}"
    elif numbers(version) <= numbers(current):
        yield f"The version must be higher than that of the package, {current}. Received: {version}"
    if git("tag", "--list", f"v{version}"):
        yield f"The tag v{version} exists already."
    if (branch := git("branch", "--show-current")) != BRANCH:
        yield f"A release is made on {BRANCH}. Received: the branch {branch or 'of no name'}"
    if changed := git("status", "--porcelain").splitlines():
        first = changed[0].split()[-1]
        yield f"The working tree has {len(changed)} changed or unknown files, such as {first}: commit them."
    text = CHANGELOG.read_text(encoding="utf-8")
    if not re.search(r"^- ", unreleased(text), re.MULTILINE):
        yield f"{CHANGELOG.name} has no line below {UNRELEASED!r}."
    if re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE):
        yield f"{CHANGELOG.name} has a section {version} already."
    yield from problems_of_models()


def problems_of_models():
    """Yields the damaged models, and the pages that do not show what the models say of themselves."""
    sys.path.insert(0, str(ROOT))
    from keras_attention.support.errors import UserError
    from keras_attention.zoo.entry import MANIFEST, read_entry

    damaged = []
    for path in sorted((ROOT / "saved_models").glob(f"*/{MANIFEST}")):
        try:
            read_entry(path.parent)
        except UserError as error:
            damaged.append(str(error))
    yield from damaged
    if damaged:
        return
    tables = tables_module()
    for path, content in tables.tables().items():
        text = path.read_text(encoding="utf-8")
        if tables.filled(text, content) != text:
            yield f"The tables of {path.relative_to(ROOT)} are old: run `make readme`."


def tables_module():
    """The script that writes the tables of the pages."""
    spec = importlib.util.spec_from_file_location("readme_tables", ROOT / ".ci" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def release(version):
    """Writes the version and the section, builds, commits and tags; after an error the files are as before."""
    before = {path: path.read_bytes() for path in (VERSION_FILE, CHANGELOG)}
    notes = unreleased(CHANGELOG.read_text(encoding="utf-8")).strip()
    with tempfile.TemporaryDirectory() as folder:
        try:
            write(version)
            built = build(version, Path(folder))
            git("add", *map(str, before))
            git("commit", "--quiet", "--message", f"Release {version}")
        except BaseException as error:
            for path, content in before.items():
                path.write_bytes(content)
            git("reset", "--quiet")
            if not isinstance(error, subprocess.CalledProcessError):
                raise
            lines = (error.stderr or error.stdout or "").strip().splitlines()
            print(f"{version} is not released: {lines[-1] if lines else error}", file=sys.stderr)
            return CANNOT
        git("tag", "--annotate", f"v{version}", "--message", f"{version}\n\n{notes}", "--cleanup=verbatim")
        DIST.mkdir(exist_ok=True)
        for path in built:
            shutil.move(path, DIST / path.name)
    print(f"Released {version}: {', '.join(f'dist/{path.name}' for path in built)}, tag v{version}.")
    print(f"To publish it: git push origin {BRANCH} v{version} && twine upload {DIST.name}/*{version}*")
    return 0


def write(version):
    """Writes the version into the package, and dates the section of the changelog."""
    text = VERSION_FILE.read_text(encoding="utf-8")
    VERSION_FILE.write_text(CURRENT.sub(version, text, count=1), encoding="utf-8")
    today = datetime.datetime.now(datetime.UTC).date()
    text = CHANGELOG.read_text(encoding="utf-8")
    heading = f"{UNRELEASED}\n\n## {version} ({today})\n"
    CHANGELOG.write_text(text.replace(f"{UNRELEASED}\n", heading, 1), encoding="utf-8")


def build(version, folder):
    """Builds sdist and wheel outside of the checkout, and installs the wheel into a new virtual environment.

    Returns:
        List of Path: the sdist and the wheel.
    """
    source, environment, dist = folder / "source", folder / "environment", folder / "dist"
    for name in git("ls-files", "-z").split("\0"):
        if name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    script = f"import setuptools.build_meta as backend; backend.build_sdist({str(dist)!r})"
    run([sys.executable, "-c", script], cwd=source)
    (sdist,) = dist.glob("*.tar.gz")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(dist), str(sdist)])
    (wheel,) = dist.glob("*.whl")
    run([sys.executable, "-m", "venv", str(environment)])
    run([str(environment / "bin" / "python"), "-m", "pip", "install", *options[:1], *options[2:], str(wheel)])
    # The packages that it needs are those of this Python: they are hundreds of megabytes, and tests have used them.
    packages = [path for path in sys.path if path.endswith("site-packages")]
    script = f"import sys; sys.path += {packages!r}; import keras_attention as ka; print(ka.__version__, ka.__file__)"
    installed = run([str(environment / "bin" / "python"), "-I", "-c", script]).split()
    if installed[0] != version or not installed[1].startswith(str(environment)):
        raise subprocess.CalledProcessError(1, "import", stderr=f"The installed wheel is {' '.join(installed)}.")
    return [sdist, wheel]


def unreleased(text):
    """The lines of the changelog below "Unreleased", up to the next section."""
    _, _, rest = text.partition(f"{UNRELEASED}\n")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def numbers(version):
    return [int(number) for number in version.split(".")]


def git(*arguments):
    return run(["git", *arguments], cwd=ROOT).strip()


def run(command, cwd=None):
    """The standard output of a command; raises CalledProcessError if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout


if __name__ == "__main__":
    sys.exit(main())
