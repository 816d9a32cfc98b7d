"""Dockerfile and docs/deploy.md: what a linter says, and the steps themselves without a container."""

import configparser
import contextlib
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import crossplane
import pytest
import yaml
from doc_pages import PAGES, ROOT, blocks
from server.tiny_zoo import server_process

from keras_attention.cli.main import make_parser

SETUP = (ROOT / "setup.py").read_text(encoding="utf-8")
USER = 10001
PORT = "8000"


class Step(NamedTuple):
    """An instruction of the Dockerfile, such as ("RUN", "pip install .", stage 0)."""

    name: str
    text: str
    stage: int


def read_steps():
    """The instructions of the Dockerfile, with continued lines joined."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    joined = re.sub(r"\\\n\s*", "", "\n".join(line for line in lines if not line.startswith("#")))
    steps, stage = [], -1
    for line in filter(None, joined.splitlines()):
        name, text = line.split(maxsplit=1)
        stage += name == "FROM"
        steps.append(Step(name, text, stage))
    return steps


STEPS = read_steps()
LAST = [step for step in STEPS if step.stage == STEPS[-1].stage]


def texts(name, steps=STEPS):
    return [step.text for step in steps if step.name == name]


def only(name):
    """The text of an instruction that stands once in the last stage."""
    (text,) = texts(name, LAST)
    return text


def copied():
    """The files and folders that are copied from the checkout."""
    for text in texts("COPY"):
        if not text.startswith("--from"):
            yield from text.split()[:-1]


def findings(path):
    """The codes of what hadolint finds in a Dockerfile."""
    program = Path(sys.executable).with_name("hadolint")  # of the extra [test]
    process = subprocess.run([program, "--format", "json", path], capture_output=True, text=True, check=False)
    return [one["code"] for one in json.loads(process.stdout)]


def test_the_linter_finds_nothing(tmp_path):
    assert findings(ROOT / "Dockerfile") == []
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN sudo true\n")
    assert findings(tmp_path / "Dockerfile") == ["DL3006", "DL3004"]


def test_base_images_have_a_version_and_agree():
    images = {text.split()[0] for text in texts("FROM")}
    assert len(images) == 1
    (version,) = re.findall(r"^python:(3\.\d+)-slim-\w+$", images.pop())
    assert f"Programming Language :: Python :: {version}" in SETUP


def test_the_server_runs_without_rights():
    assert only("USER") == f"{USER}:{USER}"
    names = [step.name for step in LAST]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in ("RUN", "COPY"))
    assert not {"ADD", "ONBUILD", "MAINTAINER"} & {step.name for step in STEPS}
    assert "sudo" not in " ".join(texts("RUN"))


def test_installs_leave_no_caches_and_fetch_no_scripts():
    for command in texts("RUN"):
        assert "pip install" not in command or "--no-cache-dir" in command
        assert not re.search(r"\b(curl|wget)\b|\|\s*(ba)?sh\b|apt-get", command)


def test_no_secret_is_part_of_the_image():
    for text in (*texts("ENV"), *texts("ARG")):
        assert not re.search("token|secret|password|key", text, re.IGNORECASE)


def test_commands_are_lists_and_their_flags_exist():
    entry, arguments = json.loads(only("ENTRYPOINT")), json.loads(only("CMD"))
    assert arguments == []
    options = make_parser().parse_args([*entry[1:], "--model", "a"])
    assert (entry[0], options.host, options.models) == ("keras-attention", "0.0.0.0", ["a"])
    assert only("EXPOSE") == PORT == str(options.port)
    assert f"127.0.0.1:{PORT}/health" in health_check()[-1]
    assert re.findall(r"--(\w[\w-]+)=", only("HEALTHCHECK")) == ["interval", "timeout", "start-period", "retries"]
    assert only("STOPSIGNAL") == "SIGTERM"


def health_check():
    return json.loads(only("HEALTHCHECK").partition(" CMD ")[2])


def test_copied_files_exist_and_are_not_ignored():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert set(copied()) == kept
    assert all((ROOT / name).exists() for name in kept)
    ignored = [rule.removeprefix("**/") for rule in rules if rule.startswith("**/")]
    assert any(fnmatch.fnmatch("__pycache__", rule) for rule in ignored)
    extras = re.search(r"\.\[([\w,]+)\]", " ".join(texts("RUN")))[1].split(",")
    assert all(f'"{extra}": ' in SETUP for extra in extras)


def test_the_page_names_the_folders_of_the_image():
    page = PAGES["deploy.md"]
    variables = dict(one.split("=", 1) for one in only("ENV").split())
    assert variables["HOME"] == "/cache"
    assert f"user {USER}" in page
    (text,) = (text for language, text in blocks("deploy.md") if language == "yaml")
    service = yaml.safe_load(text)["services"]["models"]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["volumes"] == ["cache:/cache"]
    options = make_parser().parse_args(["serve", *service["command"]])
    assert options.quota == 60


def unit():
    """The systemd unit of the page."""
    (text,) = (text for language, text in blocks("deploy.md") if language == "ini")
    return text


def test_the_unit_starts_the_server_with_flags_that_exist():
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read_string(unit())
    service = parser["Service"]
    words = shlex.split(service["ExecStart"])
    options = make_parser().parse_args(words[1:])
    assert options.api_key_file.startswith("${CREDENTIALS_DIRECTORY}/")
    assert service["LoadCredential"].partition(":")[0] == Path(options.api_key_file).name
    assert service["DynamicUser"] == "yes"
    assert "MemoryDenyWriteExecute" not in service  # compiled programs are written, then executed


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="There is no systemd.")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    path = tmp_path / "keras-attention.service"
    path.write_text(unit().replace("/opt/keras-attention/bin/keras-attention", sys.executable))
    process = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True)
    complaints = [line for line in process.stderr.splitlines() if path.name in line]
    assert complaints == []


def of_nginx():
    """The configuration of nginx of the page."""
    (text,) = (text for language, text in blocks("deploy.md") if language == "nginx")
    return text


def errors_of_nginx(path, text):
    """The errors of a configuration, by nginx's own reader, which needs no nginx."""
    path.write_text(f"events {{}}\nhttp {{\n{text}}}\n")
    return [error["error"] for error in crossplane.parse(str(path), strict=True)["errors"]]


