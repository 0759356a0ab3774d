"""Who may read `/metrics`, and the two ways to read it: a page of the web, and a small server in each worker and gateway.

With METRICS_TOKEN set: whoever sends it as a bearer token. Without: only a reader on this machine that came past no
proxy, because behind a proxy everybody looks like this machine.
"""

import hmac
import ipaddress
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from fleet import logs
from telemetry.metrics import REGISTRY

log = logging.getLogger(__name__)
FOLDER = "metrics"  # under VAR: one file per worker and per gateway, its address
PROXIED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_REAL_IP", "HTTP_VIA")
REFUSED = (
    "Figures are only for the monitoring system. Send METRICS_TOKEN as a bearer token; without a token they are read "
    "on this machine only, and not through a proxy. See docs/operations.md.\n"
)


def may_read(environ: Mapping[str, Any]) -> bool:
    """`environ`: CGI names of a request (`HTTP_AUTHORIZATION`, `REMOTE_ADDR`)."""
    token = settings.METRICS_TOKEN
    if token:
        sent = str(environ.get("HTTP_AUTHORIZATION", ""))
        return hmac.compare_digest(sent.encode("utf-8", "replace"), f"Bearer {token}".encode())
    return is_loopback(str(environ.get("REMOTE_ADDR") or "")) and not any(environ.get(name) for name in PROXIED)


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Figures of this web process."""
    if not may_read(request.META):
        return HttpResponse(REFUSED, status=403, content_type="text/plain; charset=utf-8")
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """WSGI: the same for a process that serves nothing else."""
    if environ.get("PATH_INFO") != "/metrics" or environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
        status, kind, body = "404 Not Found", "text/plain", b"Figures are at /metrics.\n"
    elif not may_read(environ):
        status, kind, body = "403 Forbidden", "text/plain", REFUSED.encode()
    else:
        status, kind, body = "200 OK", CONTENT_TYPE_LATEST, generate_latest(REGISTRY)
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")])
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without asking the name service what this machine is called, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return str(self.client_address[0])


class Exporter:
    """A process's own `/metrics`, in a thread. Its address stands in `var/metrics/<what it is>-<pid>` while it runs."""

    def __init__(self, what: str, *, host: str, port: int, folder: Path) -> None:
        if not (is_loopback(host) or settings.METRICS_TOKEN):
            raise ValueError(f"DROVER_METRICS_HOST={host} is open to others: set METRICS_TOKEN as well")
        self._server = make_server(host, port, application, _Server, _Quiet)
        self.address = f"{host}:{self._server.server_port}"
        self.file = folder / FOLDER / f"{what}-{os.getpid()}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            _forget_dead(self.file.parent)
            self.file.write_text(self.address + "\n")
        except OSError as error:  # figures are not worth a worker
            log.warning("the address of the figures, %s, cannot be written: %s", self.address, error)
        log.info("figures at http://%s/metrics", self.address)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.file.unlink(missing_ok=True)


def export(what: str) -> Exporter | None:
    """`/metrics` of this worker or gateway. A port that is taken costs the figures, not the process."""
    try:
        exporter = Exporter(what, host=settings.METRICS_HOST, port=settings.METRICS_PORT, folder=settings.VAR)
    except ValueError as error:
        raise SystemExit(logs.last_words(f"cannot start: {error}")) from None
    except OSError as error:
        log.warning("no figures of this process: port %d cannot be used (%s)", settings.METRICS_PORT, error)
        return None
    exporter.start()
    return exporter


def _forget_dead(folder: Path) -> None:
    """Files of processes that were killed."""
    for file in folder.glob("*-*"):
        try:
            os.kill(int(file.name.rpartition("-")[2]), 0)
        except (ProcessLookupError, ValueError):
            file.unlink(missing_ok=True)
        except PermissionError:  # it lives, and is somebody else's
            pass