def test_the_configuration_of_nginx_has_known_directives_at_their_places(tmp_path):
    assert errors_of_nginx(tmp_path / "nginx.conf", of_nginx()) == []
    assert f"proxy_pass http://127.0.0.1:{PORT};" in of_nginx()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("proxy_buffering", "proxy_bufering", 'unknown directive "proxy_bufering"'),
        ("buffering off;", "buffering of;", 'invalid value "of" in "proxy_buffering" directive'),
        ("deny all; }", "deny all;", 'expecting "}"'),
        ("server_name site.example", "server_name", 'invalid number of arguments in "server_name"'),
        ("limit_req zone", "limit_req_zone zone", '"limit_req_zone" directive is not allowed here'),
    ],
)
def test_a_wrong_configuration_of_nginx_is_found(old, new, message, tmp_path):
    (error,) = errors_of_nginx(tmp_path / "nginx.conf", of_nginx().replace(old, new))
    assert message in error


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nginx"), reason="There is no nginx.")
def test_nginx_passes_requests_on(zoo, tmp_path):
    """The configuration of the page, with plain HTTP at a free port."""
    text = of_nginx()
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    flags = ["--model", "tiny", "--allow-host", "site.example"]
    with server_process("serve", *flags, KERAS_ATTENTION_ZOO=str(zoo)) as (_, url):
        changed = re.sub(r".*ssl_certificate.*\n", "", text).replace("443 ssl", f"127.0.0.1:{port}")
        changed = changed.replace(f"http://127.0.0.1:{PORT}", url)
        frame = f"daemon off; pid {tmp_path}/pid; error_log stderr; user root; events {{}}\nhttp {{ access_log off;"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        frame += "".join(f" {kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
        (tmp_path / "nginx.conf").write_text(f"{frame}\n{changed}\n}}\n")
        proxy = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)])
        try:
            through = f"http://127.0.0.1:{port}"
            wait_for(through + "/health", {"Host": "site.example"})
            body = b'{"texts": ["Men sit."]}'
            headers = {"Host": "site.example", "Content-Type": "application/json", "Origin": "http://site.example"}
            request = urllib.request.Request(f"{through}/v1/translate", body, headers)
            assert json.load(urllib.request.urlopen(request))["model"] == "tiny"
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(urllib.request.Request(f"{through}/metrics", headers=headers))
        finally:
            proxy.terminate()
            proxy.wait()


def wait_for(url, headers=()):
    """Waits until an address answers 200."""
    end = time.monotonic() + 120
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers))).status
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the steps of the build stage install into, in place of /opt/keras-attention."""
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    for parent in folder.parents[:2]:
        parent.chmod(parent.stat().st_mode | 0o011)  # the user of the server must reach it
    source, opt = folder / "source", folder / "keras-attention"
    source.mkdir()
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    for command in texts("RUN", [step for step in STEPS if step.stage == 0]):
        command = command.replace("/opt/keras-attention", str(opt)).replace("python ", f"{sys.executable} ", 1)
        subprocess.run(["bash", "-e", "-c", command], check=True, cwd=source)
    shutil.rmtree(source)
    return opt


def as_in_the_container(command, folder, environment):
    """Starts a command as the user of the image, where root may start it so, on a read-only file system."""
    cache, temporary = folder / "cache", folder / "tmp"
    for path in (cache, temporary):
        path.mkdir()
        path.chmod(0o700)
    if os.getuid() == 0 and shutil.which("unshare") and shutil.which("setpriv"):
        mounts = [f"mount -t tmpfs -o mode=0700,uid={USER},gid={USER} tmpfs {path}" for path in (cache, temporary)]
        user = f"setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs --bounding-set=-all"
        script = "; ".join(["mount -o remount,bind,ro /", *mounts, f'exec {user} "$@"'])
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", script, "sh", *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=environment, cwd="/")


@pytest.mark.thorough
def test_the_steps_of_the_dockerfile_serve_models(installed, tmp_path):
    """Install, start as another user on a read-only file system, health check, an answer, and the end."""
    for path in (tmp_path, *tmp_path.parents):
        if Path(tempfile.gettempdir()).resolve() in path.parents:
            path.chmod(path.stat().st_mode | 0o055)
    shutil.copytree(ROOT / "saved_models" / "rnn_attention_dates", tmp_path / "mine")
    environment = dict(one.split("=", 1) for one in only("ENV").split())
    environment = {name: value.replace("/opt/keras-attention", str(installed)) for name, value in environment.items()}
    for inside, here in (("/cache", tmp_path / "cache"), ("/tmp", tmp_path / "tmp")):
        environment = {name: re.sub(f"^{inside}", str(here), value) for name, value in environment.items()}
    environment["TMPDIR"] = str(tmp_path / "tmp")
    entry = [str(installed / "bin" / "keras-attention"), *json.loads(only("ENTRYPOINT"))[1:]]
    arguments = ["--model", "rnn_attention_dates", "--model", str(tmp_path / "mine"), "--port", "0", "--json"]
    server = as_in_the_container([*entry, *arguments], tmp_path, environment)
    try:
        line = server.stdout.readline()
        assert line, server.stderr.read()
        port = json.loads(line)["url"].rpartition(":")[2]
        url = f"http://127.0.0.1:{port}"
        check = [word.replace(f":{PORT}/", f":{port}/") for word in health_check()]
        subprocess.run([str(installed / "bin" / check[0]), *check[1:]], check=True)
        wait_for(f"{url}/ready")
        for model in ("rnn_attention_dates", "mine"):
            body = json.dumps({"texts": ["3. M\u00e4rz 2021"], "model": model}).encode()
            request = urllib.request.Request(f"{url}/v1/translate", body, {"Content-Type": "application/json"})
            assert json.load(urllib.request.urlopen(request))["answers"][0]["translations"][0]["text"] == "2021-03-03"
        server.send_signal(signal.SIGTERM)
        out, log = server.communicate(timeout=60)
        assert server.returncode == 0, log
        assert "answered" in out
        assert "Read-only file system" not in log
    finally:
        server.kill()
        server.communicate()
    listing = subprocess.run(
        [str(installed / "bin" / "keras-attention"), "zoo", "list"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert listing.stdout.count("\n") == len(list((ROOT / "saved_models").glob("*/manifest.json")))
